"""Learning trials that would change nothing: a size that is already slower than another one needs no more seeds.

Input: a point of an arm, and the records that the window shows, of all arms. Output: by which point it is shown slower, or None. Pure.

A size gets at least three seeds, and no more once the interval of its seconds to the target lies above the interval of another
size, in any arm. The intervals are the verdict's (`verdict.learning_cost`). A size at which some seeds missed the target has no
interval. It gets no more seeds if all missed the target, and each took longer than the upper end of another size.
"""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

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


def shown_slower(arm: str, point: Point, records: Iterable[Record]) -> ShownSlower | None:
    """Return why the next seed of a point would change nothing, or None."""
    learned = by_series((record for record in records if record.request.skip is None), "learning")
    seeds = {(series, size): seconds_of(group) for series, sizes in learned.items() for size, group in sizes.items()}
    place = (Series(arm, point.horizon, point.batch_size), point.num_envs)
    soonest = soonest_of_faster(seeds, place)
    if soonest is None:
        return None
    (series, num_envs), most_s = soonest
    least_s, _ = _interval_s(seeds[place])
    assert least_s is not None, "it was compared"
    return ShownSlower(
        seeds=seeds[place].count,
        least_s=least_s,
        faster_arm=series.arm,
        faster_num_envs=num_envs,
        most_s=most_s,
        confidence=CONFIDENCE,
    )


def soonest_of_faster(seeds: Mapping[Place, Seeds], place: Place) -> tuple[Place, float] | None:
    """Return the place that is shown to be faster than another one and is done soonest, with the most seconds it takes; or None."""
    enough = {other: costs for other, costs in seeds.items() if costs.count >= LEAST_REPEATS}
    if place not in enough:
        return None
    lower, _ = _interval_s(enough[place])
    uppers = {other: _interval_s(costs)[1] for other, costs in enough.items()}
    ends = {other: upper for other, upper in uppers.items() if upper is not None}
    soonest = min(ends, key=lambda other: (ends[other], other), default=None)
    if lower is None or soonest is None or lower <= ends[soonest]:
        return None
    return soonest, ends[soonest]


def _interval_s(seeds: Seeds) -> tuple[float | None, float | None]:
    """Return the ends of the interval of the seconds to the target; None for an end that is unknown."""
    if seeds.censored:
        return None if seeds.reached else min(seeds.censored), None
    interval = cost(seeds, CONFIDENCE)
    return interval.interval_lower, interval.interval_upper
