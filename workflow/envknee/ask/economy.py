"""Learning trials that would change nothing: a size that is already slower than another one needs no more seeds.

Input: a point of an arm, and the records that the window shows, of all arms. Output: why its next seed need not run, or None. Pure.

A size gets at least three seeds, and no more once the interval of its seconds to the target lies above the interval of another
size, in any arm. The intervals are the verdict's (`verdict.learning_cost`). A size at which some seeds missed the target has no
interval. It gets no more seeds if all missed the target, and each took longer than the upper end of another size.
"""

from collections.abc import Iterable

from envknee.base.point import Point
from envknee.record.schema import Record
from envknee.verdict.learning_cost import Seeds, cost, seconds_of
from envknee.verdict.rule.union import LEAST_REPEATS
from envknee.verdict.series import Series, by_series

CONFIDENCE = 0.95
"""Not `decide.confidence`, which may change after the measurement; requests may not."""


def decided(arm: str, point: Point, records: Iterable[Record]) -> str | None:
    """Return why the next seed of a point would change nothing, or None."""
    learned = by_series((record for record in records if record.request.skip is None), "learning")
    seeds = {(series, size): seconds_of(group) for series, sizes in learned.items() for size, group in sizes.items()}
    seeds = {place: costs for place, costs in seeds.items() if costs.count >= LEAST_REPEATS}
    own = seeds.get((Series(arm, point.horizon, point.batch_size), point.num_envs))
    if own is None or (lower := _interval_s(own)[0]) is None:
        return None
    ends = {place: upper for place, costs in seeds.items() if (upper := _interval_s(costs)[1]) is not None}
    soonest = min(ends, key=lambda place: (ends[place], place), default=None)
    if soonest is None or lower <= ends[soonest]:
        return None
    series, num_envs = soonest
    return (
        f"decided: {own.count} seeds take at least {lower:.4g} s to the target, and arm {series.arm} at"
        f" {num_envs:,} environments at most {ends[soonest]:.4g} s ({CONFIDENCE:.0%} intervals)"
    )


def _interval_s(seeds: Seeds) -> tuple[float | None, float | None]:
    """Return the ends of the interval of the seconds to the target; None for an end that is unknown."""
    if seeds.censored:
        return None if seeds.reached else min(seeds.censored), None
    interval = cost(seeds, CONFIDENCE)
    return interval.interval_lower, interval.interval_upper
