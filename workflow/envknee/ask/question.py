"""What a sampler is told of earlier trials, and its answer. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from envknee.ask.history import Asked, Footprint, History
from envknee.ask.refusals import MEMORY_MARGIN, KnownMemory
from envknee.base.point import Point
from envknee.record.reasons import RefusalReason, SkipReason
from envknee.record.schema import Record, Request
from envknee.record.status import DID_NOT_FIT
from envknee.study import space
from envknee.study.model import Learning, Study, Sweep, Throughput
from envknee.study.space import Slot

OOM_EXCESS = 0.5
"""Memory excess of a trial that did not fit: as if it had needed 1.5 times the memory."""

AXES = ("num_envs", "horizon", "batch_size")


@dataclass(frozen=True)
class Question:
    """Everything that a sampler may use to choose the next trial."""

    study: Study
    slot: Slot
    """Number, arm and kind of the trial."""
    history: History
    """Earlier requests and records of any arm and kind."""
    memory: KnownMemory
    """Memory of the arm, from earlier records."""

    @cached_property
    def asked(self) -> list[Asked]:
        """What most answers need of earlier requests of this arm and kind, in order."""
        here = (self.slot.arm, self.slot.kind)
        return [asked for asked in self.history.asked if (asked.arm, asked.kind) == here]

    @cached_property
    def requests(self) -> list[Request]:
        """Earlier requests of this arm and kind, in order."""
        return [self.history.requests[asked.number] for asked in self.asked]

    @cached_property
    def footprints(self) -> Mapping[int, Footprint]:
        """The small part of the record of each earlier request of this arm and kind, by number, as the window shows them.

        No whole record is read for it.
        """
        visible = self.history.footprints
        known = [asked.number for asked in self.asked if asked.number < self.slot.first_unknown]
        return {number: visible[number] for number in known if number in visible}

    @cached_property
    def records(self) -> Mapping[int, Record]:
        """Records that the window shows, by number, of any arm and kind."""
        return self.history.records.before(self.slot.first_unknown)

    @cached_property
    def results(self) -> list[Record]:
        """Records of this arm and kind that the window shows, in order."""
        return [self.records[asked.number] for asked in self.asked if asked.number in self.records]

    @property
    def sweep(self) -> Sweep:
        """The trial's section of the study."""
        return self.study.sections[self.slot.kind]

    @cached_property
    def points(self) -> list[Point]:
        """All legal points, in ascending order."""
        return space.legal_points(self.sweep, self.study.world_sizes)

    @property
    def composes(self) -> bool:
        """Whether FPS at some horizons follow from others."""
        return isinstance(self.sweep, Throughput) and self.sweep.compose_horizons

    def new(self, points: Iterable[Point]) -> list[Point]:
        """Return the points without a request so far, in the same order."""
        asked = {asked.point for asked in self.asked}
        return [point for point in points if point not in asked]


class Choice(NamedTuple):
    """The trial that a sampler chooses."""

    point: Point
    repeat: int
    """How many requests the point has already."""
    skip: SkipReason | str | None
    """Why no trial is needed; the point then has no meaning. A text in version 1 alone."""
    confirms: bool = False
    """Whether the trial is a fresh repeat, which measures the gain of the doubling that the search found."""


class NotRun(NamedTuple):
    """Why a trial is not run: at most one of both. Texts in version 1 alone."""

    skip: SkipReason | str | None = None
    refusal: RefusalReason | str | None = None


@dataclass(frozen=True)
class Observation:
    """One earlier trial, as a sampler sees it."""

    point: Point
    value: float | None
    """FPS (more is better) or seconds to target (less is better); None while the trial runs."""
    memory_excess: float
    """Peak memory / usable memory - 1; 0 or less is feasible."""


def observe(sweep: Sweep, requests: Sequence[Request], records: Mapping[int, Record]) -> list[Observation]:
    """Return an observation of each request of one (arm, kind), in their order.

    A trial without a record is running. A trial that did not fit is infeasible. It gets the worst value seen, and so does a trial
    that broke before it was timed.
    """
    ended = {request.number: records[request.number] for request in requests if request.number in records}
    values = {number: _value(sweep, record) for number, record in ended.items()}
    known = [value for value in values.values() if value is not None]
    worst = max(known, default=2 * sweep.budget_s) if isinstance(sweep, Learning) else min(known, default=0.0)
    told = {number: worst if value is None else value for number, value in values.items()}
    excess = {number: _memory_excess(record) for number, record in ended.items()}
    return [Observation(r.point, told.get(r.number), excess.get(r.number, 0.0)) for r in requests]


def censored_seconds(best_reward: float, target_reward: float, budget_s: float) -> float:
    """Return a pessimistic value for the seconds to a target that was not reached within the budget.

    The true time is above `budget_s` and unknown. The value is budget_s x (2 - progress), with progress = |target| / (|target| +
    shortfall): the budget for a trial close to the target, twice the budget for one without progress. So a sampler sees which of
    two censored trials came closer. For verdicts the trial stays censored.
    """
    scale = abs(target_reward) or 1.0
    shortfall = max(0.0, target_reward - best_reward)
    return budget_s * (2 - scale / (scale + shortfall))


def _value(sweep: Sweep, record: Record) -> float | None:
    """Return the objective of a trial, or None."""
    if record.outcome.status in DID_NOT_FIT:
        return None
    if not isinstance(sweep, Learning):
        return record.fps_total.median if record.fps_total else None
    if record.seconds_to_target is not None:
        return record.seconds_to_target
    if record.outcome.status != "timeout" or record.best_reward is None:
        return 2 * sweep.budget_s
    return censored_seconds(record.best_reward, sweep.target_reward, sweep.budget_s)


def _memory_excess(record: Record) -> float:
    if record.outcome.status in DID_NOT_FIT:
        return OOM_EXCESS
    if record.memory_peak_gb is None or record.rank_memory_gb is None:
        return 0.0  # it broke before the first measurement, and not from lack of memory
    return record.memory_peak_gb / (record.rank_memory_gb * (1 - MEMORY_MARGIN)) - 1
