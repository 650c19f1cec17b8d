"""What fresh seeds show about the settings that have them. Pure; the search has no say.

ln costs are normal with one spread for all settings; censored seeds count by maximum likelihood (`rule.censored`). Three claims hold at
once for all k settings, each at its own level:

    interval of the soonest    Student's t at alpha / (2 k): it was chosen among k
    which may be the best      a setting is shown slower if it is slower than some other one by more than d s sqrt(2 / n), d of Dunnett
    at most this much slower   no other setting is better than a setting by more than its difference plus the same margin

The last two are Hsu's multiple comparisons with the best (Hsu 1984, Ann. Stat. 12:1136). If Bartlett's test says that spreads differ, each
setting has its own, with the degrees of the one with fewest seeds and Bonferroni's t in place of d.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from envknee.verdict.joint.dunnett import critical
from envknee.verdict.joint.prior import Array
from envknee.verdict.rule import censored
from envknee.verdict.rule.contrasts import Contrast
from envknee.verdict.rule.doublings import Seeds


@dataclass(frozen=True)
class Levels:
    """Means of ln cost of the settings with fresh seeds."""

    means: Array
    """Shape (settings,); NaN where no seed reached the target."""
    covariance: Array
    """Of the means. Shape (settings, settings)."""
    degrees: float
    """Degrees of freedom of the spread; 0: unknown."""
    spreads_differ: bool
    decides: Sequence[bool]
    """Whether a setting has few enough censored seeds to be compared."""
    seeds: Sequence[int]
    """Of each setting."""

    @property
    def comparable(self) -> list[int]:
        """Places of the settings that are compared."""
        return [place for place, decides in enumerate(self.decides) if decides and self.degrees > 0]

    def margin(self, one: int, other: int, alpha: float) -> float:
        """Return by how much the difference of two means may be off, for comparisons with the best at level `alpha`."""
        c = self.covariance
        sd = math.sqrt(max(float(c[one, one] + c[other, other] - 2.0 * c[one, other]), 0.0))
        count = len(self.means)
        if self.spreads_differ:
            return -float(stdtrit(self.degrees, alpha / (count - 1))) * sd
        return critical(count, self.degrees, alpha) * sd

    def half_width(self, place: int, alpha: float) -> float:
        """Return half the length of a mean's interval that holds for all settings at once."""
        tail = alpha / (2 * len(self.means))
        return -float(stdtrit(self.degrees, tail)) * math.sqrt(float(self.covariance[place, place]))

    def soonest(self) -> int | None:
        """Return the place of the least mean of those compared; None without one."""
        return min(self.comparable, key=lambda place: (float(self.means[place]), place), default=None)

    def may_be_best(self, place: int, alpha: float) -> bool:
        """Tell whether no other setting is shown to cost less. One that cannot be compared may be the best."""
        if place not in self.comparable:
            return True
        return all(self._difference(place, other) <= self.margin(place, other, alpha) for other in self._others(place))

    def most_slower(self, place: int, alpha: float) -> float | None:
        """Return the most that ln cost is above that of the best other setting; None if it cannot be compared with every one that ran."""
        ran = [own for own, seeds in enumerate(self.seeds) if seeds]
        if self.comparable != ran or place not in ran or len(ran) < 2:
            return None
        most = max(self._difference(place, other) + self.margin(place, other, alpha) for other in self._others(place))
        return max(0.0, most)

    def contrast(self, value: int, one: int, other: int) -> Contrast:
        """Return by how much ln cost falls from one setting to another; `value` names the first one's place on an axis."""
        known = one in self.comparable and other in self.comparable
        c = self.covariance
        variance = max(float(c[one, one] + c[other, other] - 2.0 * c[one, other]), 0.0) if known else None
        return Contrast(
            value,
            self._difference(one, other),
            variance,
            self.degrees if known else math.nan,
            min(self.seeds[one], self.seeds[other]),
            decides=known,
        )

    def _others(self, place: int) -> list[int]:
        return [other for other in self.comparable if other != place]

    def _difference(self, one: int, other: int) -> float:
        return float(self.means[one] - self.means[other])


def levels_of(seeds: Sequence[Seeds]) -> Levels:
    """Return the levels of settings from the costs of their fresh seeds; a setting that never ran has none."""
    count = len(seeds)
    fitted = censored.levels(dict(enumerate(seeds)))
    means, covariance = np.full(count, math.nan), np.zeros((count, count))
    for row, place in enumerate(fitted.known):
        means[place] = fitted.means[place]
        if fitted.covariance is not None:
            covariance[place, list(fitted.known)] = fitted.covariance[row]
    degrees = float(fitted.free) if fitted.covariance is not None else 0.0
    if fitted.unequal:
        # Only without censored seeds; a single seed has no spread.
        counts = [seeds[place].count for place in fitted.known]
        degrees = float(min(counts) - 1)
        of_each = [_variance_of_mean(seeds[place]) for place in fitted.known]
        covariance[fitted.known, fitted.known] = of_each
    decides = [place in fitted.known and censored.decides(own) for place, own in enumerate(seeds)]
    return Levels(means, covariance, degrees, fitted.unequal, decides, [own.count for own in seeds])


def _variance_of_mean(own: Seeds) -> float:
    """Return the variance of the mean ln cost of one setting, from its own seeds; 0 with a single one."""
    return float(np.var(np.log(own.values), ddof=min(1, own.count - 1))) / own.count
