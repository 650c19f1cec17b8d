"""How long more trials take, from the durations of measured ones. Pure.

Of n trials to come and k measured ones with mean m and standard deviation s, the sum lies within n m ± 2 s n sqrt(1/k + 1/n): the error of
the mean, and the spread of what is still to come.
"""

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

LEAST_TIMED = 2
"""Trials of a kind with fewer of which their spread, and with it a range, is unknown."""

DEVIATIONS = 2.0
"""Standard deviations to either side: with normal durations, about 95% of ranges hold what is left."""


class Durations(NamedTuple):
    """Seconds of the trials of one kind that were measured."""

    trials: int
    mean_s: float
    deviation_s: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> "Durations | None":
        """Return mean and spread; None with fewer than `LEAST_TIMED` trials."""
        if len(seconds) < LEAST_TIMED:
            return None
        return cls(len(seconds), statistics.fmean(seconds), statistics.stdev(seconds))

    def least_s(self, count: int) -> float:
        """Return the lower end of the seconds of `count` more trials."""
        return max(0.0, count * self.mean_s - self._margin_s(count))

    def most_s(self, count: int) -> float:
        """Return the upper end of the seconds of `count` more trials."""
        return count * self.mean_s + self._margin_s(count)

    def _margin_s(self, count: int) -> float:
        if count == 0:
            return 0.0
        return DEVIATIONS * self.deviation_s * count * math.sqrt(1 / self.trials + 1 / count)


class TrialsToCome(NamedTuple):
    """Trials of an arm and a kind that have not ended."""

    first: int
    """Of the first repeat, which is always measured."""
    repeats: int
    """Of later repeats, which a time limit may end."""
    more: int
    """Of `more_repeats`, which no time limit ends."""
    spent_s: float
    """Seconds of the arm's trials of that kind so far."""

    @classmethod
    def of(cls, repeats: Sequence[int], planned_repeats: int, spent_s: float) -> "TrialsToCome":
        """Return them from the number of each one's repeat; those from `planned_repeats` on are `more_repeats`."""
        first, more = repeats.count(0), sum(repeat >= planned_repeats for repeat in repeats)
        return cls(first, len(repeats) - first - more, more, spent_s)

    @property
    def trials(self) -> int:
        """The number of all of them."""
        return self.first + self.repeats + self.more

    def most_s(self, each_s: float, time_limit_s: float | None) -> float:
        """Return their seconds at `each_s` a trial; later repeats end with `time_limit_s`, if there is one."""
        first_s, repeats_s = self.first * each_s, self.repeats * each_s
        if time_limit_s is not None:
            repeats_s = min(repeats_s, max(0.0, time_limit_s - self.spent_s - first_s))
        return first_s + repeats_s + self.more * each_s
