"""The surface of ln cost given trials, for one prior covariance and one noise. Pure.

A trial at setting i tells y = f_i + s e with e ~ N(0, 1), or, where it spent its budget, only that f_i + s e > y: its likelihood is then
Phi((f_i - y) / s) (Tobin 1958). Without such trials the posterior is exact. With them it is Laplace's approximation: the mode of a
log-concave density by Newton's method, and the curvature there (Rasmussen and Williams 2006, algorithms 3.1 and 3.2). It is worst at a
setting with bounds alone: with two of them, noise 0.3 and prior deviation 0.5 its mean is 0.09 too low, and its deviation 8% too small.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import cho_solve, solve_triangular
from scipy.special import log_ndtr

from envknee.verdict.joint.prior import Array

MOST_STEPS = 50
CONVERGED = 1e-9
"""Newton ends when ln posterior rises by less than this."""


@dataclass(frozen=True)
class Trials:
    """ln cost of single trials."""

    places: Sequence[int]
    """The setting of each trial, as its place among all settings."""
    log_costs: Sequence[float]
    """Of a censored trial a lower bound."""
    is_censored: Sequence[bool]

    @property
    def level(self) -> float:
        """The mean of all, bounds included: where the prior of the level is centred."""
        return float(np.mean(self.log_costs))

    @cached_property
    def measured(self) -> "Measured":
        """The same by setting."""
        log_costs, censored = np.array(self.log_costs, dtype=float), np.array(self.is_censored, dtype=bool)
        places, rows = np.unique(np.array(self.places), return_inverse=True)
        seen = np.bincount(rows[~censored], minlength=len(places)).astype(float)
        sums = np.bincount(rows[~censored], log_costs[~censored], minlength=len(places))
        means = sums / np.maximum(seen, 1.0)
        squares = float(((log_costs - means[rows])[~censored] ** 2).sum())
        return Measured(places, seen, means, squares, rows[censored], log_costs[censored])


@dataclass(frozen=True)
class Measured:
    """Trials by setting: what the likelihood of a surface depends on."""

    places: np.ndarray
    """Settings with trials, ascending; shapes below are (these,) unless said otherwise."""
    seen: Array
    """Trials with a cost."""
    means: Array
    """Mean ln cost of these."""
    squares: float
    """Sum of their squared deviations from the means."""
    bounded: np.ndarray
    """Rows, in `places`, of the censored trials. Shape (censored,)."""
    bounds: Array
    """Their bounds. Shape (censored,)."""

    def log_likelihood(self, surface: Array, noise: float) -> float:
        """Return it at a surface over `places`."""
        count = float(self.seen.sum())
        squares = self.squares + float((self.seen * (self.means - surface) ** 2).sum())
        of_seen = -squares / (2.0 * noise**2) - count * math.log(noise * math.sqrt(2.0 * math.pi))
        return of_seen + float(log_ndtr((surface[self.bounded] - self.bounds) / noise).sum())

    def slopes(self, surface: Array, noise: float) -> tuple[Array, Array]:
        """Return the first derivative of the log-likelihood by the surface, and minus the second."""
        first = self.seen * (self.means - surface) / noise**2
        second = self.seen / noise**2
        z = (surface[self.bounded] - self.bounds) / noise
        mills = np.exp(-(z**2) / 2.0 - log_ndtr(z)) / math.sqrt(2.0 * math.pi)
        rows = len(self.places)
        first = first + np.bincount(self.bounded, mills / noise, minlength=rows)
        return first, second + np.bincount(self.bounded, mills * (mills + z) / noise**2, minlength=rows)


@dataclass(frozen=True)
class Posterior:
    """The surface over all settings, for one prior covariance and one noise."""

    mean: Array
    """Shape (settings,)."""
    log_evidence: float
    """ln of the probability of the trials, apart from a constant."""
    prior: Array
    """Shape (settings, settings)."""
    places: np.ndarray
    root: Array
    """Square roots of the likelihood's curvature at `places`."""
    factor: Array
    """Lower Cholesky factor of 1 + root K root."""

    @property
    def covariance(self) -> Array:
        """Shape (settings, settings)."""
        known = solve_triangular(self.factor, self.root[:, None] * self.prior[self.places], lower=True)
        return self.prior - known.T @ known


def posterior(prior: Array, trials: Trials, noise: float) -> Posterior:
    """Return the surface given at least one trial; `noise` is the standard deviation of ln cost between seeds."""
    measured, level = trials.measured, trials.level
    places = measured.places
    inner = prior[np.ix_(places, places)]
    weights = np.zeros(len(places))
    surface = np.full(len(places), level)

    def objective(weights: Array, surface: Array) -> float:
        return measured.log_likelihood(surface, noise) - float(weights @ (surface - level)) / 2.0

    best = objective(weights, surface)
    steps = MOST_STEPS if len(measured.bounds) else 1  # without bounds the first step is exact
    for _ in range(steps):
        first, curvature = measured.slopes(surface, noise)
        root = np.sqrt(curvature)
        factor = _factor(inner, root)
        target = curvature * (surface - level) + first
        step = target - root * cho_solve((factor, True), root * (inner @ target)) - weights
        size, found = 1.0, -math.inf
        while size > 1e-6:
            moved = weights + size * step
            there = level + inner @ moved
            found = objective(moved, there)
            if found >= best:
                weights, surface = moved, there
                break
            size /= 2.0
        if found < best + CONVERGED:
            break
        best = found
    root = np.sqrt(measured.slopes(surface, noise)[1])
    factor = _factor(inner, root)
    evidence = objective(weights, surface) - float(np.log(np.diag(factor)).sum())
    return Posterior(level + prior[:, places] @ weights, evidence, prior, places, root, factor)


def _factor(inner: Array, root: Array) -> Array:
    return np.linalg.cholesky(np.eye(len(root)) + root[:, None] * inner * root).astype(np.float64)
