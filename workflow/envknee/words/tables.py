"""Tables of a verdict. Pure."""

from typing import NamedTuple

from envknee.verdict.schema.learning import Cost, Rules
from envknee.verdict.schema.memory import CardPrediction
from envknee.verdict.schema.study import Verdict
from envknee.words.numbers import with_interval
from envknee.words.series import series_words
from envknee.words.study import shared_series


class Table(NamedTuple):
    """A table with a title; cells are text."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]


def cards_table(verdict: Verdict) -> Table:
    """Return the environments that are predicted to fit cards: a column for each arm, horizon and batch size, as far as they differ."""
    form = "{arm}" if shared_series(verdict) else "{arm}: {series}" if len(verdict.arms) > 1 else "{series}"
    columns: dict[str, None] = {}
    rows: dict[str, tuple[str, ...]] = {}
    for arm in verdict.arms:
        for card in arm.memory.cards if arm.memory else ():
            columns[form.format(arm=arm.arm, series=series_words(card.series))] = None
            rows[card.card] = (*rows.get(card.card, (card.card,)), fitting(card))
    return Table("Environments for your GPU", ("card", *columns), list(rows.values()))


def fitting(card: CardPrediction) -> str:
    """Return `788 (721 to 843)`, the environments that are predicted to fit a card."""
    return with_interval(card.largest_num_envs or 0, card.largest_num_envs_lower, card.largest_num_envs_upper)


def rules_table(rules: Rules) -> Table:
    """Return the values of each rule at each size, and the cost of the target there."""
    columns = (
        "rule", "environments", "horizon", "batch", "learning rate", "reached", "seconds to target", "GPU-seconds", "frames",
        "s per million frames",
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
