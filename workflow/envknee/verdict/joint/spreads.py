"""Spreads of settings with few fresh seeds each, every one drawn towards what they have in common. Pure.

Input: the variance of each setting's seeds. Output: for each a variance with more degrees of freedom than its own seeds give.

The true variances are taken as draws from an inverse chi-squared distribution, whose scale and degrees of freedom follow from the spread
of the sample variances: an empirical Bayes estimate (Smyth 2004, "Linear models and empirical Bayes methods for assessing differential
expression", Stat. Appl. Genet. Mol. Biol. 3:3, section 6.2). If sample variances differ no more than chance allows, all settings have the
pooled one. Student's t holds with the degrees given here.

Pooling where spreads differ fails: with 18 settings and 4 seeds, intervals at 95% held in 82 to 87% of simulated studies. A setting's own
seeds alone give intervals five times as wide as these, which held in 93 to 98%.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import digamma, polygamma

from envknee.verdict.joint.prior import Array

NEWTON_ROUNDS = 50


@dataclass(frozen=True)
class Spreads:
    """The variance of one seed of each setting."""

    variances: Array
    """Shape (settings,)."""
    degrees: Array
    """Degrees of freedom of each. Shape (settings,)."""
    are_equal: bool
    """Whether all settings share the pooled variance."""


def shared(variances: Array, degrees: Array) -> Spreads:
    """Return the variances of settings from those of their own seeds, and the degrees of freedom of these; 0: a single seed.

    Both arguments have shape (settings,). Some setting has at least one degree.
    """
    total = float(degrees.sum())
    pooled = float((variances * degrees).sum()) / total
    known = (variances > 0.0) & (degrees > 0.0)
    in_common, scale = _prior(variances[known], degrees[known])
    if math.isinf(in_common):
        count = len(variances)
        return Spreads(np.full(count, pooled), np.full(count, total), are_equal=True)
    drawn = (in_common * scale + degrees * variances) / (in_common + degrees)
    return Spreads(drawn, np.minimum(in_common + degrees, total), are_equal=False)


def _prior(variances: Array, degrees: Array) -> tuple[float, float]:
    """Return degrees of freedom and scale of the distribution of variances; infinite degrees if chance explains how they differ."""
    if len(variances) < 2:
        return math.inf, 0.0
    half = degrees / 2.0
    logs = np.log(variances) - digamma(half) + np.log(half)
    excess = float(np.var(logs, ddof=1) - polygamma(1, half).mean())
    if excess <= 0.0:
        return math.inf, 0.0
    in_common = 2.0 * inverse_trigamma(excess)
    scale = math.exp(float(logs.mean() + digamma(in_common / 2.0)) - math.log(in_common / 2.0))
    return in_common, scale


def inverse_trigamma(value: float) -> float:
    """Return where the trigamma function has a positive value, by Newton's method on its reciprocal (Smyth 2004, appendix)."""
    place = 0.5 + 1.0 / value
    for _ in range(NEWTON_ROUNDS):
        here = float(polygamma(1, place))
        step = here * (1.0 - here / value) / float(polygamma(2, place))
        place += step
        if abs(step) < 1e-10 * place:
            break
    return place
