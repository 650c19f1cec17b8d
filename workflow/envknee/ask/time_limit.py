"""How long another repeat would take, by what the points took so far. Pure."""

import statistics
from collections.abc import Sequence, Set

from envknee.base.point import Point
from envknee.record.schema import Record


def expected_s(records: Sequence[Record], clear: Set[Point], first: Set[Point] = frozenset()) -> float:
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
