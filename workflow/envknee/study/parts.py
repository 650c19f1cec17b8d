"""Points whose time follows from parts of other points (`compose_horizons`). Pure.

An iteration collects `horizon` steps of num_envs environments, then learns from the rollout. Seconds of a step depend on num_envs, and
seconds of learning on rollout and batch size. So two other points tell the time of an iteration: the one with as many environments at
the smallest horizon, and one with the same rollout. All sizes are measured at the smallest horizon, and of the others only those whose
rollout is larger than any there.
"""

from collections.abc import Collection
from typing import NamedTuple

from envknee.study.space import Point, rollout_size


class Parts(NamedTuple):
    """The points that tell the time of another one."""

    collects: Point
    """Has the same num_envs, at the smallest horizon."""
    learns: Point
    """Has the same rollout and batch size, at the smallest horizon that has such a point."""


def parts_of(points: Collection[Point]) -> dict[Point, Parts]:
    """Return the parts of each point that has them, by ascending horizon and num_envs. A part has none itself."""
    horizons = sorted({point.horizon for point in points})
    composed: dict[Point, Parts] = {}
    for point in sorted(points, key=lambda point: (point.horizon, point.num_envs, point.batch_size or 0)):
        collects = Point(point.num_envs, horizons[0], point.batch_size)
        learns = next((same for h in horizons if (same := _same_rollout(point, h)) in points), point)
        if learns.horizon < point.horizon and collects in points:
            composed[point] = Parts(collects, learns)
    return composed


def _same_rollout(point: Point, horizon: int) -> Point:
    """Return the point at another horizon with the same rollout and batch size; `point` itself without one."""
    num_envs, rest = divmod(rollout_size(point.num_envs, point.horizon), horizon)
    return point if rest else Point(num_envs, horizon, point.batch_size)
