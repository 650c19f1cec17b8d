"""Points of other horizons whose FPS follow from those of the smallest (`compose_horizons`). Pure."""

from collections.abc import Sequence, Set

from envknee.ask.question import Question
from envknee.base.parts import FURTHEST, Parts, parts_of
from envknee.base.point import Point
from envknee.record.schema import Record


def following(question: Question, records: Sequence[Record]) -> tuple[dict[Point, Parts], Set[Point]]:
    """Return the points that are composed in this repeat, with their parts, and those of them that test the law and are measured, too.

    A point is measured if a part of it, or another point with its rollout, could not be. Two kinds of points are measured until they have
    tested the law: of each rollout larger than any at the smallest horizon the one with most environments, and one of each other horizon.
    A point whose test was too far off is tested again. If the law does not hold, no point is composed.
    """
    from envknee.verdict.composed import compose  # most requests do without

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


def is_far(point: Point, points: Sequence[Point]) -> bool:
    """Tell whether a rollout is far larger than any at the smallest horizon."""
    smallest = min(point.horizon for point in points)
    return point.rollout > FURTHEST * max(own.rollout for own in points if own.horizon == smallest)
