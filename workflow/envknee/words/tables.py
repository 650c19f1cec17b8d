"""Tables of a verdict. Pure."""

from typing import NamedTuple

from envknee.verdict.schema.learning import Cost, Rules
from envknee.words.intervals import with_interval


class Table(NamedTuple):
    """A table with a title; cells are text."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]


def rules_table(rules: Rules) -> Table:
    """Return the values of each rule at each size, and the cost of the target there."""
    columns = (
        "rule", "environments", "horizon", "batch", "learning rate", "reached", "seconds to target", "GPU-seconds", "environment steps",
        "s per million environment steps",
    )  # fmt: skip
    rows = [
        (
            rule.arm, f"{point.num_envs:,}", f"{point.horizon}", "library" if point.batch_size is None else f"{point.batch_size:,}",
            "the task's" if point.learning_rate is None else f"{point.learning_rate:.3g}", f"{point.reached} of {point.seeds}",
            _cost(point.seconds_to_target, 1), _cost(point.gpu_seconds_to_target, 1), _cost(point.frames_to_target, 0),
            "" if point.seconds_per_million_frames is None else f"{point.seconds_per_million_frames:,.2f}",
        )
        for rule in rules.rules
        for point in rule.points
    ]  # fmt: skip
    return Table("Rules side by side", columns, rows)


def _cost(cost: Cost | None, decimals: int) -> str:
    """Return `12.3 (11.0 to 13.7)`, or `over 12.3` for a lower bound."""
    if cost is None:
        return ""
    if cost.lower_bound:
        return f"over {cost.value:,.{decimals}f}"
    return with_interval(cost.value, cost.interval_lower, cost.interval_upper, decimals)
