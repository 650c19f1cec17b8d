"""A line y(x) = fixed + slope x with non-negative parts, through measurements with relative noise.

Input: x -> measurements. Output: a `Line` with draws of its parameters. Pure: the same measurements give the same draws.

Iteration times over num_envs, and environment steps to target over batch sizes, both have this form. They span orders of magnitude, and
their noise grows with them.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

LEAST_SIZES = 3
"""Fewest different x that a line is fitted to: two parameters would fit any two points."""

ERROR_LIMIT = 0.10
"""A line with a larger relative error at any point is shown, but not used."""

RESAMPLES = 1000

HUBER = 1.345
"""Residuals beyond this many standard deviations have less weight: 95% efficient for normal noise (Huber 1964; Holland and Welsch
1977)."""

HUBER_STEPS = 6
RESAMPLED_STEPS = 4
"""Resamples start at the fit and share its scale; with two steps their intervals would cover 2% too little."""


@dataclass(frozen=True)
class Line:
    """fixed + slope x, with draws of both."""

    fixed: float
    slope: float
    draws: NDArray[np.float64]
    """(fixed, slope) of every resample, shape (RESAMPLES, 2)."""

    def at(self, x: float) -> float:
        """Return the line's value at x."""
        return self.fixed + self.slope * x

    @property
    def ratio_draws(self) -> NDArray[np.float64]:
        """Return fixed / slope of every resample (infinite for slope 0), shape (RESAMPLES,)."""
        return divided(self.draws[:, 0], self.draws[:, 1])


def fit(measured: Mapping[float, Sequence[float]], confidence: float) -> Line:
    """Fit a line robustly, with draws from a bootstrap of residuals.

    The fit minimizes errors of the logarithm. Relative errors, fit / y - 1, would favour small measurements: with 10% noise the asymptote
    of the law of the iteration time was 1.5% too high, and its intervals covered 81 to 88%. With Huber's weights, one slow process does
    not bend the line: without them, intervals covered 90% if one repeat of a study lost a quarter. (`prove` simulates both.)

    Lines through equally many measurements at the same x draw the residuals of the same trials. So draws of several phases of the same
    iterations belong together, row by row.

    `measured` maps x to measurements above 0: at least three in all, at two different x.
    """
    pairs = [(x, value) for x, values in measured.items() for value in values]
    sizes, times = np.array([x for x, _ in pairs], dtype=float), np.array([value for _, value in pairs])
    estimate = _robust(sizes, times[None])
    fixed, slope = (float(value) for value in estimate[0])
    fitted = fixed + slope * sizes
    errors = np.log(times / fitted)
    drawn = _draws(errors, confidence)
    # A factor of twenty either way: two residuals can leave draws of any size.
    resampled = _robust(sizes, fitted * np.exp(np.clip(drawn, -3.0, 3.0)), estimate, _scale(errors[None]))
    return Line(fixed, slope, resampled)


def widening(free: int, confidence: float) -> float:
    """Return the factor by which percentile intervals of resampled deviations are too narrow, with `free` degrees of freedom.

    The spread of few deviations is itself an estimate, which a percentile interval ignores: hence Student's t over the normal quantile.
    """
    tail = (1.0 - confidence) / 2
    return float(stdtrit(free, tail) / ndtri(tail))


def interval(draws: NDArray[np.float64], confidence: float) -> tuple[float | None, float | None]:
    """Return the percentile interval of draws, shape (draws,). An infinite end is None."""
    tail = (1.0 - confidence) / 2
    lower, upper = (float(np.quantile(draws, share, method="nearest")) for share in (tail, 1.0 - tail))
    return (lower if math.isfinite(lower) else None, upper if math.isfinite(upper) else None)


def divided(above: NDArray[np.float64], below: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return above / below: infinite if only `below` is 0, and 0 if both are."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.nan_to_num(above / below, nan=0.0, posinf=np.inf)


def solve(sizes: NDArray[np.float64], times: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return (fixed, slope), both at least 0, of every row of `times`, minimizing squared relative errors: shape (fits, 2).

    `sizes` are x, shape (trials,); `times` are measurements above 0, shape (fits, trials).
    """
    return _weighted(1.0 / times, sizes / times, np.ones_like(times))


def _draws(errors: NDArray[np.float64], confidence: float) -> NDArray[np.float64]:
    """Return errors of a fit, drawn with replacement and scaled so that percentile intervals also hold for few of them.

    They are too small by sqrt((n - 2) / n), because the fit followed the noise. Without `widening`, intervals of the law of the iteration
    time covered 88 to 92% instead of 95% (8 to 12 trials); with it, 94 to 95%. Their mean is not subtracted: after a robust fit it comes
    from outliers, and would shift every draw (with one straggler, intervals of the law covered 79 to 83%).

    `errors` has shape (trials,), of more than two trials; the draws have shape (RESAMPLES, trials).
    """
    trials = len(errors)
    # A fixed seed: the same records give the same verdict, byte for byte.
    drawn = np.random.default_rng(0).integers(0, trials, size=(RESAMPLES, trials))
    return (errors * (math.sqrt(trials / (trials - 2)) * widening(trials - 2, confidence)))[drawn]


def _robust(
    sizes: NDArray[np.float64],
    times: NDArray[np.float64],
    start: NDArray[np.float64] | None = None,
    scale: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Return what `solve` does from the same arrays, by Huber's estimate on logarithms, in reweighted steps.

    They start at `start`, a (fixed, slope) of shape (1, 2), or at `solve`'s. `scale` is the standard deviation of the errors of the
    logarithm, shape (1, 1), or estimated for each row.
    """
    estimate = solve(sizes, times) if start is None else start
    for _ in range(HUBER_STEPS if start is None else RESAMPLED_STEPS):
        fitted = estimate[:, :1] + estimate[:, 1:] * sizes
        errors = np.log(times / fitted)
        limit = HUBER * (_scale(errors) if scale is None else scale)
        # A scale of 0 means that more than half of the errors are 0; then no error counts as an outlier.
        size = np.maximum(np.abs(errors), 1e-300)
        weights = np.where(limit > 0.0, np.sqrt(np.minimum(1.0, limit / size)), 1.0)
        # Gauss-Newton: ln t = ln f + (t0 + c N - f) / f. The floor keeps the target, and with it the fit, above 0.
        estimate = _weighted(weights / fitted, weights * sizes / fitted, weights * (1.0 + np.maximum(errors, -0.9)))
    return estimate


def _scale(errors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the standard deviation of each row from its median absolute error, shape (rows, 1)."""
    return 1.4826 * np.median(np.abs(errors), axis=1, keepdims=True)


def _weighted(a: NDArray[np.float64], b: NDArray[np.float64], target: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the (t0, c), both at least 0, that minimize sum (t0 a + c b - target)^2 of every row; all of shape (fits, trials)."""
    aa, ab, bb, a1, b1 = (a * a).sum(1), (a * b).sum(1), (b * b).sum(1), (a * target).sum(1), (b * target).sum(1)
    determinant = aa * bb - ab * ab
    # With times many orders of magnitude apart, one trial decides, which cannot separate t0 from c. Then all of it counts as c.
    singular = determinant <= 1e-14 * aa * bb
    divisor = np.where(singular, 1.0, determinant)
    t0 = np.where(singular, 0.0, (a1 * bb - b1 * ab) / divisor)
    slope = np.where(singular, b1 / bb, (b1 * aa - a1 * ab) / divisor)
    # Outside the quadrant, the best point is on the axis that was crossed, because the function is convex.
    t0, slope = np.where(slope < 0.0, a1 / aa, t0), np.maximum(slope, 0.0)
    slope, t0 = np.where(t0 < 0.0, b1 / bb, slope), np.maximum(t0, 0.0)
    return np.stack([t0, slope], axis=1)
