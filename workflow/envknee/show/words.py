"""Phrases that figures, report and terminal share. Pure: they repeat what a verdict says."""

from collections.abc import Iterable
from typing import NamedTuple

from envknee.verdict.learning import best_of
from envknee.verdict.schema.learning import Cost, LearningLimit
from envknee.verdict.schema.memory import CardPrediction
from envknee.verdict.schema.remedies import Remedies, Remedy
from envknee.verdict.schema.rules import Rules
from envknee.verdict.schema.study import ArmVerdict, Headline, Verdict
from envknee.verdict.schema.throughput import ThroughputLimit
from envknee.verdict.series import Series
from envknee.verdict.words.numbers import percent, shown_batch
from envknee.verdict.words.states import state_words, what_decides
from envknee.verdict.words.throughput import repeats

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


class Answer(NamedTuple):
    """What an arm's study says, each part short enough for a line."""

    run: str
    """How many environments are recommended, as in `1,024 per GPU`."""
    series: str
    """At which horizon and batch."""
    gives: str
    """FPS, and in parentheses their share of the best; or the seconds to the target."""
    limit: str
    """The threshold with its interval, or what is missing to decide it."""
    limited_by: str
    evidence: list[str]
    next_step: str


def answer(arm: ArmVerdict) -> Answer:
    """Return the answer for an arm: what to run, what that gives, why, and what to do next."""
    ran = [limit for limit in arm.learning if limit.state != "no data"]
    best = best_of(ran)
    soonest = []
    if best is not None:
        series = Series(arm.arm, best.horizon, best.batch_size)
        where = f"{environments(arm, best.num_envs)}, {series}"
        soonest = [f"soonest to the target: {where}, in {best.seconds_to_target.value:,.1f} s{best.caveat}"]
    if arm.headline is not None:
        headline = arm.headline
        series = Series(arm.arm, headline.horizon, headline.batch_size)
        limit = next(limit for limit in arm.throughput if limit.series[1:] == series[1:])
        return Answer(
            f"{headline.num_envs:,}{arm.ranks.each}",
            str(series),
            f"{headline.fps:,.0f} FPS ({headline.fps_share_of_best:.0%})",
            _short(limit, headline),
            "nothing yet" if headline.binds.startswith("none") else headline.binds,
            [*gain_evidence(limit), *soonest],
            headline.what_would_move_it,
        )
    if not ran:
        return Answer(
            "nothing ran to its end", "", "", "", "", [], "Look at the log of a trial: trials/0000/trial.log."
        )
    ran.sort(key=lambda limit: best is None or limit.series[1:] != (best.horizon, best.batch_size))
    limit = next((own for own in ran if own.threshold_num_envs is not None), ran[0])
    run = f"{best.num_envs:,}{arm.ranks.each}" if best else "no seed arrived"
    gives = f"target in {best.seconds_to_target.value:,.1f} s" if best else ""
    step = "Another horizon, batch size or learning rate may reach the target sooner."
    if limit.state == "undecided" and limit.more_seeds:
        step = f"Measure {what_decides(limit)} of each point."
    elif limit.state == "still pays":
        step = f"Measure {2 * (limit.largest_num_envs or 0):,} environments."
    return Answer(run, str(ran[0].series), gives, _short(limit, limit), "learning", saving_evidence(limit), step)


def answered_series(verdict: Verdict) -> Series | None:
    """Return horizon and batch of all recommended points, where they are the same."""
    learned = {limit.series._replace(arm="") for arm in verdict.arms for limit in arm.learning if limit.points}
    timed = {Series("", arm.headline.horizon, arm.headline.batch_size) for arm in verdict.arms if arm.headline}
    found = timed or learned
    return found.pop() if len(found) == 1 else None


def _short(limit: ThroughputLimit | LearningLimit, ends: Headline | ThroughputLimit | LearningLimit) -> str:
    """Return `8,192 (2,048 to 8,192)`, `over 16,384`, or `undecided (3 more repeats)`."""
    if limit.threshold_num_envs is not None:
        alone = ends.threshold_lowest == ends.threshold_highest
        return f"{limit.threshold_num_envs:,}" + ("" if alone else f" ({threshold_interval(ends)})")
    if limit.state == "still pays":
        return f"over {limit.largest_num_envs:,}"
    missing = what_decides(limit)
    return f"{limit.state} ({missing or 'no doubling measured'})"


def gain_evidence(limit: ThroughputLimit) -> list[str]:
    """Return what the doubling gains that decides, or else the last one, with what it rests on."""
    if not limit.gains:
        return []
    gain = next((own for own in limit.gains if own.num_envs == limit.threshold_num_envs), limit.gains[-1])
    bounds = {
        "reached": "" if gain.gain_upper_one_sided is None else f"at most {percent(gain.gain_upper_one_sided)}, ",
        "still pays": "" if gain.gain_lower_one_sided is None else f"at least {percent(gain.gain_lower_one_sided)}, ",
    }
    both = (
        ""
        if gain.gain_lower is None or gain.gain_upper is None
        else f"{percent(gain.gain_lower)} to {percent(gain.gain_upper)}, "
    )
    bound = bounds.get(limit.state, both)
    return [
        f"doubling {gain.num_envs:,} gains {percent(gain.gain)} ({bound}{repeats(gain.repeats)}; cut-off {limit.delta:.0%})"
    ]


def saving_evidence(limit: LearningLimit) -> list[str]:
    """Return what the doubling saves that decides, or else the last one, with what it rests on."""
    saving = next((own for own in limit.savings if own.num_envs == limit.threshold_num_envs), None)
    saving = saving or (limit.savings[-1] if limit.savings else None)
    if saving is None or saving.saving is None:
        return []
    most, lower, upper = saving.saving_upper_one_sided, saving.saving_lower, saving.saving_upper
    bound = "" if lower is None or upper is None else f"{percent(lower)} to {percent(upper)}, "
    if limit.state == "reached" and most is not None:
        bound = f"at most {percent(most)}, " if most >= 0.0 else f"at least {percent(-most)}, "
    elif limit.state == "still pays" and limit.still_saves is not None:
        bound = f"at least {percent(limit.still_saves)}, "
    said = (
        f"saves {percent(saving.saving)} of the time"
        if saving.saving >= 0.0
        else f"takes {percent(-saving.saving)} longer"
    )
    seeds = f"{saving.seeds} seed{'' if saving.seeds == 1 else 's'}"
    return [f"doubling {saving.num_envs:,} {said} ({bound}{seeds}; cut-off {limit.delta:.0%})"]


def limits_table(verdict: Verdict) -> Table:
    """Return a line per arm: its threshold with its interval, the recommended point, and what limits it."""
    columns = ("arm", "threshold", f"{verdict.confidence:.0%} interval", "recommended", "limited by")
    rows = [
        (arm.arm, *_learning_cells(arm), "") if arm.headline is None else (arm.arm, *_throughput_cells(arm, arm.headline))
        for arm in verdict.arms
    ]  # fmt: skip
    return Table("Thresholds", columns, rows)


def _throughput_cells(arm: ArmVerdict, headline: Headline) -> tuple[str, str, str, str]:
    series = Series(arm.arm, headline.horizon, headline.batch_size)
    threshold = state_words(
        next(limit for limit in arm.throughput if limit.series[1:] == series[1:]), f"envs{arm.ranks.each}"
    )
    recommended = (
        f"{environments(arm, headline.num_envs)}, {series}:"
        f" {headline.fps:,.0f} FPS{arm.ranks.together} ({headline.fps_share_of_best:.0%} of best)"
    )
    return threshold, threshold_interval(headline), recommended, headline.binds


def _learning_cells(arm: ArmVerdict) -> tuple[str, str, str]:
    """Return threshold, interval and fastest point of an arm that has learning trials alone.

    The threshold is that of the fastest point's series, else the first one known, whose series is then named.
    """
    ran = [limit for limit in arm.learning if limit.state != "no data"]
    if not ran:
        return "nothing timed yet", "", ""
    best = best_of(ran)
    fastest = ran[0].series if best is None else Series(arm.arm, best.horizon, best.batch_size)
    target = f": target in {best.seconds_to_target.value:,.1f} s{best.caveat}" if best else ""
    recommended = f"{environments(arm, best.num_envs)}, {fastest}{target}" if best else ""
    ran.sort(key=lambda limit: limit.series != fastest)
    for limit in ran:
        if limit.threshold_num_envs is not None:
            where = limit.series if len(arm.learning) > 1 else f"horizon {limit.horizon}"
            threshold = f"{environments(arm, limit.threshold_num_envs)}, {where}, to the target"
            return threshold, threshold_interval(limit), recommended
    return state_words(ran[0], f"envs{arm.ranks.each}"), threshold_interval(ran[0]), recommended


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
