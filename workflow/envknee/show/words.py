"""Phrases that figures, report and terminal share. Pure: they repeat what a verdict says."""

from collections.abc import Iterable
from typing import NamedTuple

from envknee.verdict.schema.learning import Cost, LearningLimit
from envknee.verdict.schema.memory import CardPrediction
from envknee.verdict.schema.remedies import Remedies, Remedy
from envknee.verdict.schema.rules import Rules
from envknee.verdict.schema.study import ArmVerdict, Headline, Verdict
from envknee.verdict.schema.throughput import ThroughputLimit
from envknee.verdict.words.numbers import shown_batch

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
    """Return how many trials there are, and how they ended."""
    statuses = ", ".join(f"{count} {STATUS_WORDS[status]}" for status, count in verdict.statuses.items()) or "none yet"
    return f"{verdict.trials_measured} of {verdict.trials_planned} trials: {statuses}"


def hardware_of(verdict: Verdict) -> list[str]:
    """Return what the trials ran on, each once."""
    return sorted({device for arm in verdict.arms for device in arm.hardware})


def task_and_hardware(verdict: Verdict) -> str:
    """Return the line below a title: what was trained, on what, with what all arms share, and in which study."""
    hardware = hardware_of(verdict) or ["hardware unknown: nothing ran"]
    known = [verdict.drill, verdict.task_id, *hardware, shared_series(verdict), f"study {verdict.study}"]
    return " · ".join(word for word in known if word)


def shared_series(verdict: Verdict) -> str | None:
    """Return horizon and batch where several arms were measured at the same ones: a figure says them once, below its title."""
    series = {str(limit.series) for arm in verdict.arms for limit in arm.throughput}
    series |= {
        f"{limit.series}" + (f" at {limit.scaled_from.num_envs:,} environments" if limit.scaled_from else "")
        for arm in verdict.arms
        for limit in arm.learning
    }
    return series.pop() if len(series) == 1 and len(verdict.arms) > 1 else None


def environments(arm: ArmVerdict, num_envs: int) -> str:
    """Return `512 envs` or `512 envs per GPU`."""
    return f"{num_envs:,} envs{arm.ranks.each}"


def threshold_interval(limit: Headline | ThroughputLimit | LearningLimit) -> str:
    """Return `512 to 2,048`, `512 alone` or `512 or more`."""
    if limit.threshold_lowest is None:
        return "no doubling measured"
    if limit.threshold_highest is None:
        return f"{limit.threshold_lowest:,} or more"
    if limit.threshold_highest == limit.threshold_lowest:
        return f"{limit.threshold_lowest:,} alone"
    return f"{limit.threshold_lowest:,} to {limit.threshold_highest:,}"


def with_interval(value: float, lower: float | None, upper: float | None) -> str:
    """Return `788 (721 to 843)`, `788 (721 to no upper end)`, or `788` where no interval is known."""
    return f"{value:,.0f}" + ("" if lower is None else f" ({lower:,.0f} to {_or_open(upper)})")


def _or_open(upper: float | None) -> str:
    return "no upper end" if upper is None else f"{upper:,.0f}"


def cards_tables(verdict: Verdict) -> list[Table]:
    """Return how many environments are predicted to fit cards: a table per arm, or one where all arms share their series."""
    arms = {arm.arm: arm.memory.cards for arm in verdict.arms if arm.memory and arm.memory.cards}
    series = {_series_of(card) for cards in arms.values() for card in cards}
    if len(arms) > 1 and len(series) == 1:
        title = f"Environments for your GPU, {series.pop()}"
        return [_cards(title, tuple(arms), [card for cards in arms.values() for card in cards])]
    return [
        _cards(
            "Environments for your GPU" + (f", {arm}" if len(verdict.arms) > 1 else ""),
            tuple(_series_of(card) for card in cards if card.card == cards[0].card),
            cards,
        )
        for arm, cards in arms.items()
    ]


def _cards(title: str, columns: tuple[str, ...], cards: Iterable[CardPrediction]) -> Table:
    rows: dict[str, tuple[str, ...]] = {}
    for card in cards:
        rows[card.card] = (*rows.get(card.card, (card.card,)), fitting(card))
    return Table(title, ("card", *columns), list(rows.values()))


def _series_of(card: CardPrediction) -> str:
    return f"horizon {card.horizon}, {shown_batch(card.batch_size)}"


def fitting(card: CardPrediction) -> str:
    """Return `788 (721 to 843)`: the environments that are predicted to fit a card."""
    return with_interval(card.largest_num_envs, card.largest_num_envs_lower, card.largest_num_envs_upper)


def remedies_table(remedies: Remedies) -> Table:
    """Return what each arm changes against the baseline, the best first."""
    columns = ("remedy", "differs in", "environments that fit", "ratio", "FPS at equal num_envs", "GB there")
    rows = [
        (
            remedy.arm,
            ", ".join(remedy.differs_in) or "nothing",
            f"{remedy.largest_num_envs:,} instead of {remedies.largest_num_envs:,}" if remedy.fits else "not known",
            _ratio(remedy),
            _fps_change(remedy),
            f"{remedy.peak_gb:.2f} instead of {remedy.baseline_peak_gb:.2f}"
            if remedy.peak_gb and remedy.baseline_peak_gb
            else "not known",
        )
        for remedy in remedies.remedies
    ]
    return Table(f"Remedies, compared with {remedies.baseline}", columns, rows)


def rules_table(rules: Rules) -> Table:
    """Return what each rule makes of each size, and what reaching the target costs there."""
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
    value = f"{cost.value:,.{decimals}f}"
    if cost.lower_bound:
        return f"over {value}"
    if cost.interval_lower is None or cost.interval_upper is None:
        return value
    return f"{value} ({cost.interval_lower:,.{decimals}f} to {cost.interval_upper:,.{decimals}f})"


def _ratio(remedy: Remedy) -> str:
    ratio = "not known"
    if remedy.fits is not None:
        lower, upper = remedy.fits.lower, remedy.fits.upper
        interval = " (no interval)" if upper is None else ""
        if lower is not None:
            interval = f" ({1 + lower:.2f} to {'open' if upper is None else f'{1 + upper:.2f}'})"
        beyond = ", far beyond what was measured" if remedy.extrapolated else ""
        ratio = f"{1 + remedy.fits.value:.2f}{interval}{beyond}"
    if remedy.shown_at is None:
        return ratio
    if remedy.room == "more":
        return f"{ratio}; {remedy.shown_at:,} fit where the baseline ran out of memory"
    return f"{ratio}; ran out of memory with {remedy.shown_at:,}, which fit the baseline"


def _fps_change(remedy: Remedy) -> str:
    if remedy.fps is None:
        return "no num_envs was timed with both"
    lower, upper = remedy.fps.lower, remedy.fps.upper
    interval = f" ({lower:+.0%} to {upper:+.0%})" if lower is not None and upper is not None else ""
    return f"{remedy.fps.value:+.0%}{interval} at {remedy.at_num_envs:,}"
