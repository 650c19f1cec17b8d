"""The legal points of a sweep. Computes every size that follows from a point, each in one function.

Input: the sizes listed in a study. Output: `Point`s. Pure.
"""

import itertools
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from envknee.study.errors import UserError
from envknee.study.model import Arm, Study, Sweep
from envknee.study.rules import Kind
from envknee.study.scaling_rule import Scaled, divides, scaled


@dataclass(frozen=True, order=True)
class Point:
    """One place in the space of a sweep: num_envs of each rank, batch_size of all ranks together.

    `batch_size` None stands for the library's own number of mini-batches.
    """

    num_envs: int
    horizon: int
    batch_size: int | None


def rollout_size(num_envs: int, horizon: int) -> int:
    """Return the transitions collected in one iteration by one rank: num_envs x horizon."""
    return num_envs * horizon


def num_mini_batches(num_envs: int, horizon: int, batch_size: int, world_size: int = 1) -> int:
    """Return the optimizer steps in one epoch over a rollout.

    Args:
        num_envs: of each rank
        horizon: environment steps
        batch_size: transitions of all ranks together; each brings an equal part
        world_size: ranks

    Raises:
        ValueError: when the batch does not divide the rollout (RSL-RL would drop the remainder silently).
    """
    rollout = rollout_size(num_envs, horizon)
    if not divides(batch_size, rollout, world_size):
        ranks = f" x {world_size} ranks" if world_size > 1 else ""
        raise ValueError(
            f"batch_size {batch_size} does not divide num_envs {num_envs} x horizon {horizon}{ranks}"
            f" = {rollout * world_size}" + (" into equal parts of each rank" if ranks else "")
        )
    return rollout * world_size // batch_size


def batch_transitions(
    num_envs: int, horizon: int, batch_size: int | None, mini_batches: int | None, world_size: int = 1
) -> float:
    """Return the transitions that one rank brings to an optimizer step: what its memory must hold.

    0 where nothing tells (the library's batch of a trial that never ran).

    Args:
        num_envs: of each rank
        horizon: environment steps
        batch_size: transitions of all ranks together; None for the library's own
        mini_batches: optimizer steps per epoch that the library ran with
        world_size: ranks, which bring equal parts
    """
    if batch_size is not None:
        return batch_size / world_size
    return rollout_size(num_envs, horizon) / mini_batches if mini_batches else 0.0


def is_legal(point: Point, world_sizes: Collection[int] = (1,)) -> bool:
    """Tell whether the batch divides the rollout into whole mini-batches, with each of these numbers of ranks."""
    if point.batch_size is None:
        return True
    rollout = rollout_size(point.num_envs, point.horizon)
    return all(divides(point.batch_size, rollout, ranks) for ranks in world_sizes)


def axes(sweep: Sweep) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int | None, ...]]:
    """Return the ascending values of num_envs, horizon and batch_size."""
    batch_sizes = (None,) if sweep.batch_size == "library" else sweep.batch_size
    return sweep.num_envs, sweep.horizon, batch_sizes


def legal_points(sweep: Sweep, world_sizes: Collection[int] = (1,)) -> list[Point]:
    """Return every point of a sweep that is legal with each of these numbers of ranks, in ascending order; maybe none.

    All arms run the same points, so that they are compared point by point. What an arm under a rule makes of a point was checked
    when the study was read.
    """
    return [point for point in _every_point(sweep) if is_legal(point, world_sizes)]


def _every_point(sweep: Sweep) -> list[Point]:
    return list(itertools.starmap(Point, itertools.product(*axes(sweep))))


def left_out(study: Study) -> list[str]:
    """Return a sentence for each section of a study that lists points which are not legal: they are not measured."""
    sentences = []
    for kind in ("throughput", "learning"):
        sweep = study.sweep(kind)
        every = _every_point(sweep) if sweep else []
        illegal = [point for point in every if not is_legal(point, study.world_sizes)]
        if illegal:
            named = [f"{point.batch_size} of {point.num_envs} x {point.horizon}" for point in illegal[:3]]
            more = f" and {len(illegal) - 3} more" if len(illegal) > 3 else ""
            ranks = "" if study.world_sizes == {1} else ", in equal parts of each rank,"
            sentences.append(
                f"{kind}: {len(illegal)} of {len(every)} points are not measured, because batch_size must divide num_envs x"
                f" horizon{ranks} and does not: {', '.join(named)}{more}"
            )
    return sentences


@dataclass(frozen=True)
class Slot:
    """What the plan fixes about a trial before any point is chosen.

    `index` counts within (arm, kind); `repeat` 0 chooses new points, later repeats run the same ones again. Where the sampler
    chooses trials, the repeat follows with the point.
    """

    number: int
    arm: str
    kind: Kind
    index: int
    repeat: int
    block: int | None = None
    """Which of the study's blocks measures it; None: a process of its own."""
    chunk: int = 0
    """Which part of a repeat's points that block has."""
    position: int = 0
    """In its block."""
    again: bool = False
    """Whether it measures the point of its block's first trial once more, which shows drift."""


def points_asked(sweep: Sweep, world_sizes: Collection[int]) -> int:
    """Return how many different points a sweep measures: all legal ones, or as many as the study asks for."""
    legal = len(legal_points(sweep, world_sizes))
    return legal if sweep.points is None else min(sweep.points, legal)


def trials_asked(sweep: Sweep, world_sizes: Collection[int]) -> int:
    """Return how many trials of a sweep each arm has at most: every point with all repeats, or what is enough to decide."""
    every = points_asked(sweep, world_sizes) * sweep.repeats
    if not sweep.chooses_trials:
        return every
    series = {(point.horizon, point.batch_size) for point in legal_points(sweep, world_sizes)}
    fresh = 2 * sweep.adaptive.confirm * len(series)
    return min(every, sweep.adaptive.trials or -(-every // 2) + fresh)


def as_run(arm: Arm, point: Point) -> Scaled:
    """Return what a trial of an arm runs with at a point as the study lists it; without a rule that is the point itself.

    Raises:
        ValueError: when the arm's rule makes no legal values of it.
    """
    if arm.scaling is None or point.batch_size is None:
        return Scaled(point.horizon, point.batch_size, None, None)
    return scaled(arm.scaling, point.num_envs, point.horizon, point.batch_size, arm.world_size)


def _check_rules(study: Study) -> None:
    """Make sure that every rule makes legal values of every point.

    Raises:
        UserError: names the arm, the point, what is wrong with it, and the nearest that is legal.
    """
    for name, arm in study.arms.items():
        for sweep in filter(None, (study.throughput, study.learning)) if arm.scaling else ():
            for point in legal_points(sweep, study.world_sizes):
                try:
                    as_run(arm, point)
                except ValueError as error:
                    raise UserError(f"arms.{name}.scaling: {error}") from error


def plan(study: Study) -> list[Slot]:
    """Return every trial of a study in the order of its number: throughput first, arms taking turns by name.

    By name, because the order in which a file lists them is lost in canonical JSON: a plan must outlive that. A replay has those
    trials that were recorded, which may be the first ones only.

    Raises:
        UserError: when a section has no legal point at all, or a rule makes an illegal one.
    """
    _check_rules(study)
    slots: list[Slot] = []
    for is_later in (False, True):  # what was measured keeps its number, and what is asked for later comes behind it
        for kind in ("throughput", "learning"):
            sweep = study.sweep(kind)
            if sweep is not None:
                repeats = range(sweep.repeats, sweep.all_repeats) if is_later else range(sweep.repeats)
                slots += _slots(study, kind, sweep, repeats, len(slots))
    return slots if study.replay is None else slots[: study.replay.trials]


def _slots(study: Study, kind: Kind, sweep: Sweep, repeats: range, first: int) -> list[Slot]:
    """Return the slots of some repeats of a section; the first has number `first`."""
    points = points_asked(sweep, study.world_sizes)
    if points == 0:
        ranks = [size for size in sorted(study.world_sizes) if size > 1]
        across = f" x ranks (also with {_shown(tuple(ranks))}), in equal parts of each," if ranks else ","
        raise UserError(
            f"{kind}: no point is legal. batch_size {_shown(sweep.batch_size)} must divide num_envs x horizon{across}"
            f" but no pair of num_envs {_shown(sweep.num_envs)} and horizon {_shown(sweep.horizon)} allows that."
            f" The smallest rollout is {rollout_size(sweep.num_envs[0], sweep.horizon[0])} transitions: lower batch_size to divide it."
        )
    if sweep.block != 1:
        return _in_blocks(study, kind, sweep, points, repeats, first)
    indices = range(points * repeats.start, points * repeats.stop)
    if sweep.chooses_trials and repeats:
        indices = range(trials_asked(sweep, study.world_sizes))
    return [
        Slot(first + place, arm, kind, index, 0 if sweep.chooses_trials else index // points)
        for place, (index, arm) in enumerate(itertools.product(indices, sorted(study.arms)))
    ]


def _in_blocks(study: Study, kind: Kind, sweep: Sweep, points: int, repeats: range, first: int) -> list[Slot]:
    """Return the slots of a section whose processes measure several points: block by block, arms taking turns."""
    slots: list[Slot] = []
    sizes = chunk_sizes(points, sweep.block)
    shares = {arm: can_share(study.arms[arm]) for arm in study.arms}
    indices = {arm: repeats.start * sum(size + (size > 1 and shares[arm]) for size in sizes) for arm in study.arms}
    for repeat, (chunk, size), arm in itertools.product(repeats, enumerate(sizes), sorted(study.arms)):
        shared = size > 1 and shares[arm]
        block = first + len(slots)  # it goes by the number of its first trial
        for position in range(size + shared):
            number = first + len(slots)
            own = block if shared else None
            slots.append(Slot(number, arm, kind, indices[arm], repeat, own, chunk, position, position == size))
            indices[arm] += 1
    return slots


def chunk_sizes(points: int, block: int | Literal["all"]) -> list[int]:
    """Return how many points each part of a repeat has: as equal as can be, none more than `block`."""
    most = points if block == "all" else min(block, points)
    parts = -(-points // most)
    return [points // parts + (part < points % parts) for part in range(parts)]


def can_share(arm: Arm) -> bool:
    """Tell whether one process, or a rank's, can measure several trials of an arm: all on one machine, learning in turns."""
    together = arm.world_size == 1 or (arm.trainer == "rsl_rl" and arm.nodes == 1)
    return together and arm.strategy == "in_turns"


def jobs(slots: Sequence[Slot]) -> list[list[Slot]]:
    """Return what runs together: the trials of each block, and each other trial alone, in order of their numbers."""
    grouped = itertools.groupby(slots, key=lambda slot: (slot.block, slot.number if slot.block is None else None))
    return [list(group) for _, group in grouped]


def first_unknowns(slots: Sequence[Slot], window: int) -> list[int]:
    """Return, for each request, the first trial whose record it must not know: of the latest `window` - 1 jobs before its own.

    So that `window` jobs can run side by side. A trial that has a process of its own is a job.
    """
    all_jobs = jobs(slots)
    firsts = [job[0].number for job in all_jobs]
    return [firsts[max(0, place - window + 1)] for place, job in enumerate(all_jobs) for _ in job]


def _shown(sizes: object) -> str:
    return str(list(sizes)) if isinstance(sizes, tuple) else str(sizes)
