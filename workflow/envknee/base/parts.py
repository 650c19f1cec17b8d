"""Points whose time follows from parts of other points (`compose_horizons`). Pure.

An iteration collects `horizon` steps of num_envs environments, then learns from the rollout. Seconds of a step depend on num_envs. Seconds
of learning grow with the rollout along a line, for each batch size (`library`: a number of mini-batches). So all of it follows from points
at the smallest horizon: the one with as many environments, and the two whose rollouts are nearest.
"""

from collections.abc import Collection
from itertools import pairwise
from typing import NamedTuple

from envknee.base.point import Point

FURTHEST = 2.0
"""Largest rollout that follows, in units of the largest at the smallest horizon."""


class Parts(NamedTuple):
    """The points that tell the time of another one."""

    collects: Point
    """Has the same num_envs, at the smallest horizon."""
    learns: dict[Point, float]
    """Points at the smallest horizon, with weights: the sum of their seconds of learning is the composed point's."""

    @property
    def points(self) -> set[Point]:
        """All of them."""
        return {self.collects, *self.learns}

    @property
    def extrapolate(self) -> bool:
        """Whether the rollout is larger than any at the smallest horizon."""
        return min(self.learns.values()) < 0.0


def parts_of(points: Collection[Point]) -> dict[Point, Parts]:
    """Return the parts of each point that has them, by ascending horizon and num_envs. No part has parts itself."""
    smallest = min(point.horizon for point in points)
    composed: dict[Point, Parts] = {}
    for point in sorted(points, key=lambda point: (point.horizon, point.num_envs, point.batch_size or 0)):
        same_batch = sorted(own for own in points if (own.horizon, own.batch_size) == (smallest, point.batch_size))
        collects = Point(point.num_envs, smallest, point.batch_size)
        if point.horizon > smallest and collects in same_batch:
            learns = _on_a_line(point.rollout, same_batch)
            if learns:
                composed[point] = Parts(collects, learns)
    return composed


def _on_a_line(rollout: int, points: list[Point]) -> dict[Point, float]:
    """Return the weights of `points`, by ascending num_envs, that give the learning of a rollout; none if it is too far from theirs."""
    if exact := [point for point in points if point.rollout == rollout]:
        return {exact[0]: 1.0}
    if len(points) < 2 or rollout > FURTHEST * points[-1].rollout:
        return {}
    below, above = next((pair for pair in pairwise(points) if rollout < pair[1].rollout), (points[-2], points[-1]))
    share = (rollout - below.rollout) / (above.rollout - below.rollout)
    return {below: 1.0 - share, above: share}
