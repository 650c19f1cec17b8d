"""After which repeats a study may be looked at, and what each look costs. Pure, and without SciPy: asking needs it.

`rule.looks` says why.
"""

import math
from dataclasses import dataclass
from typing import Literal

SHARE = 0.8
"""Of the chance of error. With 1.0 a study of eight doublings at the cut-off is wrong in 5.8% of cases."""

LEAST_REPEATS = 3
"""Repeats, or seeds, with fewer of which a gain is shown, but decides nothing: with two, 80% power would need a doubling that loses a
quarter."""

LATER = (5, 8, 13, 21, 34, 55, 89, 144)
"""Numbers of repeats after which a study of planned repeats is looked at again."""

LATER_SHARE = 0.2
"""What each of these looks has, of the one before it."""


When = Literal["every repeat", "as planned", "once"]


@dataclass(frozen=True)
class Schedule:
    """When a study may be looked at."""

    when: When
    planned: int = 0
    """With "as planned": the repeats that were fixed beforehand."""

    def factor(self, repeats: int) -> float:
        """Return what a p-value counts times after a number of whole repeats; infinite: that is no look."""
        if self.when == "once":
            return 1.0
        if self.when == "every repeat":
            return repeats / SHARE if repeats >= LEAST_REPEATS else math.inf
        if repeats not in self.numbers:
            return math.inf
        return 1.0 / (SHARE * LATER_SHARE ** self.numbers.index(repeats))

    def next_look(self, repeats: int) -> int | None:
        """Return the first number of repeats that is a look, from `repeats` on; None after the last one."""
        if self.when != "as planned":
            return repeats
        return next((number for number in self.numbers if number >= repeats), None)

    def last_look(self, repeats: int) -> int | None:
        """Return the last number of repeats that is a look, up to `repeats`; None before the first one."""
        if repeats < LEAST_REPEATS:
            return None
        if self.when != "as planned":
            return repeats
        return max((number for number in self.numbers if number <= repeats), default=None)

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of repeats that are looks, with "as planned"."""
        first = max(self.planned, LEAST_REPEATS)
        return first, *(number for number in LATER if number > first)


ONCE = Schedule("once")
EVERY_REPEAT = Schedule("every repeat")


def as_planned(repeats: int) -> Schedule:
    """Return the schedule of a study whose number of repeats was fixed beforehand."""
    return Schedule("as planned", repeats)
