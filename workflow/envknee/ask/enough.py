"""When a section has enough repeats: every series is decided, its time is over, or a point decides nothing. Pure.

The first repeat measures every point. Later repeats measure the points that decide the verdict: the ends of the largest doubling and
of each doubling that may gain less than delta. Looks are few and fixed (`LOOKS`), so that stopping at the first success keeps the
promised error (docs/verdicts.md).
"""

import itertools
import math
import statistics
from collections.abc import Sequence, Set

from envknee.ask.question import Question
from envknee.base.parts import FURTHEST, Parts, parts_of
from envknee.base.point import Point
from envknee.record.schema import Record
from envknee.study.model import Decide
from envknee.study.sweep import UntilDecided
from envknee.verdict.composed import compose

LOOKS = (3, 5, 8, 13)
"""Numbers of repeats after which a section, or a size in `sampler: adaptive`, may count as decided."""

DECIDED = "decided after"


def why(question: Question, point: Point) -> str | None:
    """Return why a trial at `point` is not needed, or None."""
    sweep, slot = question.sweep, question.slot
    # A decision stays: a look uses the first repeats only, which later records do not change.
    skips = (request.skip or "" for request in question.requests)
    if decided := next((skip for skip in skips if skip.startswith(DECIDED)), None):
        return decided
    own = [question.records[asked.number] for asked in question.requests if asked.number in question.records]
    if sweep.until_decided and (look := decided_at(own, question, sweep.until_decided)):
        return f"{DECIDED} {look} repeats"
    rule = sweep.until_decided if slot.kind == "throughput" and slot.repeat else None
    composed, tests = following(question, own) if question.composes else ({}, set())
    follow = composed.keys() - tests
    clear = _clear(own, rule) - tests if rule else set()
    # A part of a point that is not clear is needed, too.
    clear -= {part for other, parts in composed.items() if other not in clear for part in parts.points}
    # The first repeat is always measured, and so are more_repeats: their user has seen how long a repeat takes. Earlier repeats
    # alone say whether there is time, so that a repeat is measured whole or not at all.
    if sweep.time_limit_s is not None and 0 < slot.repeat < sweep.repeats:
        measured = [r for r in own if r.request.repeat < slot.repeat and r.outcome.status != "skipped"]
        spent_s = sum(record.outcome.total_s for record in measured)
        first = {other for other in question.points if question.composes and not _is_far(other, question.points)}
        if measured and spent_s + _expected_s(measured, clear | follow, first) > sweep.time_limit_s:
            repeats = len({record.request.repeat for record in measured})
            return f"time_limit_s {sweep.time_limit_s:g}: {repeats} repeats took {spent_s:.0f} s, and another would take too long"
        if slot.again:
            return "with time_limit_s the first repeat alone measures a point again"
    if point in clear:
        return "its doublings clearly gain more than delta: no repeat of it would change the verdict"
    if point in follow:
        parts = composed[point]
        learns = " and ".join(f"{part.num_envs}" for part in parts.learns)
        steps, horizon = parts.collects.num_envs, parts.collects.horizon
        return f"composed of {steps} environments' steps and {learns} environments' learning at horizon {horizon}"
    if question.composes and not own and _is_far(point, question.points):
        return f"its rollout is over {FURTHEST:g} times any at the smallest horizon: measured once the memory of others is known"
    return None


def following(question: Question, records: Sequence[Record]) -> tuple[dict[Point, Parts], Set[Point]]:
    """Return the points that are composed in this repeat, with their parts, and those of them that test the law and are measured, too.

    A point is measured if a part of it, or another point with its rollout, could not be. Two kinds of points are measured until they have
    tested the law: of each rollout larger than any at the smallest horizon the one with most environments, and one of each other horizon.
    A point whose test was too far off is tested again. If the law does not hold, no point is composed.
    """
    composition = compose(records)
    if composition.missed:
        return {}, set()
    statuses = {record.request.point: record.outcome.status for record in records if not record.request.skip}
    bad = {point for point, status in statuses.items() if status != "ok"}
    too_large = {(point.rollout, point.batch_size) for point in bad}
    composed = {
        point: parts
        for point, parts in parts_of(question.points).items()
        if not parts.points & bad and (point.rollout, point.batch_size) not in too_large
    }
    groups: dict[tuple[bool, int, int | None], list[Point]] = {}
    for point, parts in composed.items():  # by ascending num_envs at each horizon
        size = point.rollout if parts.extrapolate else point.horizon
        groups.setdefault((parts.extrapolate, size, point.batch_size), []).append(point)
    tests = composition.doubted
    for (extrapolates, size, batch_size), group in sorted(groups.items(), key=lambda item: not item[0][0]):
        tested = {point for point in composition.tests.keys() | tests if point.batch_size == batch_size}
        if extrapolates and not tested & {*group}:
            tests.add(max(group))
        # Of a horizon the second largest: half the time, and as good a test. A larger rollout that is tested there will do.
        elif not extrapolates and size not in {point.horizon for point in tested}:
            tests.add(group[-2:][0])
    return composed, tests & composed.keys()


def _is_far(point: Point, points: Sequence[Point]) -> bool:
    smallest = min(point.horizon for point in points)
    return point.rollout > FURTHEST * max(own.rollout for own in points if own.horizon == smallest)


def decided_at(records: Sequence[Record], question: Question, rule: UntilDecided) -> int | None:
    """Return the first look at which every series was decided, or None."""
    known = {record.request.number for record in records}
    unfinished = {request.repeat for request in question.requests if request.number not in known}
    whole = min(unfinished | {1 + max((request.repeat for request in question.requests), default=-1)})
    from envknee.verdict import learning, throughput  # SciPy, which most requests do without

    decide = Decide(delta=rule.delta, delta_learning=rule.delta, confidence=rule.confidence)
    analyse = throughput.analyse if question.slot.kind == "throughput" else learning.analyse
    for look in itertools.takewhile(lambda look: look <= whole, LOOKS):
        limits = analyse([record for record in records if record.request.repeat < look], decide)
        if all(limit.state != "undecided" for limit in limits):
            return look
    return None


def _clear(records: Sequence[Record], rule: UntilDecided) -> set[Point]:
    """Return the points with doublings that all clearly gain more than delta, and of which none is the largest."""
    from envknee.verdict import noise, throughput

    clear: set[Point] = set()
    on_cpu = any(r.outcome.environment and r.outcome.environment.device.type == "cpu" for r in records)
    for limit in throughput.analyse(records, Decide(delta=rule.delta, confidence=rule.confidence)):
        half = limit.law.half_saturation_num_envs if limit.law else None
        cvs = {
            measured.num_envs: (noise.CPU_CV if on_cpu else noise.assumed_cv(measured.num_envs, half))
            / math.sqrt(len(measured.fps_repeats))
            for measured in limit.points
        }
        gains_more = {
            gain.num_envs: gain is not limit.gains[-1]
            and noise.gain_interval(math.log1p(gain.gain), (cvs[gain.num_envs], cvs[gain.doubled]), rule.confidence)[0]
            > math.log1p(rule.delta)
            for gain in limit.gains
        }
        for size in cvs:
            doublings = [more for smaller, more in gains_more.items() if size in (smaller, 2 * smaller)]
            if doublings and all(doublings):
                clear.add(Point(size, limit.horizon, limit.batch_size))
    return clear


def _expected_s(records: Sequence[Record], clear: Set[Point], first: Set[Point] = frozenset()) -> float:
    """Return the expected seconds of another repeat without the clear points.

    A point takes its median. In blocks that is without the process's start, which is added for each block. A point of `first` that was
    not measured yet takes as long for each environment step as the one with as many environments at the smallest horizon.
    """
    seconds: dict[Point, list[float]] = {}
    begun: list[tuple[Point, float]] = []
    for record in records:
        request, total_s = record.request, record.outcome.total_s
        if request.block is not None and request.position == 0:
            begun.append((request.point, total_s))
        else:
            seconds.setdefault(request.point, []).append(total_s)
    starts_s = [total_s - statistics.median(seconds.get(point, [0.0])) for point, total_s in begun]
    blocks = len(begun) / len({record.request.repeat for record in records})
    start_s = blocks * statistics.fmean(starts_s) if starts_s else 0.0
    medians = {point: statistics.median(values) for point, values in seconds.items()}
    smallest = min((point.horizon for point in medians), default=1)
    for point in first - medians.keys():
        medians[point] = medians.get(Point(point.num_envs, smallest, point.batch_size), 0.0) * point.horizon / smallest
    return start_s + sum(taken_s for point, taken_s in medians.items() if point not in clear)
