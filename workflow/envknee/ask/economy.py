"""Learning trials that would change nothing: a size that is already slower than another one needs no more seeds.

Input: a point of an arm, and the records that the window shows, of all arms. Output: by which point it is shown slower, or None. Pure.

A size gets at least three seeds, and no more once the interval of its seconds to the target lies above the interval of another
size, in any arm. The intervals are the verdict's (`verdict.learning_cost`). A size at which some seeds missed the target has no
interval. It gets no more seeds if all missed the target, and each took longer than the upper end of another size.
"""

from collections.abc import Iterable

from envknee.base.point import Point
from envknee.record.reasons import ShownSlower
from envknee.record.schema import Record
from envknee.verdict.learning_cost import Seeds, cost, seconds_of
from envknee.verdict.rule.union import LEAST_REPEATS
from envknee.verdict.series import Series, by_series

CONFIDENCE = 0.95
"""Not `decide.confidence`, which may change after the measurement; requests may not."""


def shown_slower(arm: str, point: Point, records: Iterable[Record]) -> ShownSlower | None:
    """Return why the next seed of a point would change nothing, or None."""
    learned = by_series((record for record in records if record.request.skip is None), "learning")
    seeds = {(series, size): seconds_of(group) for series, sizes in learned.items() for size, group in sizes.items()}
    seeds = {place: costs for place, costs in seeds.items() if costs.count >= LEAST_REPEATS}
    of_point = seeds.get((Series(arm, point.horizon, point.batch_size), point.num_envs))
    if of_point is None:
        return None
    lower, _ = _interval_s(of_point)
    if lower is None:
        return None
    uppers = {place: _interval_s(costs)[1] for place, costs in seeds.items()}
    ends = {place: upper for place, upper in uppers.items() if upper is not None}
    soonest = min(ends, key=lambda place: (ends[place], place), default=None)
    if soonest is None or lower <= ends[soonest]:
        return None
    series, num_envs = soonest
    return ShownSlower(
        seeds=of_point.count,
        least_s=lower,
        faster_arm=series.arm,
        faster_num_envs=num_envs,
        most_s=ends[soonest],
        confidence=CONFIDENCE,
    )


def _interval_s(seeds: Seeds) -> tuple[float | None, float | None]:
    """Return the ends of the interval of the seconds to the target; None for an end that is unknown."""
    if seeds.censored:
        return None if seeds.reached else min(seeds.censored), None
    interval = cost(seeds, CONFIDENCE)
    return interval.interval_lower, interval.interval_upper
