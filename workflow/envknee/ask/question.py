"""The information with which a sampler chooses a trial, and its answer."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from envknee.ask.refusals import KnownMemory
from envknee.record.schema import Record, Request
from envknee.study import space
from envknee.study.model import Study, Sweep, Throughput
from envknee.study.space import Point, Slot


@dataclass(frozen=True)
class Question:
    """Everything that a sampler may use to choose the next trial."""

    study: Study
    slot: Slot
    """Number, arm and kind of the trial."""
    requests: Sequence[Request]
    """Earlier requests of this arm and kind, in order."""
    records: Mapping[int, Record]
    """Records that the window shows, by number, of any kind."""
    memory: KnownMemory
    """Memory of the arm, from earlier records."""

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
        asked = {request.point for request in self.requests}
        return [point for point in points if point not in asked]


class Choice(NamedTuple):
    """The trial that a sampler chooses."""

    point: Point
    repeat: int
    """How many requests the point has already."""
    skip: str | None
    """Why no trial is needed; the point then has no meaning."""
    confirms: bool = False
    """Whether the trial is a fresh repeat, which measures the gain of the doubling that the search found."""
