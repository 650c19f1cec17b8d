"""The limit of each scaling rule, and whether rules move it.

Input: records of learning trials, and their learning limits. Output: `Rules`, or None if no arm has a rule. Pure.

From the soonest size n to the next size m, ideal scaling takes the same number of frames, and n / m of the seconds per frame. The loss is
a sum of logarithms: ln(frames ratio) is PPO's part, ln(seconds per frame ratio x m / n) the simulator's. The larger part names the limit.
"""

import math
from collections.abc import Mapping, Sequence
from statistics import median

from envknee.record.schema import Record
from envknee.verdict.learning_cost import that_ran
from envknee.verdict.measurements import Measurements
from envknee.verdict.schema.learning import LearningLimit, LearningPoint, Limit, RuleLimit, RulePoint, Rules


def analyse(measured: Measurements, limits: Sequence[LearningLimit]) -> Rules | None:
    """Return the limit of every rule, from all records of a study and the learning limits of its arms."""
    rules = [_rule(limit, measured.learning[limit.series]) for limit in limits if limit.scaled_from]
    if not rules:
        return None
    known = [rule for rule in rules if rule.soonest_lowest is not None and rule.soonest_highest is not None]
    has_moved = None
    if len(known) > 1:
        has_moved = max(r.soonest_lowest or 0 for r in known) > min(r.soonest_highest or 0 for r in known)
    return Rules(rules=rules, has_moved=has_moved)


def _rule(limit: LearningLimit, by_size: Mapping[int, Sequence[Record]]) -> RuleLimit:
    assert limit.scaled_from is not None, "only arms under a rule"
    points = [_point(point, by_size[point.num_envs]) for point in limit.points]
    soonest = next((point for point in points if limit.best and point.num_envs == limit.best.num_envs), None)
    later = next((point for point in points if soonest and point.num_envs > soonest.num_envs and point.seeds), None)
    ends_by, frames, seconds_per_frame = _loss(soonest, later)
    lowest, highest = _as_soon(soonest, points)
    return RuleLimit(
        arm=limit.arm,
        scaled_from=limit.scaled_from,
        points=points,
        soonest_num_envs=soonest.num_envs if soonest else None,
        soonest_lowest=lowest,
        soonest_highest=highest,
        next_num_envs=later.num_envs if later else None,
        limit=ends_by,
        frames_ratio=frames,
        seconds_per_frame_ratio=seconds_per_frame,
        ideal_seconds_per_frame_ratio=soonest.num_envs / later.num_envs if soonest and later else None,
    )


def _point(point: LearningPoint, records: Sequence[Record]) -> RulePoint:
    request = records[0].request
    speeds = [record.train_s / record.frames * 1e6 for record in that_ran(records) if record.frames and record.train_s]
    return RulePoint(
        **dict(point),
        horizon=request.horizon,
        batch_size=request.batch_size,
        learning_rate=request.learning_rate,
        epochs=request.epochs,
        seconds_per_million_frames=median(speeds) if speeds else None,
    )


def _loss(soonest: RulePoint | None, later: RulePoint | None) -> tuple[Limit, float | None, float | None]:
    """Return the limit, and frames and seconds per frame of the next size over those of the soonest; None if unknown."""
    if soonest is None or later is None:
        return "no data" if soonest is None else "none seen", None, None
    assert soonest.frames_to_target is not None, "its seeds reached the target"
    assert later.frames_to_target is not None, "its seeds ran"
    frames = later.frames_to_target.value / soonest.frames_to_target.value
    before, after = soonest.seconds_per_million_frames, later.seconds_per_million_frames
    if not before or not after:
        return "none seen", frames, None
    lost = math.log(after / before * later.num_envs / soonest.num_envs)
    if later.reached < later.seeds:
        return "rule", frames, after / before
    return "PPO" if math.log(frames) > lost else "simulator", frames, after / before


def _as_soon(soonest: RulePoint | None, points: Sequence[RulePoint]) -> tuple[int | None, int | None]:
    """Return the smallest and the largest size that is not shown to take longer than the soonest."""
    end = soonest.seconds_to_target.interval_upper if soonest and soonest.seconds_to_target else None
    if soonest is None or end is None:
        return None, None
    least_s = {
        point.num_envs: cost.value if cost.lower_bound else cost.interval_lower or 0.0
        for point in points
        if (cost := point.seconds_to_target)
    }
    sizes = [size for size, seconds in least_s.items() if seconds <= end]
    return min(sizes), max(sizes)
