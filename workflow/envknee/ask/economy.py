"""Learning trials that would change nothing: a size that is already slower than another one needs no more seeds.

Input: a point of an arm, and the records that the window shows, of all arms. Output: by which point it is shown slower, or None. Pure.

A size gets at least three seeds, and no more once the interval of its seconds to the target lies above the interval of another
size, in any arm. The intervals are the verdict's (`verdict.learning_cost`). A size at which some seeds missed the target has no
interval. It gets no more seeds if all missed the target, and each took longer than the upper end of another size.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

from envknee.base.point import Point
from envknee.record.reasons import ShownSlower
from envknee.record.schema import Record
from envknee.verdict.learning_cost import Seeds, cost, seconds_of
from envknee.verdict.rule.schedule import LEAST_REPEATS
from envknee.verdict.series import Series, by_series

Place = TypeVar("Place", bound=Any)
"""Whatever seeds belong to; places of one study can be sorted."""

CONFIDENCE = 0.95
"""Not `decide.confidence`, which may change after the measurement; requests may not."""


class Slower(NamedTuple, Generic[Place]):
    """A place that is shown slower than another one."""

    least_s: float
    """The fewest seconds that it takes."""
    faster: Place
    """The other place: of all, the one that is done soonest."""
    most_s: float
    """The most seconds that the other one takes."""


def shown_slower(arm: str, point: Point, records: Iterable[Record]) -> ShownSlower | None:
    """Return why the next seed of a point would change nothing, or None."""
    learned = by_series((record for record in records if record.request.skip is None), "learning")
    seeds = {(series, size): seconds_of(group) for series, sizes in learned.items() for size, group in sizes.items()}
    place = (Series(arm, point.horizon, point.batch_size), point.num_envs)
    slower = slower_than_another(seeds, place)
    if slower is None:
        return None
    series, num_envs = slower.faster
    return ShownSlower(
        seeds=seeds[place].count,
        least_s=slower.least_s,
        faster_arm=series.arm,
        faster_num_envs=num_envs,
        most_s=slower.most_s,
        confidence=CONFIDENCE,
    )


def slower_than_another(seeds: Mapping[Place, Seeds], place: Place) -> Slower[Place] | None:
    """Return why a place is shown slower than another one, or None."""
    enough = {other: costs for other, costs in seeds.items() if costs.count >= LEAST_REPEATS}
    if place not in enough:
        return None
    intervals = {other: _interval_s(costs) for other, costs in enough.items()}
    least_s, _ = intervals[place]
    most_s = {other: upper for other, (_, upper) in intervals.items() if upper is not None}
    faster = min(most_s, key=lambda other: (most_s[other], other), default=None)
    if least_s is None or faster is None or least_s <= most_s[faster]:
        return None
    return Slower(least_s, faster, most_s[faster])


def _interval_s(seeds: Seeds) -> tuple[float | None, float | None]:
    """Return the ends of the interval of the seconds to the target; None for an end that is unknown."""
    if seeds.censored:
        return None if seeds.reached else min(seeds.censored), None
    interval = cost(seeds, CONFIDENCE)
    return interval.interval_lower, interval.interval_upper
