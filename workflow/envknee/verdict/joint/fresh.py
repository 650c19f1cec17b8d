"""What fresh seeds show about the settings that have them. Pure; the search has no say.

ln costs are normal; settings have one spread, or with whole seeds one each, drawn towards the others (`spreads`). Censored seeds count by
maximum likelihood (`rule.censored`). Three claims hold at once for all k settings, each at its own level:

    interval of the soonest    Student's t at alpha / (2 k): it was chosen among k
    which may be the best      a setting is shown slower if it is slower than some other one by more than d s sqrt(2 / n), d of Dunnett
    at most this much slower   no other setting is better than a setting by more than its difference plus the same margin

The last two are Hsu's multiple comparisons with the best (Hsu 1984, Ann. Stat. 12:1136). Where settings have spreads of their own,
Bonferroni's t stands in place of d, with the fewest degrees of any setting.

A setting with too many censored seeds has no mean, and a lower bound of it: the mean with each such seed at its bound. The mean of all its
seeds, had they been trained to the end, is at least as large. So it may be shown slower by that bound, and the others are at most as much
slower than it as the bound says: both hold at least as often as with the whole seeds. Its spread is taken to be the largest of the others.

If a process measures a round, one seed of each setting, the seeds of a round share what that process is like (two-way layout without
interaction): it cancels when settings are compared, and stays in each setting's own interval, which has the degrees of the rounds alone.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from envknee.verdict.joint.dunnett import critical
from envknee.verdict.joint.prior import Array
from envknee.verdict.joint.spreads import Spreads, shared
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
    """Degrees of freedom of the spread, for comparisons; 0: unknown."""
    own_degrees: float
    """Likewise for the interval of one mean: fewer where the seeds of a round share a process."""
    are_pooled: bool
    """Whether all settings share one spread."""
    spreads_differ: bool
    """Whether Bartlett's test says so."""
    decides: Sequence[bool]
    """Whether a setting has few enough censored seeds to be compared."""
    seeds: Sequence[int]
    """Of each setting."""
    floors: Array
    """Means of ln cost with censored seeds at their bounds, shape (settings,); NaN without a seed."""

    @property
    def comparable(self) -> list[int]:
        """Places of the settings that are compared."""
        return [place for place, decides in enumerate(self.decides) if decides and self.degrees > 0]

    @property
    def bounded(self) -> list[int]:
        """Places of the settings of which only a lower bound of the mean is known; none if spreads differ, so that theirs is unknown."""
        if self.degrees <= 0 or self.spreads_differ:
            return []
        return [place for place, seeds in enumerate(self.seeds) if seeds and not self.decides[place]]

    def margin(self, one: int, other: int, alpha: float) -> float:
        """Return by how much the difference of two means may be off, for comparisons with the best at level `alpha`."""
        c = self.covariance
        sd = math.sqrt(max(float(c[one, one] + c[other, other] - 2.0 * c[one, other]), 0.0))
        count = len(self.means)
        if self.are_pooled:
            return critical(count, self.degrees, alpha) * sd
        return -float(stdtrit(self.degrees, alpha / (count - 1))) * sd

    def half_width(self, place: int, alpha: float) -> float:
        """Return half the length of a mean's interval that holds for all settings at once."""
        tail = alpha / (2 * len(self.means))
        return -float(stdtrit(self.own_degrees, tail)) * math.sqrt(float(self.covariance[place, place]))

    def soonest(self) -> int | None:
        """Return the place of the least mean of those compared; None without one."""
        return min(self.comparable, key=lambda place: (float(self.means[place]), place), default=None)

    def may_be_best(self, place: int, alpha: float) -> bool:
        """Tell whether no other setting is shown to cost less. One of which not even a bound is known may be the best."""
        if place not in self.comparable and place not in self.bounded:
            return True
        return all(
            float(self.floors[place] - self.means[other]) <= self.margin(place, other, alpha)
            for other in self.comparable
            if other != place
        )

    def most_slower(self, place: int, alpha: float, among: Sequence[int] | None = None) -> float | None:
        """Return the most that ln cost is above that of the best other setting, of all or of those among some places.

        None if it is unknown, or if one of the others ran and not even a bound of it is known.
        """
        places = range(len(self.seeds)) if among is None else among
        ran = [own for own in places if self.seeds[own]]
        known = {*self.comparable, *self.bounded}
        if place not in self.comparable or len(ran) < 2 or not known.issuperset(ran):
            return None
        most = max(
            float(self.means[place] - self.floors[other]) + self.margin(place, other, alpha)
            for other in ran
            if other != place
        )
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

    def _difference(self, one: int, other: int) -> float:
        return float(self.means[one] - self.means[other])


def levels_of(seeds: Sequence[Seeds], one_process: bool = False) -> Levels:
    """Return the levels of settings from the costs of their fresh seeds; a setting that never ran has none.

    `one_process`: a process measured each round, and seeds stand in the order of rounds.
    """
    count, rounds = len(seeds), min((own.count for own in seeds if own.count), default=0)
    if one_process and count > 1 and rounds > 1 and all(len(own.reached) == rounds for own in seeds):
        return _of_whole_rounds(np.log([own.reached for own in seeds]))
    fitted = censored.levels(dict(enumerate(seeds)))
    means, covariance = np.full(count, math.nan), np.zeros((count, count))
    for row, place in enumerate(fitted.known):
        means[place] = fitted.means[place]
        if fitted.covariance is not None:
            covariance[place, list(fitted.known)] = fitted.covariance[row]
    degrees, are_pooled = (float(fitted.free) if fitted.covariance is not None else 0.0), True
    if degrees > 0 and not any(seeds[place].censored for place in fitted.known):
        found = _spreads([seeds[place] for place in fitted.known])
        are_pooled, degrees = found.are_equal, float(found.degrees.min())
        variances = found.variances / [seeds[place].count for place in fitted.known]
        covariance[np.ix_(fitted.known, fitted.known)] = np.diag(variances)
    spread = max((float(covariance[place, place]) * seeds[place].count for place in fitted.known), default=0.0)
    floors = means.copy()
    decides = [place in fitted.known and censored.decides(own) for place, own in enumerate(seeds)]
    for place, own in enumerate(seeds):
        if own.count and not decides[place]:
            floors[place] = float(np.log(own.values).mean())
            covariance[place] = covariance[:, place] = 0.0
            covariance[place, place] = spread / own.count
    counts = [own.count for own in seeds]
    # Where a seed is missing, rounds cannot be compared as a whole; what they share counts as spread.
    own_degrees = min(degrees, rounds - 1.0) if one_process else degrees
    return Levels(means, covariance, degrees, own_degrees, are_pooled, fitted.unequal, decides, counts, floors)


def _of_whole_rounds(log_costs: Array) -> Levels:
    """Return the levels of settings whose rounds are whole, from ln costs of shape (settings, rounds)."""
    count, rounds = log_costs.shape
    means = log_costs.mean(axis=1)
    of_settings = log_costs - means[:, None]
    of_rounds = of_settings.mean(axis=0)
    left = of_settings - of_rounds
    degrees = (rounds - 1.0) * (count - 1.0) / count  # of each setting's own spread
    found = shared((left**2).sum(axis=1) / degrees, np.full(count, degrees))
    # What a process adds to all of its round.
    in_common = max(0.0, float((of_rounds**2).sum()) / (rounds - 1.0) - float(found.variances.mean()) / count)
    covariance = (np.diag(found.variances) + in_common) / rounds
    return Levels(
        means,
        covariance,
        degrees=float(found.degrees.min()),
        own_degrees=rounds - 1.0,
        are_pooled=found.are_equal,
        spreads_differ=False,
        decides=[True] * count,
        seeds=[rounds] * count,
        floors=means.copy(),
    )


def _spreads(seeds: Sequence[Seeds]) -> Spreads:
    """Return the spreads of settings whose seeds all arrived; a single seed says nothing of its own."""
    variances = [float(np.var(np.log(own.values), ddof=1)) if own.count > 1 else 0.0 for own in seeds]
    return shared(np.array(variances), np.array([own.count - 1.0 for own in seeds]))
