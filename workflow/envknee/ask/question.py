"""What is known when a trial is chosen."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from envknee.ask.observations import point_of
from envknee.ask.refusals import KnownMemory
from envknee.record.schema import Record, Request
from envknee.study import space
from envknee.study.model import Study, Sweep
from envknee.study.space import Point, Slot


@dataclass(frozen=True)
class Question:
    """Which trial of an arm is next?"""

    study: Study
    slot: Slot
    """Number, arm and kind of the trial."""
    requests: Sequence[Request]
    """All of this arm and kind so far, in order."""
    records: Mapping[int, Record]
    """By number, those that the window shows, of any kind."""
    memory: KnownMemory
    """What is known of the arm's memory."""

    @property
    def sweep(self) -> Sweep:
        """The section of the study that is asked about."""
        sweep = self.study.sweep(self.slot.kind)
        assert sweep is not None, "the plan has trials only of kinds that the study has"
        return sweep

    @cached_property
    def points(self) -> list[Point]:
        """All legal points, in ascending order."""
        return space.legal_points(self.sweep, self.study.world_sizes)

    def new(self, points: Iterable[Point]) -> list[Point]:
        """Return those of `points` that were not asked yet, in the same order."""
        asked = {point_of(request) for request in self.requests}
        return [point for point in points if point not in asked]


class Choice(NamedTuple):
    """What to run next."""

    point: Point
    repeat: int
    """How often the point was asked for before."""
    skip: str | None
    """Why nothing needs to be run; the point is then only a name."""
    confirms: bool = False
    """A fresh repeat of a doubling that was found already."""
