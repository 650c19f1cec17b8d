"""Dunnett's one-sided critical value: several means against one, each difference with the same noise. Pure.

With k - 1 independent means and a common one, P(all t <= d) is the mean over Z ~ N(0, 1) and S^2 ~ chi^2 / degrees of
Phi(sqrt(2) d S + Z)^(k - 1) (Dunnett 1955, J. Am. Stat. Assoc. 50:1096). Both means are taken over fixed points, so that every machine
gives the same value, to three digits.
"""

import functools
import math
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import chdtri, ndtr

NORMAL_POINTS = 64
SPREAD_POINTS = 400


@functools.lru_cache(maxsize=256)
def critical(means: int, degrees: float, alpha: float) -> float:
    """Return d of `means` with equal variances, the common one included: 2 or more. It leaves `alpha` of the chance beyond it."""
    z, weights = np.polynomial.hermite_e.hermegauss(NORMAL_POINTS)
    weights = weights / weights.sum()
    shares = (np.arange(SPREAD_POINTS) + 0.5) / SPREAD_POINTS
    spreads = np.sqrt(chdtri(degrees, shares) / degrees)

    def beyond(d: float) -> float:
        inside = ndtr(math.sqrt(2.0) * d * spreads[:, None] + z[None]) ** (means - 1)
        return 1.0 - float((inside @ weights).mean()) - alpha

    found: Any = brentq(beyond, 0.0, 100.0, xtol=1e-9)
    return float(found)
