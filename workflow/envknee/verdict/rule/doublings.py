"""Statistics of decisions and comparisons: levels of repeats, costs of seeds, Welch's t on their logarithms, Holm's correction. Pure.

Variances are not pooled over num_envs, because noise often depends on N. With one point six times as noisy as the others, a pooled
variance reported "reached" wrongly in 24% of simulated studies (3 repeats, every doubling at the limit), and 95% intervals covered 67%.
"""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

LARGEST_LOG = 700.0
"""Largest logarithm whose exponential is a finite float, nearly."""


@dataclass(frozen=True)
class Level:
    """The measurements at one num_envs."""

    log_value: float
    """Natural logarithm of a quantity of which more is better (FPS, or one over a cost)."""
    variance: float | None
    """Variance of `log_value`, that is of the mean, not of single repeats; None with a single repeat."""
    repeats: int

    @classmethod
    def of(cls, repeats: Sequence[float], step: float = 0.0) -> "Level":
        """Return the level of uncensored repeats, each above 0: the logarithm of their geometric mean.

        All are rounded to a multiple of `step`. Repeats that differ by less than it may all be rounded the same way, so that their
        mean is off by as much as each: its variance is at least step^2 / 12, whatever their number.
        """
        logs = [math.log(value) for value in repeats]
        mean = statistics.fmean(logs)
        squares = sum((log - mean) ** 2 for log in logs)
        variance = (
            max(squares / (len(logs) - 1) / len(logs), (step / math.exp(mean)) ** 2 / 12) if len(logs) > 1 else None
        )
        return cls(mean, variance, len(logs))


@dataclass(frozen=True)
class Seeds:
    """Costs of the seeds of one point, in any unit, above 0."""

    reached: tuple[float, ...]
    censored: tuple[float, ...] = ()
    """Lower bounds of seeds that did not reach the target."""

    @property
    def count(self) -> int:
        """Number of seeds."""
        return len(self.reached) + len(self.censored)

    @property
    def values(self) -> NDArray[np.float64]:
        """Every seed's cost or lower bound, ascending, shape (seeds,)."""
        return np.sort(np.array(self.reached + self.censored))


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Return p-values corrected for their number by Holm's step-down rule; None stays None and is not counted."""
    known = sorted((p, place) for place, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    largest = 0.0
    for rank, (p, place) in enumerate(known):
        largest = max(largest, min(1.0, (len(known) - rank) * p))
        adjusted[place] = largest
    return adjusted


def summed(variances: Sequence[float], degrees: Sequence[float]) -> tuple[float, float]:
    """Return variance and degrees of freedom of a sum of independent estimates.

    Welch 1947 (Biometrika 34:28) and Satterthwaite 1946. Identical repeats that were not rounded leave no noise at all, and
    then the estimate decides.
    """
    variance = sum(variances)
    spread = sum(own**2 / free for own, free in zip(variances, degrees, strict=True))
    return variance, variance**2 / spread if spread > 0.0 else math.inf


def exp(log_ratio: float) -> float:
    """Return the ratio of a logarithm, kept finite: two repeats can leave an interval hundreds of orders of magnitude wide."""
    return math.exp(min(log_ratio, LARGEST_LOG))


def expm1(log_ratio: float) -> float:
    """Return the same less 1: a gain."""
    return math.expm1(min(log_ratio, LARGEST_LOG))


def interval(
    log_value: float, variance: float | None, degrees: float, confidence: float, of: Callable[[float], float] = exp
) -> tuple[float | None, float | None]:
    """Return the two-sided Student t interval of a logarithm, as what `of` makes of its ends; None without a variance."""
    if variance is None:
        return None, None
    width = half_width(variance, degrees, (1.0 - confidence) / 2)
    return of(log_value - width), of(log_value + width)


def half_width(variance: float, degrees: float, tail: float) -> float:
    """Return how far a Student t bound lies from the estimate, leaving `tail` of the probability beyond it."""
    return 0.0 if variance == 0.0 else -float(stdtrit(degrees, tail)) * math.sqrt(variance)
