"""The surface of ln cost over all settings, with amplitude and noise by likelihood. Pure.

Amplitude of the deviations and noise between seeds are the most likely pair of a grid, with ln amplitude ~ N(ln 0.15, 0.7^2). The grid of
the noise spans FPS (0.01 to 0.03), seconds of GPU seeds (0.2 to 0.4) and of CPU seeds (0.5).

A rough surface deviates so much from its trend that trials elsewhere tell little: the model's own intervals then hold less often than
they say, and are not shown.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from envknee.base.point import Point
from envknee.verdict.joint.posterior import Posterior, Trials, posterior
from envknee.verdict.joint.prior import Array, Prior, prior_of

AMPLITUDES = (0.05, 0.12, 0.25, 0.4)
NOISES = (0.01, 0.017, 0.03, 0.05, 0.08, 0.12, 0.18, 0.23, 0.29, 0.37, 0.5, 0.63, 0.8)
LIKELY_AMPLITUDE, AMPLITUDE_LOG_SD = 0.15, 0.7
ROUGH_AMPLITUDE = 0.25
"""From this amplitude on a surface is rough."""

DRAWS = 4000
"""Draws behind chances and intervals."""

JITTER = 1e-8
"""Added to variances, so that a covariance of settings that are nearly alike has a Cholesky factor."""


@dataclass(frozen=True)
class Surface:
    """What trials tell of ln cost at every setting."""

    settings: Sequence[Point]
    mean: Array
    """Shape (settings,)."""
    covariance: Array
    """Shape (settings, settings)."""
    amplitude: float
    """Of deviations from the trend, in ln cost."""
    noise: float
    """Standard deviation of ln cost between seeds."""

    @property
    def is_rough(self) -> bool:
        """Whether deviations from the trend are so large that the model's intervals are withheld."""
        return self.amplitude >= ROUGH_AMPLITUDE

    def draws(self, count: int, seed: int) -> Array:
        """Return surfaces drawn from the posterior: shape (count, settings). The same seed gives the same ones."""
        size = len(self.mean)
        factor = np.linalg.cholesky(self.covariance + JITTER * np.eye(size))
        normal = np.random.default_rng(seed).standard_normal((count, size))
        return self.mean + normal @ factor.T


def fit(settings: Sequence[Point], trials: Trials) -> Surface:
    """Return the surface over settings, given at least one trial.

    `trials.places` are places in `settings`. With 100 settings it takes some hundredths of a second.
    """
    prior = prior_of(settings)
    amplitude, noise, found = max(_candidates(prior, trials), key=lambda candidate: _score(*candidate))
    covariance = found.covariance
    return Surface(settings, found.mean, (covariance + covariance.T) / 2.0, amplitude, noise)


Candidate = tuple[float, float, Posterior]
"""Amplitude, noise, and the surface that follows."""


def _candidates(prior: Prior, trials: Trials) -> Sequence[Candidate]:
    covariances = {amplitude: prior.covariance(amplitude) for amplitude in AMPLITUDES}
    return [
        (amplitude, noise, posterior(covariances[amplitude], trials, noise))
        for amplitude, noise in product(AMPLITUDES, NOISES)
    ]


def _score(amplitude: float, _: float, found: Posterior) -> float:
    return found.log_evidence - (math.log(amplitude / LIKELY_AMPLITUDE) / AMPLITUDE_LOG_SD) ** 2 / 2.0


def chances_of_best(draws: Array) -> Array:
    """Return the share of draws in which each setting has the least cost: shape (settings,)."""
    return np.bincount(draws.argmin(axis=1), minlength=draws.shape[1]) / len(draws)


def credible_set(chances: Array, confidence: float) -> list[int]:
    """Return the fewest settings that together have the least cost with at least this chance, the likeliest first."""
    order = np.argsort(-chances, kind="stable")
    enough = int(np.searchsorted(np.cumsum(chances[order]), confidence - 1e-12)) + 1
    return [int(place) for place in order[:enough]]
