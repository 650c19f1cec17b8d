"""The limit of each scaling rule, and whether rules move it.

Input: records of learning trials, and their learning limits. Output: `Rules`, or None if no arm has a rule. Pure.

From the soonest size n to the next size m, ideal scaling takes the same number of frames, and n / m of the seconds per frame. The loss is
a sum of logarithms: ln(frames ratio) is PPO's part, ln(seconds per frame ratio x m / n) the simulator's. The larger part names the limit.
"""

import math
from collections.abc import Sequence
from statistics import median

from envknee.record.schema import Record
from envknee.verdict.learning_cost import that_ran
from envknee.verdict.schema.learning import LearningLimit, LearningPoint
from envknee.verdict.schema.rules import Limit, RuleLimit, RulePoint, Rules
from envknee.verdict.series import by_series
from envknee.verdict.words.numbers import span


def analyse(records: Sequence[Record], limits: Sequence[LearningLimit]) -> Rules | None:
    """Return the limit of every rule, from all records of a study and the learning limits of its arms."""
    grouped = by_series(records, "learning")
    rules = [_rule(limit, grouped[limit.series]) for limit in limits if limit.scaled_from]
    if not rules:
        return None
    known = [rule for rule in rules if rule.soonest_lowest is not None and rule.soonest_highest is not None]
    has_moved = None
    if len(known) > 1:
        has_moved = max(r.soonest_lowest or 0 for r in known) > min(r.soonest_highest or 0 for r in known)
    return Rules(rules=rules, has_moved=has_moved, statement=_rules_statement(rules, has_moved))


def _rule(limit: LearningLimit, by_size: dict[int, list[Record]]) -> RuleLimit:
    assert limit.scaled_from is not None, "only arms under a rule"
    points = [_point(point, by_size[point.num_envs]) for point in limit.points]
    soonest = next((point for point in points if limit.best and point.num_envs == limit.best.num_envs), None)
    later = next((point for point in points if soonest and point.num_envs > soonest.num_envs and point.seeds), None)
    ends_by, frames, seconds_per_frame = _loss(soonest, later)
    lowest, highest = _as_soon(soonest, points)
    rule = RuleLimit(
        arm=limit.arm,
        scaled_from=limit.scaled_from,
        staggered=by_size[points[0].num_envs][0].request.staggered,
        points=points,
        soonest_num_envs=soonest.num_envs if soonest else None,
        soonest_lowest=lowest,
        soonest_highest=highest,
        limit=ends_by,
        frames_ratio=frames,
        seconds_per_frame_ratio=seconds_per_frame,
        statement="",
    )
    return rule.model_copy(update={"statement": _rule_statement(rule, soonest, later)})


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
    limit = "rule" if later.reached < later.seeds else "PPO" if math.log(frames) > lost else "simulator"
    return limit, frames, after / before


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


def _rule_statement(rule: RuleLimit, soonest: RulePoint | None, later: RulePoint | None) -> str:
    """Return the limit of a rule in a sentence or two; `later` is the next size that ran."""
    if soonest is None or soonest.seconds_to_target is None:
        reached = sum(point.reached for point in rule.points)
        seeds = sum(point.seeds for point in rule.points)
        return f"{rule.scaled_from}: no size has every seed at the target ({reached} of {seeds} trials reached it)"
    cost = soonest.seconds_to_target
    ends = span(cost.interval_lower, cost.interval_upper, lambda seconds: f"{seconds:,.1f}")
    interval = f" ({ends} s)" if ends else ""
    start = f"{rule.scaled_from}: soonest at {soonest.num_envs:,} environments in {cost.value:,.1f} s{interval}"
    if rule.soonest_lowest is not None and rule.soonest_lowest != rule.soonest_highest:
        start += f"; {rule.soonest_lowest:,} to {rule.soonest_highest:,} are not shown to be slower"
    if later is None:
        return f"{start}. No larger size ran: no limit seen"
    if later.reached < later.seeds:
        return f"{start}. The rule is the limit: at {later.num_envs:,}, {later.reached} of {later.seeds} trials reached the target"
    if rule.frames_ratio is None or rule.seconds_per_frame_ratio is None:
        return start
    what = {
        "PPO": "PPO is the limit: frames to the target lose more than seconds per frame",
        "simulator": "Simulator and learner are the limit: seconds per frame lose more than frames to the target",
    }.get(rule.limit, "")
    return (
        f"{start}. {what}. At {later.num_envs:,}: {rule.frames_ratio:.2f} times the frames (ideal 1.00),"
        f" {rule.seconds_per_frame_ratio:.2f} times the seconds per frame (ideal {soonest.num_envs / later.num_envs:.2f})"
    )


def _rules_statement(rules: Sequence[RuleLimit], has_moved: bool | None) -> str:
    """Return whether rules move the learning limit, in one sentence or two."""
    sizes: dict[int, list[str]] = {}
    for rule in rules:
        if rule.soonest_num_envs is not None:
            sizes.setdefault(rule.soonest_num_envs, []).append(rule.arm)
    where = "; ".join(f"{size:,} environments ({', '.join(arms)})" for size, arms in sorted(sizes.items()))
    if not sizes:
        return "No rule has a size where every seed reached the target"
    if len(rules) == 1:
        return f"One rule, soonest at {where}: a second one would show whether the limit is the rule's"
    if has_moved is None:
        return f"Soonest at {where}. Too few seeds for intervals: whether a rule moves the limit is undecided"
    if has_moved:
        return (
            f"The limit moves with the rule: soonest at {where}. Sizes that are not shown to be slower do not overlap"
        )
    return f"No rule is shown to move the limit: soonest at {where}, and sizes that are not shown to be slower overlap"
