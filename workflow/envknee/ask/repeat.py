"""What earlier repeats of a section tell of the repeat that a trial belongs to. Pure.

Several policies need the same decisions. Each is made once for a request, when a policy first needs it.
"""

from collections.abc import Sequence, Set
from dataclasses import dataclass
from functools import cached_property

from envknee.ask import clear, horizons
from envknee.ask.question import Question
from envknee.base.parts import Parts
from envknee.base.point import Point
from envknee.record.schema import Record


@dataclass(frozen=True)
class Repeat:
    """The repeat of a trial, and what is known before it."""

    question: Question

    @property
    def records(self) -> Sequence[Record]:
        """Records of this arm and kind that the window shows, in order."""
        return self.question.results

    @cached_property
    def _following(self) -> tuple[dict[Point, Parts], Set[Point]]:
        if not self.question.composes:
            return {}, set()
        return horizons.following(self.question, self.records)

    @property
    def parts(self) -> dict[Point, Parts]:
        """Points that follow from others, with their parts; some of them are measured, too."""
        return self._following[0]

    @cached_property
    def composed_points(self) -> Set[Point]:
        """Points that follow from others and are not measured in this repeat."""
        composed, tests = self._following
        return composed.keys() - tests

    @cached_property
    def clear_points(self) -> Set[Point]:
        """Points whose repeats would not change the verdict. A part of a point that may change it is none."""
        sweep, slot = self.question.sweep, self.question.slot
        if sweep.until_decided is None or slot.kind != "throughput" or slot.repeat == 0:
            return set()
        composed, tests = self._following
        clear_points = clear.clear_points(self.records, sweep.until_decided) - tests
        needed = {part for point, parts in composed.items() if point not in clear_points for part in parts.points}
        return clear_points - needed
