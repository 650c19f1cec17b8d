"""The legal points of a sweep, and every size derived from a point, each computed in one function.

Input: the sizes listed in a study. Output: `Point`s. Pure.
"""

import itertools
from dataclasses import dataclass

from envknee.config import Kind, Study, Sweep
from envknee.errors import UserError


@dataclass(frozen=True, order=True)
class Point:
    """One place in the space of a sweep. `batch_size` None stands for the library's own number of mini-batches."""

    num_envs: int
    horizon: int
    batch_size: int | None


def rollout_size(num_envs: int, horizon: int) -> int:
    """Return the transitions collected in one iteration by one rank: num_envs x horizon."""
    return num_envs * horizon


def num_mini_batches(num_envs: int, horizon: int, batch_size: int) -> int:
    """Return the optimizer steps in one epoch over a rollout.

    Raises:
        ValueError: when the batch does not divide the rollout (RSL-RL would drop the remainder silently).
    """
    rollout = rollout_size(num_envs, horizon)
    if rollout % batch_size:
        raise ValueError(f"batch_size {batch_size} does not divide num_envs {num_envs} x horizon {horizon} = {rollout}")
    return rollout // batch_size


def is_legal(point: Point) -> bool:
    """Tell whether the batch divides the rollout into whole mini-batches."""
    return point.batch_size is None or rollout_size(point.num_envs, point.horizon) % point.batch_size == 0


def axes(sweep: Sweep) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int | None, ...]]:
    """Return the ascending values of num_envs, horizon and batch_size."""
    batch_sizes = (None,) if sweep.batch_size == "library" else sweep.batch_size
    return sweep.num_envs, sweep.horizon, batch_sizes


def legal_points(sweep: Sweep) -> list[Point]:
    """Return every legal point of a sweep in ascending order; may be empty."""
    return [point for point in itertools.starmap(Point, itertools.product(*axes(sweep))) if is_legal(point)]


@dataclass(frozen=True)
class Slot:
    """What the plan fixes about a trial before any point is chosen.

    `index` counts within (arm, kind); `repeat` 0 chooses new points, later repeats run the same ones again.
    """

    number: int
    arm: str
    kind: Kind
    index: int
    repeat: int


def points_asked(sweep: Sweep) -> int:
    """Return how many different points a sweep measures: all legal ones, or as many as the study asks for."""
    legal = len(legal_points(sweep))
    return legal if sweep.points is None else min(sweep.points, legal)


def plan(study: Study) -> list[Slot]:
    """Return every trial of a study in the order of its number: throughput first, arms taking turns by name.

    By name, because the order in which a file lists them is lost in canonical JSON: a plan must outlive that.

    Raises:
        UserError: when a section has no legal point at all.
    """
    slots: list[Slot] = []
    for kind in ("throughput", "learning"):
        sweep = study.sweep(kind)
        if sweep is None:
            continue
        points = points_asked(sweep)
        if points == 0:
            raise UserError(
                f"{kind}: no point is legal. batch_size {_shown(sweep.batch_size)} must divide num_envs x horizon, but no pair of"
                f" num_envs {_shown(sweep.num_envs)} and horizon {_shown(sweep.horizon)} allows that."
                f" The smallest rollout is {rollout_size(sweep.num_envs[0], sweep.horizon[0])} transitions: lower batch_size to divide it."
            )
        for index in range(points * sweep.repeats):
            for arm in sorted(study.arms):
                slots.append(Slot(len(slots), arm, kind, index, index // points))
    return slots


def _shown(sizes: object) -> str:
    return str(list(sizes)) if isinstance(sizes, tuple) else str(sizes)
