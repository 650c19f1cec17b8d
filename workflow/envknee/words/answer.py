"""The answer of a study: for each arm a recommendation, its FPS or seconds, evidence, and the next step. Pure: it repeats a verdict."""

from collections.abc import Sequence
from typing import NamedTuple

from envknee.verdict.schema.joint import JointAnswer
from envknee.verdict.schema.learning import LearningLimit, LearningPoint, Rules
from envknee.verdict.schema.limit import SeriesLimit
from envknee.verdict.schema.study import ArmVerdict, Verdict
from envknee.verdict.series import Series
from envknee.words.headline import NO_TRIAL, what_would_move_it
from envknee.words.intervals import threshold_interval
from envknee.words.joint import joint_evidence, joint_next, joint_statement, threshold_words, what_is_left
from envknee.words.joint_costs import cost_words, interval_words, short_setting
from envknee.words.learning import seconds_told, soonest_at
from envknee.words.ranks import each
from envknee.words.series import series_words
from envknee.words.states import gain_evidence, what_decides
from envknee.words.tables import Table


class Answer(NamedTuple):
    """The answer for an arm, each part short enough for a line."""

    run: str
    """The recommended number of environments, such as `1,024 per GPU`."""
    run_in_full: str
    """The same with its unit: `1,024 environments per GPU`."""
    series: str
    """Horizon and batch size of the recommendation."""
    gives: str
    """FPS, with their share of the best in parentheses; or the seconds to the target."""
    gives_in_full: str
    """The same, with what the share is of."""
    limit: str
    """The threshold with its interval, or what is missing to decide it."""
    limited_by: str
    evidence: list[str]
    next_step: str
    setting: str = ""
    """Of an answer over all axes: `1,024 per GPU × 16 × 2,048`."""


def answer(arm: ArmVerdict, rules: Rules | None) -> Answer:
    """Return the answer for an arm; one over all axes comes first, and of these the one about learning.

    `rules` are the verdict's: they say with which horizon and batch size an arm under a scaling rule ran.
    """
    if arm.joint:
        return _joint(arm, max(arm.joint, key=lambda found: found.kind == "learning"))
    if (timed := _timed(arm)) is not None:
        return timed
    learned = [limit for limit in arm.learning if limit.state != "no data"]
    if learned:
        return _learned(arm, learned, rules)
    return _answer("nothing ran to its end", next_step="Look at the log of a trial: trials/0000/trial.log.")


def _timed(arm: ArmVerdict) -> Answer | None:
    """Return the answer by FPS; None without throughput trials that ended, or if one over all axes stands in its place."""
    headline, limit, best = arm.headline, arm.recommended, arm.soonest
    if headline is None or limit is None:
        return None
    fps, share = f"{headline.fps:,.0f} FPS", f"{headline.fps_share_of_best:.0%}"
    is_composed = limit.point(headline.num_envs).is_composed
    is_open = headline.binds in ("more_environments", "more_repeats")
    soonest = [] if best is None else [f"soonest to the target: {soonest_at(*best)}"]
    return Answer(
        run=f"{headline.num_envs:,}{each(arm.ranks)}",
        run_in_full=f"{headline.num_envs:,} environments{each(arm.ranks)}",
        series=series_words(headline.as_run),
        gives=f"{fps} ({share}, composed)" if is_composed else f"{fps} ({share})",
        gives_in_full=f"{fps} ({share} of the best; {NO_TRIAL})" if is_composed else f"{fps} ({share} of the best)",
        limit=_short(limit),
        limited_by="nothing yet" if is_open else headline.binds,
        evidence=[*gain_evidence(limit), *soonest],
        next_step=what_would_move_it(arm, headline),
    )


def _joint(arm: ArmVerdict, found: JointAnswer) -> Answer:
    """Return the answer over num_envs, horizon and batch size. One about the other kind of trial is the second line of its evidence."""
    evidence, step = joint_evidence(found), joint_next(found)
    evidence[1:1] = _of_the_other_kind(arm, found)
    threshold = found.threshold_of("num_envs")
    limit = "" if threshold is None else threshold_words(threshold)
    if found.soonest is None:
        none = "no claim" if found.state in ("confirmed", "no data") else "no claim yet"
        why = joint_statement(found, arm.ranks) if found.state in ("confirmed", "no data") else what_is_left(found)
        return _answer(none, limit=limit, evidence=[why, *evidence], next_step=step)
    setting = found.confirmed[found.soonest]
    assert setting.cost is not None, "it is compared with others"
    cost = cost_words(found.kind, setting.cost)
    if setting.cost_lower is not None and setting.cost_upper is not None:
        cost += f" ({interval_words(found.kind, setting.cost_lower, setting.cost_upper)})"
    gives = cost if found.kind == "throughput" else f"target in {cost}"
    return Answer(
        run=f"{setting.num_envs:,}{each(arm.ranks)}",
        run_in_full=f"{setting.num_envs:,} environments{each(arm.ranks)}",
        series=series_words(Series("", setting.horizon, setting.batch_size)),
        gives=gives,
        gives_in_full=gives,
        limit=limit,
        limited_by=found.kind,
        evidence=evidence,
        next_step=step,
        setting=short_setting(setting, arm.ranks),
    )


def _threshold_of(found: JointAnswer) -> str:
    """Return the threshold of num_envs behind a semicolon, if there is one to tell."""
    own = next((threshold for threshold in found.thresholds if threshold.axis == "num_envs"), None)
    return "" if own is None or found.soonest is None else f"; num_envs threshold {threshold_words(own)}"


def _of_the_other_kind(arm: ArmVerdict, found: JointAnswer) -> list[str]:
    """Return what an arm's other kind of trial answers, in a line: over all axes, or over num_envs alone."""
    others = [other for other in arm.joint if other is not found]
    if others:
        return [f"{joint_statement(other, arm.ranks)}{_threshold_of(other)}" for other in others]
    if found.kind == "learning":
        timed = _timed(arm)
        if timed is None:
            return []
        return [f"FPS: {timed.run_in_full} give {timed.gives_in_full} at {timed.series}; threshold {timed.limit}"]
    return [] if arm.soonest is None else [f"soonest to the target: {soonest_at(*arm.soonest)}"]


def _answer(
    run: str,
    *,
    series: str = "",
    limit: str = "",
    limited_by: str = "",
    evidence: Sequence[str] = (),
    next_step: str,
) -> Answer:
    """Return an answer without a recommendation; `run` says why there is none."""
    return Answer(run, run, series, "", "", limit, limited_by, list(evidence), next_step)


def _learned(arm: ArmVerdict, learned: Sequence[LearningLimit], rules: Rules | None) -> Answer:
    """Return the answer for an arm that only learned: the series with the soonest point comes first."""
    best = arm.soonest
    first = learned[0] if best is None else best[0]
    others = [limit for limit in learned if limit is not first]
    limit = next((limit for limit in (first, *others) if limit.threshold_num_envs is not None), first)
    threshold = _short(limit) + ("" if limit is first else f" at {series_words(limit.series)}")
    step = "Another horizon, batch size or learning rate may reach the target sooner."
    if limit.state == "undecided" and limit.more_repeats:
        step = f"Measure {what_decides(limit)} of each point."
    elif limit.state == "still pays":
        step = f"Measure {2 * (limit.largest_num_envs or 0):,} environments."
    found = _answer(
        "no seed arrived",
        series=series_words(first.series),
        limit=threshold,
        limited_by="learning",
        evidence=gain_evidence(limit),
        next_step=step,
    )
    if best is None:
        return found
    gives = f"target in {seconds_told(best[1])}"
    return found._replace(
        series=series_words(_as_run(*best, rules)),
        run=f"{best[1].num_envs:,}{each(arm.ranks)}",
        run_in_full=f"{best[1].num_envs:,} environments{each(arm.ranks)}",
        gives=gives,
        gives_in_full=gives,
    )


def _as_run(limit: LearningLimit, best: LearningPoint, rules: Rules | None) -> Series:
    """Return the horizon and batch size with which the best point of a limit ran."""
    ran = None if rules is None else rules.as_run(limit, best.num_envs)
    return ran or limit.series


def answers_table(verdict: Verdict, arms: Sequence[ArmVerdict]) -> Table:
    """Return a table of the answers, a line for each arm, with horizon and batch size if arms differ in them."""
    together = answered_series(verdict) is not None
    is_joint = any(arm.joint for arm in arms)
    first = "num_envs × horizon × batch" if is_joint else "environments"
    rows = []
    for arm in arms:
        own = answer(arm, verdict.rules)
        run = own.run if together or not own.series else f"{own.run}, {own.series}"
        if own.setting:
            run = own.setting
        rows.append((arm.arm, run, own.gives, own.limit, own.limited_by))
    return Table("Answer", ("arm", first, "gives (of best)", "threshold", "limited by"), rows)


def answered_series(verdict: Verdict) -> Series | None:
    """Return horizon and batch size of all recommended points, if they are the same; none if they were searched together."""
    if any(arm.joint for arm in verdict.arms):
        return None
    timed = {arm.headline.as_run for arm in verdict.arms if arm.headline}
    series = timed or _learned_series(verdict)
    return series.pop() if len(series) == 1 else None


def _learned_series(verdict: Verdict) -> set[Series]:
    """Return every horizon and batch size of arms that only learned; of those under a scaling rule, the ones of their soonest points."""
    series = set[Series]()
    for arm in verdict.arms:
        ruled = [limit for limit in arm.learning if limit.scaled_from is not None]
        if ruled and arm.soonest is not None:
            series.add(_as_run(*arm.soonest, verdict.rules)._replace(arm=""))
        else:
            series |= {limit.series._replace(arm="") for limit in arm.learning if limit.points}
    return series


def _short(limit: SeriesLimit) -> str:
    """Return `8,192 (2,048 to 8,192)`, `over 16,384`, or `undecided (3 more repeats)`."""
    if limit.threshold_num_envs is not None:
        alone = limit.threshold_lowest == limit.threshold_highest
        return f"{limit.threshold_num_envs:,}" + ("" if alone else f" ({threshold_interval(limit)})")
    if limit.state == "still pays":
        return f"over {limit.largest_num_envs:,}"
    missing = what_decides(limit)
    return f"{limit.state} ({missing or 'no doubling measured'})"
