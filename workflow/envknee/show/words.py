"""Phrases and tables that figures, report and terminal share. Pure: they repeat a verdict."""

from collections.abc import Iterable
from typing import NamedTuple

from envknee.verdict.schema.learning import Cost, LearningLimit, Rules
from envknee.verdict.schema.limit import SeriesLimit
from envknee.verdict.schema.memory import CardPrediction
from envknee.verdict.schema.study import ArmVerdict, Verdict
from envknee.verdict.schema.throughput import ThroughputLimit
from envknee.words.series import series_words

STATUS_WORDS = {
    "ok": "measured",
    "target_reached": "target reached",
    "timeout": "budget spent first",
    "oom": "out of memory",
    "refused": "refused: cannot fit",
    "nan": "NaN",
    "diverged": "diverged",
    "invalid": "invalid: fast but wrong",
    "skipped": "not needed",
}


class Table(NamedTuple):
    """A table with a title; cells are text."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]


def progress(verdict: Verdict) -> str:
    """Return the number of trials, and their statuses."""
    statuses = ", ".join(f"{count} {STATUS_WORDS[status]}" for status, count in verdict.statuses.items()) or "none yet"
    return f"{verdict.trials_measured} of {verdict.trials_planned} trials: {statuses}"


def hardware_of(verdict: Verdict) -> list[str]:
    """Return the hardware of all trials, each once."""
    return sorted({device for arm in verdict.arms for device in arm.hardware})


def task_and_hardware(verdict: Verdict) -> str:
    """Return the line below a title: task, hardware, shared horizon and batch size, and study."""
    hardware = hardware_of(verdict) or ["hardware unknown: nothing ran"]
    known = [verdict.drill, verdict.task_id, *hardware, shared_series(verdict), f"study {verdict.study}"]
    return " · ".join(word for word in known if word)


def shared_series(verdict: Verdict) -> str | None:
    """Return horizon and batch size if several arms have the same: a figure names them once, below its title."""
    series = {series_words(limit.series) for arm in verdict.arms for limit in arm.throughput}
    series |= {
        f"{series_words(limit.series)}"
        + (f" at {limit.scaled_from.num_envs:,} environments" if limit.scaled_from else "")
        for arm in verdict.arms
        for limit in arm.learning
    }
    return series.pop() if len(series) == 1 and len(verdict.arms) > 1 else None


def recommended(arm: ArmVerdict) -> ThroughputLimit | None:
    """Return the limit of the recommended series; None if no throughput trial was timed to its end."""
    wanted = arm.headline and arm.headline.series._replace(arm=arm.arm)
    return next((limit for limit in arm.throughput if limit.series == wanted), None)


def reached(limits: Iterable[LearningLimit]) -> str:
    """Return `3 of 5 trials`: how many of those that could reached the target."""
    points = [point for limit in limits for point in limit.points]
    return f"{sum(point.reached for point in points)} of {sum(point.trials for point in points)} trials"


def threshold_interval(limit: SeriesLimit) -> str:
    """Return the interval of a threshold in words."""
    if limit.threshold_lowest is None:
        return "no doubling measured"
    return sizes_between(limit.threshold_lowest, limit.threshold_highest)


def sizes_between(lowest: int, highest: int | None) -> str:
    """Return `512 to 2,048`, `512 alone` or `512 or more`."""
    if highest is None:
        return f"{lowest:,} or more"
    return f"{lowest:,} alone" if highest == lowest else f"{lowest:,} to {highest:,}"


def with_interval(value: float, lower: float | None, upper: float | None, decimals: int = 0) -> str:
    """Return `788 (721 to 843)`, `788 (721 to no upper end)`, or `788` without an interval."""
    end = "no upper end" if upper is None else f"{upper:,.{decimals}f}"
    return f"{value:,.{decimals}f}" + ("" if lower is None else f" ({lower:,.{decimals}f} to {end})")


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
