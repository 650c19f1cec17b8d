"""The legal points of a sweep, the plan of a study, and every size that follows from a point. Pure."""

import itertools
from collections.abc import Collection, Sequence
from typing import Literal, NamedTuple

from envknee.base.fields import Kind
from envknee.base.point import Point, rollout_size
from envknee.study.errors import UserError
from envknee.study.model import Arm, Raise, Study, Sweep
from envknee.study.scaling_rule import Scaled, divides, scaled
from envknee.study.value_types import FIXED_DESIGNS

MORE_LEGAL = (
    "List more num_envs and horizons, or batch sizes that divide more rollouts: powers of two divide each other"
)
"""How a study gets more legal points."""

MOST_SETTINGS = 2000
"""Most legal points of a section with one model over all of them: a fit of 2,000 takes some seconds."""


def num_mini_batches(num_envs: int, horizon: int, batch_size: int, world_size: int = 1) -> int:
    """Return the optimizer steps in one epoch over a rollout of `horizon` environment steps.

    `num_envs` is of each rank. `batch_size` is in transitions of all ranks together, of which each brings an equal part.

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


def is_legal(point: Point, world_sizes: Collection[int] = (1,)) -> bool:
    """Tell whether the batch divides the rollout into whole mini-batches, for each number of ranks."""
    if point.batch_size is None:
        return True
    return all(divides(point.batch_size, point.rollout, ranks) for ranks in world_sizes)


def axes(sweep: Sweep) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int | None, ...]]:
    """Return the ascending values of num_envs, horizon and batch_size."""
    batch_sizes = (None,) if sweep.batch_size == "library" else sweep.batch_size
    return sweep.num_envs, sweep.horizon, batch_sizes


def legal_points(sweep: Sweep, world_sizes: Collection[int] = (1,)) -> list[Point]:
    """Return every point of a sweep that is legal with each number of ranks, in ascending order; maybe none.

    All arms run the same points, so that they can be compared point by point. `plan` checks the values of arms with a scaling rule.
    """
    return [point for point in listed_points(sweep) if is_legal(point, world_sizes)]


def listed_points(sweep: Sweep) -> list[Point]:
    """Return every point of a sweep, legal or not, in ascending order."""
    return list(itertools.starmap(Point, itertools.product(*axes(sweep))))


class Slot(NamedTuple):
    """What the plan fixes about a trial before any point is chosen.

    Repeat 0 chooses new points; later repeats run the same points again. A sampler that chooses trials decides the repeat, too.
    """

    number: int
    arm: str
    kind: Kind
    repeat: int
    block: int | None = None
    """The block that measures the trial; None: a process of its own."""
    chunk: int = 0
    """The part of a repeat's points: with blocks some points, else one."""
    position: int = 0
    """The trial's place in that part."""
    again: bool = False
    """Whether the trial measures the point of its block's first trial once more, which shows drift."""
    confirms: bool = False
    """Whether the trial is a fresh seed of a setting that the search found; `chunk` is then its place in a round of all such settings."""
    first_unknown: int = 0
    """The first trial whose record its request must not know: that of the latest `window` - 1 jobs before its own, so that `window` jobs
    can run side by side. Each trial of a pool counts as a job. With `confirms` the first trial of the stage, whatever the window: all of
    a section's fresh seeds follow from its whole search, and may run at once."""
    pool: int | None = None
    """The pool of the trial, which has the number of its first one: the trials that the workers of a section share. None: the section has
    no workers."""
    lane: int | None = None
    """The part of the pool that one worker measures while it can, so that both ends of a doubling come to the same device. None: any worker
    measures any trial of the pool."""


def trend_terms(points: Sequence[Point]) -> int:
    """Return the terms of a joint model's trend over points: a level, and slopes and bends of the axes on which they differ.

    As `verdict.joint.prior` has them.
    """
    settings = [(point.num_envs, point.horizon, point.batch_size) for point in points]
    varied = sum(len(set(values)) > 1 for values in zip(*settings, strict=True))
    return (varied + 1) * (varied + 2) // 2


def points_asked(sweep: Sweep, world_sizes: Collection[int]) -> int:
    """Return how many different points a sweep measures: all legal ones, or as many as the study asks for."""
    legal = len(legal_points(sweep, world_sizes))
    return legal if sweep.points is None else min(sweep.points, legal)


def as_run(arm: Arm, point: Point) -> Scaled:
    """Return the values that a trial of an arm runs with at a listed point; without a scaling rule, the point itself.

    Raises:
        ValueError: when the arm's rule gives illegal values.
    """
    if arm.scaling is None or point.batch_size is None:
        return Scaled(point.horizon, point.batch_size, None, None)
    return scaled(arm.scaling, point.num_envs, point.horizon, point.batch_size, arm.world_size)


def _check_rules(study: Study) -> None:
    """Make sure that every scaling rule gives legal values at every point."""
    for name, arm in study.arms.items():
        for sweep in study.sections.values() if arm.scaling else ():
            for point in legal_points(sweep, study.world_sizes):
                try:
                    as_run(arm, point)
                except ValueError as error:
                    raise UserError(f"arms.{name}.scaling: {error}") from error


def plan(study: Study) -> list[Slot]:
    """Return every trial of a study by number: throughput first, arms taking turns in the order of their names.

    The order of arms in the study file would be lost in canonical JSON. A replay has only the recorded trials, which may be the
    first few.

    Raises:
        UserError: when a section has no legal point, or a scaling rule gives illegal values.
    """
    _check_rules(study)
    slots: list[Slot] = []
    for kind, sweep in study.sections.items():
        of_section = _slots(study, kind, range(sweep.repeats), len(slots))
        if sweep.confirm:
            of_section += _confirming(study, kind, range(sweep.confirm.seeds), len(slots) + len(of_section))
        slots += _pooled(sweep, of_section)
    # These come last, in the order in which they were asked for, so that measured trials keep their numbers.
    measured = {kind: sweep.confirm.seeds if sweep.confirm else sweep.repeats for kind, sweep in study.sections.items()}
    for later in later_repeats(study):
        first = measured[later.section]
        measured[later.section] += later.repeats
        further = _confirming if study.sections[later.section].confirm else _slots
        added = further(study, later.section, range(first, measured[later.section]), len(slots))
        slots += _pooled(study.sections[later.section], added)
    in_jobs = jobs(slots if study.replay is None else slots[: study.replay.trials])
    firsts = [job[0].number for job in in_jobs]
    planned = [
        slot._replace(first_unknown=firsts[max(0, place - study.window + 1)])
        for place, job in enumerate(in_jobs)
        for slot in job
    ]
    planned = [slot._replace(lane=_lane(study, slot)) for slot in planned]
    stages = {slot.kind: _known_to_stage(study, slot) for slot in reversed(planned) if slot.confirms}
    return [slot._replace(first_unknown=stages[slot.kind]) if slot.confirms else slot for slot in planned]


def _known_to_stage(study: Study, first: Slot) -> int:
    """Return the first trial of which no request of a confirming stage knows the record, from the stage's first slot.

    Up to `ask_version` 2 the stage knew what its first request knew by the window.
    """
    return first.number if study.ask_version > 2 else first.first_unknown


def _pooled(sweep: Sweep, slots: Sequence[Slot]) -> list[Slot]:
    """Return slots of a section as one pool, if the section has workers."""
    pool = None if sweep.workers is None else slots[0].number
    return [slot._replace(pool=pool) for slot in slots]


def _lane(study: Study, slot: Slot) -> int | None:
    """Return the lane of a trial, if its pool has lanes.

    A round of fresh repeats that one process measures is a lane. In an ascending search trials go to the lanes in turn, and the sampler
    knows by a trial's number which sizes its lane has measured.
    Elsewhere each repeat is a lane, if points are known beforehand and the window lets each worker run a repeat.
    """
    sweep = study.sections[slot.kind]
    if slot.pool is None or sweep.workers is None:
        return None
    if sweep.confirm is not None and sweep.confirm.one_process:
        return slot.repeat if slot.confirms else None
    if sweep.adaptive.ascending:
        return slot.number % study.window
    is_known = sweep.sampler in FIXED_DESIGNS and sweep.confirm is None
    points = points_asked(sweep, study.world_sizes) * len(study.arms_of(slot.kind))
    return slot.repeat if is_known and study.window >= sweep.workers * points else None


def later_repeats(study: Study) -> list[Raise]:
    """Return further repeats in the order of their trials: as `raised` says, then what it does not name."""
    left: dict[Kind, int] = {kind: sweep.more_repeats for kind, sweep in study.sections.items()}
    order: list[Raise] = []
    asked_for: list[tuple[Kind, int]] = [(later.section, later.repeats) for later in study.raised]
    for kind, asked in (*asked_for, *left.items()):
        repeats = min(asked, left.get(kind, 0))
        if not repeats:
            continue
        left[kind] -= repeats
        if order and order[-1].section == kind:
            repeats += order.pop().repeats
        order.append(Raise(section=kind, repeats=repeats))
    return order


def _slots(study: Study, kind: Kind, repeats: range, first: int) -> list[Slot]:
    """Return the slots of some repeats of a section; the first has number `first`.

    Raises:
        UserError: when no point is legal, or a model that searches all axes has too few or too many to choose from.
    """
    sweep = study.sections[kind]
    points = points_asked(sweep, study.world_sizes)
    if points == 0:
        raise _no_legal_point(study, kind)
    if sweep.is_joint:
        _check_searched(kind, points, len(listed_points(sweep)))
        _check_joint(kind, points)
        searched = itertools.product(range(sweep.search_trials), study.searching(kind))
        return [Slot(number, arm, kind, 0) for number, (_, arm) in enumerate(searched, first)]
    slots = _repeated(study, kind, points, repeats, first)
    return _at_most(study, kind, points, repeats, slots) if sweep.chooses_trials else slots


def _no_legal_point(study: Study, kind: Kind) -> UserError:
    sweep = study.sections[kind]
    ranks = [size for size in sorted(study.world_sizes) if size > 1]
    across = f" x ranks (also with {_shown(tuple(ranks))}), in equal parts of each," if ranks else ","
    return UserError(
        f"{kind}: no point is legal. batch_size {_shown(sweep.batch_size)} must divide num_envs x horizon{across}"
        f" but no pair of num_envs {_shown(sweep.num_envs)} and horizon {_shown(sweep.horizon)} allows that."
        f" The smallest rollout is {rollout_size(sweep.num_envs[0], sweep.horizon[0])} transitions: lower batch_size to divide it."
    )


def _repeated(study: Study, kind: Kind, points: int, repeats: range, first: int) -> list[Slot]:
    """Return the slots of some repeats of `points` points, part by part, arms taking turns."""
    # A learning trial takes too long to be measured again for its drift. With compose_horizons the points that test the law show it.
    shows_drift = kind == "throughput" and not (study.throughput is not None and study.throughput.compose_horizons)
    sizes = enumerate(chunk_sizes(points, study.sections[kind].block))
    slots: list[Slot] = []
    for repeat, (chunk, size), arm in itertools.product(repeats, sizes, study.arms_of(kind)):
        number, shares = first + len(slots), size > 1 and study.shares_processes(arm)
        block = number if shares else None  # a block has the number of its first trial
        trials = size + 1 if shares and shows_drift else size
        slots += [
            Slot(number + position, arm, kind, repeat, block, chunk, position, again=position == size)
            for position in range(trials)
        ]
    return slots


def _at_most(study: Study, kind: Kind, points: int, repeats: range, slots: Sequence[Slot]) -> list[Slot]:
    """Return as many slots as a sampler that chooses trials may use: by default half of them, and the fresh repeats."""
    sweep = study.sections[kind]
    series = {(point.horizon, point.batch_size) for point in legal_points(sweep, study.world_sizes)}
    half = -(-points * len(repeats) // 2) + 2 * sweep.adaptive.confirm * len(series)
    return [slot._replace(repeat=0) for slot in slots[: (sweep.adaptive.trials or half) * len(study.arms_of(kind))]]


def _confirming(study: Study, kind: Kind, rounds: range, first: int) -> list[Slot]:
    """Return the slots of some rounds of the confirming stage, each with a fresh seed of all its settings, arms taking turns.

    Raises:
        UserError: when there are more settings to confirm than legal points.
    """
    sweep = study.sections[kind]
    assert sweep.confirm is not None, "only sections with `confirm`"
    listed, legal = len(listed_points(sweep)), len(legal_points(sweep, study.world_sizes))
    if sweep.confirm.settings > legal:
        raise UserError(
            f"{kind}: confirm.settings {sweep.confirm.settings}, and {legal} of {listed} listed points are legal (batch_size must divide"
            f" num_envs x horizon). Confirm {legal} or fewer, or list more num_envs, horizons or batch sizes"
        )
    _check_joint(kind, legal)
    counts = {arm: min(confirmed_settings(study, kind, arm), legal) for arm in study.arms_of(kind)}
    places = itertools.product(rounds, range(max(counts.values())), counts)
    trials = [(seed, place, arm) for seed, place, arm in places if place < counts[arm]]
    return [
        Slot(number, arm, kind, sweep.first_fresh + seed, chunk=place, confirms=True)
        for number, (seed, place, arm) in enumerate(trials, first)
    ]


def confirmed_settings(study: Study, kind: Kind, arm: str) -> int:
    """Return the most settings of an arm that have fresh seeds: its own, and those of each arm that should learn like it."""
    stage = study.sections[kind].confirm
    return 0 if stage is None else stage.settings * (1 + len(study.followers(arm, kind)))


def _check_searched(kind: Kind, legal: int, listed: int) -> None:
    """Make sure that a search has something to choose.

    Raises:
        UserError: when a single point is legal.
    """
    if legal == 1:
        raise UserError(
            f"{kind}: 1 of {_counted(listed)} is legal, and sampler: profile chooses among several. {MORE_LEGAL}, or take"
            " sampler: grid"
        )


def _counted(listed: int) -> str:
    """Return `1 listed point`, or `12 listed points`."""
    return f"{listed:,} listed point{'' if listed == 1 else 's'}"


def _check_joint(kind: Kind, settings: int) -> None:
    """Make sure that a model over all settings can be fitted for each request.

    Raises:
        UserError: when there are too many.
    """
    if settings > MOST_SETTINGS:
        raise UserError(
            f"{kind}: {settings:,} points are legal, and {MOST_SETTINGS:,} are the most that one model has. List fewer num_envs,"
            " horizons or batch sizes: doublings are enough"
        )


def chunk_sizes(points: int, block: int | Literal["all"]) -> list[int]:
    """Return the number of points in each part of a repeat: as equal as possible, at most `block`."""
    most = points if block == "all" else min(block, points)
    parts = -(-points // most)
    return [points // parts + (part < points % parts) for part in range(parts)]


def jobs(slots: Sequence[Slot]) -> list[list[Slot]]:
    """Return the trials of each job: those of a block together, each other trial alone, in the order of their numbers."""
    grouped = itertools.groupby(slots, key=lambda slot: (slot.block, slot.number if slot.block is None else None))
    return [list(group) for _, group in grouped]


def pools(slots: Sequence[Slot]) -> list[list[Slot]]:
    """Return the trials of each pool, in the order of their numbers."""
    grouped = itertools.groupby(slots, key=lambda slot: slot.pool)
    return [list(group) for pool, group in grouped if pool is not None]


def _shown(sizes: object) -> str:
    return str(list(sizes)) if isinstance(sizes, tuple) else str(sizes)
