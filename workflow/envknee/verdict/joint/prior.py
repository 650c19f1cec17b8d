"""What is assumed of the surface of ln cost before any trial: a quadratic trend, and smooth deviations from it. Pure.

Each axis counts in octaves (log2) from the middle of the study's own axis, and h is half its length, at least one octave:

    trend       slope ~ N(0, 0.5^2) per octave: a doubling at most halves the cost or doubles it (ln 2 = 0.69), mostly.
                curvature of two axes ~ N(0, 0.6^2 / (h1 h2)): along an axis the slope changes by about 1.2 from its middle to its end.
                level ~ N(mean of the measured, 3^2)
    deviations  a Gaussian process of covariance a^2 exp(-d^2 / (2 l^2)), l = 1.5 octaves (Rasmussen and Williams 2006, eq. 2.31)

A trend with normal coefficients is itself a Gaussian process (there, section 2.7), so that one covariance holds both.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import NDArray

from envknee.base.point import Point

Array = NDArray[np.float64]

LEVEL_SD = 3.0
SLOPE_SD = 0.5
"""Per octave."""
BEND_SD = 0.6
"""Of a curvature, times half the lengths of its two axes in octaves."""
LENGTH_OCTAVES = 1.5
"""Over which deviations from the trend are alike."""


@dataclass(frozen=True)
class Prior:
    """The prior covariance of ln cost between settings, for any amplitude of the deviations."""

    trend: Array
    """Shape (settings, settings)."""
    deviations: Array
    """Of amplitude 1. Shape (settings, settings)."""

    def covariance(self, amplitude: float) -> Array:
        """Return the covariance for an amplitude of the deviations, in units of ln cost."""
        return self.trend + amplitude**2 * self.deviations


def prior_of(settings: Sequence[Point]) -> Prior:
    """Return the prior over settings. An axis on which they are all alike does not count."""
    octaves = octaves_of(settings)
    half_lengths = np.maximum(np.abs(octaves).max(axis=0), 1.0)
    axes = range(octaves.shape[1])
    columns = [np.full(len(settings), LEVEL_SD), *(SLOPE_SD * octaves[:, axis] for axis in axes)]
    columns += [
        BEND_SD / np.sqrt(half_lengths[one] * half_lengths[other]) * octaves[:, one] * octaves[:, other]
        for one, other in combinations_with_replacement(axes, 2)
    ]
    features = np.stack(columns, axis=1)
    squared_distances = ((octaves[:, None] - octaves[None]) ** 2).sum(axis=2)
    return Prior(features @ features.T, np.exp(-squared_distances / (2.0 * LENGTH_OCTAVES**2)))


def octaves_of(settings: Sequence[Point]) -> Array:
    """Return log2 of each axis on which settings differ, from the middle of its range: shape (settings, axes)."""
    values = np.array([(point.num_envs, point.horizon, point.batch_size or 1) for point in settings], dtype=float)
    logs = np.log2(values)
    lowest, highest = logs.min(axis=0), logs.max(axis=0)
    return (logs - (lowest + highest) / 2.0)[:, highest > lowest]
