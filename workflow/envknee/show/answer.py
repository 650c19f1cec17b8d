"""The answer of a study: for each arm a recommendation, its FPS or seconds, evidence, and the next step. Pure: it repeats a verdict."""

from collections.abc import Sequence
from typing import NamedTuple

from envknee.show import words
from envknee.verdict.learning import best_of
from envknee.verdict.schema.limit import SeriesLimit
from envknee.verdict.schema.study import ArmVerdict, Verdict
from envknee.verdict.series import Series
from envknee.words.learning import seconds_told, soonest_at
from envknee.words.ranks import each
from envknee.words.series import series_words
from envknee.words.states import gain_evidence, what_decides


class Answer(NamedTuple):
    """The answer for an arm, each part short enough for a line."""

    run: str
    """The recommended number of environments, such as `1,024 per GPU`."""
    series: str
    """Horizon and batch size of the recommendation."""
    gives: str
    """FPS, with their share of the best in parentheses; or the seconds to the target."""
    limit: str
    """The threshold with its interval, or what is missing to decide it."""
    limited_by: str
    evidence: list[str]
    next_step: str


def answer(arm: ArmVerdict) -> Answer:
    """Return the answer for an arm."""
    ran = [limit for limit in arm.learning if limit.state != "no data"]
    best = best_of(ran)
    soonest = [] if best is None else [f"soonest to the target: {soonest_at(*best, arm.ranks)}"]
    headline, limit = arm.headline, words.recommended(arm)
    if headline is not None and limit is not None:
        return Answer(
            f"{headline.num_envs:,}{each(arm.ranks)}",
            series_words(limit.series),
            f"{headline.fps:,.0f} FPS ({headline.fps_share_of_best:.0%})",
            _short(limit),
            "nothing yet" if headline.binds.startswith("none") else headline.binds,
            [*gain_evidence(limit), *soonest],
            headline.what_would_move_it,
        )
    if not ran:
        return Answer(
            "nothing ran to its end", "", "", "", "", [], "Look at the log of a trial: trials/0000/trial.log."
        )
    ran.sort(key=lambda limit: best is None or limit is not best[0])
    limit = next((own for own in ran if own.threshold_num_envs is not None), ran[0])
    run = f"{best[1].num_envs:,}{each(arm.ranks)}" if best else "no seed arrived"
    gives = f"target in {seconds_told(best[1])}" if best else ""
    threshold = _short(limit) + ("" if limit is ran[0] else f" at {series_words(limit.series)}")
    step = "Another horizon, batch size or learning rate may reach the target sooner."
    if limit.state == "undecided" and limit.more_repeats:
        step = f"Measure {what_decides(limit)} of each point."
    elif limit.state == "still pays":
        step = f"Measure {2 * (limit.largest_num_envs or 0):,} environments."
    return Answer(run, series_words(ran[0].series), gives, threshold, "learning", gain_evidence(limit), step)


def answers_table(verdict: Verdict, arms: Sequence[ArmVerdict]) -> words.Table:
    """Return a table of the answers, a line for each arm, with horizon and batch size if arms differ in them."""
    together = answered_series(verdict) is not None
    rows = []
    for arm in arms:
        own = answer(arm)
        run = own.run if together or not own.series else f"{own.run}, {own.series}"
        rows.append((arm.arm, run, own.gives, own.limit, own.limited_by))
    return words.Table("Answer", ("arm", "environments", "gives (of best)", "threshold", "limited by"), rows)


def answered_series(verdict: Verdict) -> Series | None:
    """Return horizon and batch size of all recommended points, if they are the same."""
    learned = {limit.series._replace(arm="") for arm in verdict.arms for limit in arm.learning if limit.points}
    timed = {arm.headline.series for arm in verdict.arms if arm.headline}
    series = timed or learned
    return series.pop() if len(series) == 1 else None


def _short(limit: SeriesLimit) -> str:
    """Return `8,192 (2,048 to 8,192)`, `over 16,384`, or `undecided (3 more repeats)`."""
    if limit.threshold_num_envs is not None:
        alone = limit.threshold_lowest == limit.threshold_highest
        return f"{limit.threshold_num_envs:,}" + ("" if alone else f" ({words.threshold_interval(limit)})")
    if limit.state == "still pays":
        return f"over {limit.largest_num_envs:,}"
    missing = what_decides(limit)
    return f"{limit.state} ({missing or 'no doubling measured'})"
