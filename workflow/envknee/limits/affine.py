"""A line y(x) = fixed + slope x through measurements of relative noise, neither part below 0, and how far to trust it.

Input: x -> measurements. Output: a `Line` with draws of its parameters. Pure, and the same for the same measurements.

Iteration times over num_envs and frames to target over batch sizes both have this form. Relative errors are minimized: the
measurements span orders of magnitude, and their noise grows with them.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from envknee.limits import residuals

ERROR_LIMIT = 0.10
"""A line that misses a measured point by more than this share is shown but not used."""

RESAMPLES = 1000


@dataclass(frozen=True)
class Line:
    """fixed + slope x, and what else it might have been."""

    fixed: float
    slope: float
    draws: NDArray[np.float64]
    """(fixed, slope) of every resample, shape (RESAMPLES, 2)."""

    def at(self, x: float) -> float:
        """Return the line's value at x."""
        return self.fixed + self.slope * x

    @property
    def ratio_draws(self) -> NDArray[np.float64]:
        """Return fixed / slope of every resample, infinite where the slope is 0, shape (RESAMPLES,)."""
        return divided(self.draws[:, 0], self.draws[:, 1])


def fit(measured: Mapping[float, Sequence[float]], confidence: float) -> Line:
    """Fit a line; its draws come from a bootstrap of relative residuals.

    Lines through measurements of the same x, equally many each, draw the residuals of the same trials: draws of several
    phases of the same iterations belong together, row by row.

    Args:
        measured: x -> measurements above 0; at least three in all, at two different x
        confidence: of the intervals that the draws are for
    """
    pairs = [(x, value) for x, values in measured.items() for value in values]
    sizes, times = np.array([x for x, _ in pairs], dtype=float), np.array([value for _, value in pairs])
    fixed, slope = solve(sizes, times[None])[0]
    fitted = fixed + slope * sizes
    drawn = residuals.draws(times / fitted - 1.0, 2, confidence, (RESAMPLES, len(pairs)))
    return Line(float(fixed), float(slope), solve(sizes, fitted * np.maximum(1.0 + drawn, 0.05)))


def interval(draws: NDArray[np.float64], confidence: float) -> tuple[float | None, float | None]:
    """Return the percentile interval of draws, shape (draws,); an end that is infinite is None."""
    tail = (1.0 - confidence) / 2
    lower, upper = (float(np.quantile(draws, share, method="nearest")) for share in (tail, 1.0 - tail))
    return (lower if math.isfinite(lower) else None, upper if math.isfinite(upper) else None)


def divided(above: NDArray[np.float64], below: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return above / below, infinite where only `below` is 0, and 0 where both are."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.nan_to_num(above / below, nan=0.0, posinf=np.inf)


def solve(sizes: NDArray[np.float64], times: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return (fixed, slope), both at least 0, of every row of `times`, minimizing squared relative errors.

    Args:
        sizes: x, shape (trials,)
        times: measurements, shape (fits, trials), above 0

    Returns:
        shape (fits, 2)
    """
    # With rows scaled by 1/t: minimize sum (t0 a + c b - 1)^2 where a = 1/t, b = N/t.
    a, b = 1.0 / times, sizes / times
    aa, ab, bb, a1, b1 = (a * a).sum(1), (a * b).sum(1), (b * b).sum(1), a.sum(1), b.sum(1)
    determinant = aa * bb - ab * ab
    t0, slope = (a1 * bb - b1 * ab) / determinant, (b1 * aa - a1 * ab) / determinant
    # Outside the quadrant the best point lies on the axis that was crossed (the function is convex).
    t0, slope = np.where(slope < 0.0, a1 / aa, t0), np.maximum(slope, 0.0)
    slope, t0 = np.where(t0 < 0.0, b1 / bb, slope), np.maximum(t0, 0.0)
    return np.stack([t0, slope], axis=1)
