"""One recommendation per arm. Pure."""

from collections.abc import Sequence

from envknee.record.schema import Record
from envknee.verdict import levers
from envknee.verdict.measure_next import measure_next
from envknee.verdict.measurements import Measurements, records_at
from envknee.verdict.memory_model import usable_gb
from envknee.verdict.memory_sample import largest_peak_gb
from envknee.verdict.schema.headline import Binds, Headline, HoursSaved
from envknee.verdict.schema.learning import LearningLimit
from envknee.verdict.schema.memory import MemoryLimit
from envknee.verdict.schema.scaling import Scaling
from envknee.verdict.schema.study import ArmVerdict
from envknee.verdict.schema.throughput import ThroughputLimit
from envknee.verdict.series import OfPlace, Series
from envknee.verdict.settings import StudySettings
from envknee.verdict.waits import waits

HOUR_S = 3600.0


def headline(
    arm: ArmVerdict, measured: Measurements, scalings: Sequence[Scaling], study: StudySettings
) -> Headline | None:
    """Return the recommendation for an arm, with reasons; None if no throughput trial was timed to its end."""
    timed = [(limit, point) for limit in arm.throughput for point in limit.points]
    if not timed or arm.memory is None:
        return None
    # Without a threshold: the largest num_envs, unless FPS fell on the way there.
    best, fastest = max(timed, key=lambda pair: (pair[1].fps, pair[1].num_envs))
    wanted = best.threshold_num_envs or fastest.num_envs
    num_envs = _within_memory(best, wanted, measured, arm.memory)
    point = best.point(num_envs)
    peak = largest_peak_gb(measured.at(best.series, num_envs))
    device_gb = arm.memory.device_memory_gb
    binds = _binds(best, wanted, num_envs, arm.learning, arm.memory)
    seconds = {
        (limit.series, point.num_envs): point.seconds_to_target for limit in arm.learning for point in limit.points
    }
    doubled = records_at(measured.throughput, best.series, 2 * best.points[-1].num_envs)
    doubled_ended = doubled[-1].outcome.status if doubled else None
    is_open = binds in ("more_environments", "more_repeats")
    laws = next((laws for laws in arm.phases if laws.series == best.series), None)
    return Headline(
        state="undecided" if best.state == "no data" else best.state,
        threshold_num_envs=best.threshold_num_envs,
        num_envs=num_envs,
        wanted_num_envs=wanted,
        horizon=best.horizon,
        batch_size=best.batch_size,
        fps=point.fps,
        fps_share_of_best=point.fps / fastest.fps,
        memory_peak_gb=peak,
        memory_share=peak / device_gb if peak is not None and device_gb else None,
        seconds_to_target=seconds.get((best.series, num_envs)),
        binds=binds,
        is_lean=study.arms[arm.arm].values["observations"] == "lean",
        next_measurement=measure_next(best, doubled_ended=doubled_ended) if is_open else None,
        waits=waits(num_envs, laws),
        saves=_hours_saved(arm, best, num_envs),
        levers=levers.analyse(measured, best.series, num_envs, scalings, study.settings, study.schedules),
        ran=_ran(best.series, measured.at(best.series, num_envs)),
    )


def _ran(listed: Series, records: Sequence[Record]) -> OfPlace | None:
    """Return the horizon and batch size of trials under a scaling rule, if they are not those that the study lists.

    FPS that were composed of other trials have no trials; nor has an arm under a rule such FPS.
    """
    if not records:
        return None
    request = records[0].request
    if (request.horizon, request.batch_size) == (listed.horizon, listed.batch_size):
        return None
    return OfPlace(horizon=request.horizon, batch_size=request.batch_size)


def _hours_saved(arm: ArmVerdict, best: ThroughputLimit, num_envs: int) -> HoursSaved | None:
    """Return the hours that the recommended point saves, or else the soonest one; None if neither is known."""
    places = [(best.series, num_envs)]
    if arm.soonest is not None:
        limit, point = arm.soonest
        places.append((limit.series, point.num_envs))
    for series, size in places:
        for limit in arm.learning:
            saved = _saved(limit, size) if limit.series == series else None
            if saved is not None:
                return saved
    return None


def _saved(limit: LearningLimit, num_envs: int) -> HoursSaved | None:
    """Return the hours that a point spends to the target, beside the next larger point; None without both."""
    costs = {point.num_envs: point.gpu_seconds_to_target or point.seconds_to_target for point in limit.points}
    larger = [size for size, cost in costs.items() if size > num_envs and cost is not None]
    cost = costs.get(num_envs)
    if cost is None or cost.lower_bound or not larger:
        return None
    other = costs[min(larger)]
    assert other is not None, "its cost is known"
    on_gpu = any(point.gpu_seconds_to_target is not None for point in limit.points)
    return HoursSaved(
        device="GPU" if on_gpu else "CPU",
        num_envs=num_envs,
        hours=cost.value / HOUR_S,
        other_num_envs=min(larger),
        other_hours=other.value / HOUR_S,
        other_is_lower_bound=other.lower_bound,
        saved=1.0 - cost.value / other.value,
    )


def _within_memory(limit: ThroughputLimit, wanted: int, measured: Measurements, memory_limit: MemoryLimit) -> int:
    """Return the largest measured num_envs up to `wanted` that never failed and leaves the margin free.

    If there is none, return the smallest measured one: a recommendation must be a point that ran.
    """
    device_gb = memory_limit.device_memory_gb
    for point in reversed(limit.points):
        peak = largest_peak_gb(measured.at(limit.series, point.num_envs))
        fits = peak is None or device_gb is None or peak <= usable_gb(device_gb, memory_limit.margin)
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
    if any(point.lacks_memory and point.num_envs <= 2 * wanted for point in limit.infeasible) or (
        most is not None and most < 2 * wanted
    ):
        return "memory"
    if limit.state == "undecided" and limit.unsure is not None:
        return "more_repeats"
    return "more_environments"
