"""One recommendation per arm. Pure."""

from collections.abc import Sequence

from envknee.record.schema import Record
from envknee.verdict import learning, levers
from envknee.verdict.advice import what_would_move_it
from envknee.verdict.memory_sample import largest_peak_gb
from envknee.verdict.schema.learning import LearningLimit
from envknee.verdict.schema.memory import MemoryLimit
from envknee.verdict.schema.scaling import Scaling
from envknee.verdict.schema.study import ArmVerdict, Binds, Headline
from envknee.verdict.schema.throughput import ThroughputLimit
from envknee.verdict.series import Ranks, by_series
from envknee.verdict.settings import StudySettings
from envknee.words.learning import hours_saved, soonest_at
from envknee.words.numbers import listed
from envknee.words.ranks import each, together
from envknee.words.series import series_words


def headline(
    arm: ArmVerdict, records: Sequence[Record], scalings: Sequence[Scaling], study: StudySettings
) -> Headline | None:
    """Return the recommendation for an arm, with reasons; None if no throughput trial was timed to its end."""
    timed = [(limit, point) for limit in arm.throughput for point in limit.points]
    if not timed or arm.memory is None:
        return None
    # Without a threshold: the largest num_envs, unless FPS fell on the way there.
    best, fastest = max(timed, key=lambda pair: (pair[1].fps, pair[1].num_envs))
    wanted = best.threshold_num_envs or fastest.num_envs
    ranks, learned = arm.ranks, arm.learning
    num_envs = _within_memory(best, wanted, records, arm.memory)
    point = best.point(num_envs)
    peak = largest_peak_gb(records, best.series, num_envs)
    device_gb = arm.memory.device_memory_gb
    used = peak / device_gb if peak is not None and device_gb else None
    binds = _binds(best, wanted, num_envs, learned, arm.memory)
    seconds = {(limit.series, point.num_envs): point.seconds_to_target for limit in learned for point in limit.points}
    soonest = learning.best_of(learned)
    places = [(best.series, num_envs)] + ([(soonest[0].series, soonest[1].num_envs)] if soonest else [])
    saved = (hours_saved(limit, size, ranks) for series, size in places for limit in learned if limit.series == series)
    share = point.fps / fastest.fps
    doubled = by_series(records, "throughput")[best.series].get(2 * best.points[-1].num_envs)
    doubled_ended = doubled[-1].outcome.status if doubled else None
    told = Headline(
        state="undecided" if best.state == "no data" else best.state,
        threshold_num_envs=best.threshold_num_envs,
        num_envs=num_envs,
        horizon=best.horizon,
        batch_size=best.batch_size,
        fps=point.fps,
        fps_share_of_best=share,
        memory_peak_gb=peak,
        seconds_to_target=seconds.get((best.series, num_envs)),
        binds=binds,
        because=_because(best, wanted, num_envs, ranks),
        saves=next(filter(None, saved), None),
        levers=levers.analyse(records, best.series, num_envs, scalings, study.decide),
        statement=(
            f"run {num_envs:,} environments{each(ranks)}, {series_words(best.series)}: {point.fps:,.0f} FPS{together(ranks)},"
            f" {share:.0%} of the best seen"
            + (f"; {peak:.2f} GB" if peak is not None else "")
            + (f", {used:.0%} of the memory{each(ranks)}" if used is not None else "")
            + (f"; soonest to the target: {soonest_at(*soonest, ranks)}" if soonest else "")
        ),
    )
    is_lean = study.arms[arm.arm].values["observations"] == "lean"
    advice = what_would_move_it(told, best, arm, is_lean, doubled_ended)
    return told.model_copy(update={"what_would_move_it": advice})


def _within_memory(limit: ThroughputLimit, wanted: int, records: Sequence[Record], memory_limit: MemoryLimit) -> int:
    """Return the largest measured num_envs up to `wanted` that never failed and leaves the margin free.

    If there is none, return the smallest measured one: a recommendation must be a point that ran.
    """
    device_gb = memory_limit.device_memory_gb
    for point in reversed(limit.points):
        peak = largest_peak_gb(records, limit.series, point.num_envs)
        fits = peak is None or device_gb is None or peak <= device_gb * (1.0 - memory_limit.margin)
        if point.num_envs <= wanted and point.failed == 0 and fits:
            return point.num_envs
    return limit.points[0].num_envs


def _binds(
    limit: ThroughputLimit, wanted: int, num_envs: int, learned: Sequence[LearningLimit], memory_limit: MemoryLimit
) -> Binds:
    if num_envs < wanted:
        return "memory"
    # Only the recommended series counts: a limit at another horizon or batch size says nothing about it.
    learned_at = next((limit_of.threshold_num_envs for limit_of in learned if limit_of.series == limit.series), None)
    if learned_at is not None and learned_at < wanted:
        return "learning"
    if limit.threshold_num_envs is not None:
        return "throughput"
    # Twice as many failed, or are predicted to exceed the usable memory.
    wall = memory_limit.wall(limit.series)
    most = wall.largest_num_envs if wall else None
    if any(point.num_envs <= 2 * wanted for point in limit.infeasible) or (most is not None and most < 2 * wanted):
        return "memory"
    if limit.state == "undecided" and limit.unsure is not None:
        return "none yet: measure more repeats"
    return "none yet: measure more environments"


def _because(limit: ThroughputLimit, wanted: int, num_envs: int, ranks: Ranks) -> str:
    if num_envs < wanted:
        less = "would leave less memory free than the study asks for, or failed in some repeats"
        return f"{wanted:,} environments{each(ranks)} {less}"
    if limit.threshold_num_envs is None:
        why = "doubling still pays there" if limit.state == "still pays" else "a threshold is undecided"
        return f"the num_envs with the largest measured FPS; {why}"
    again = f", though doubling gains again from {listed(limit.resumes_at)}" if limit.resumes_at else ""
    return f"the throughput threshold of the fastest series{again}"
