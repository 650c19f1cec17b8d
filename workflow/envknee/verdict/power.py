"""The statistical power of a study before it is measured: the chance of a decision, from repeats and noise. Pure.

The fixed sequence tests the last doubling first, at half of 1 - confidence (`rule.union`). The chance that it is shown to gain less than
delta follows from the non-central t. Holm's half adds little, so the power is a lower bound. Fresh processes leave 2 r - 2 degrees of
freedom, pairs within r processes r - 1 (`rule.contrasts`). Pairs get the same noise, because the noise that sizes of a process share is
unknown before it is measured.
"""

import math

from scipy.special import nctdtr, stdtrit

from envknee.verdict.rule.schedule import LEAST_REPEATS
from envknee.verdict.schema.power import ENOUGH, MOST_REPEATS


def power(repeats: int, cv: float, delta: float, confidence: float, paired: bool = False) -> float:
    """Return the chance that a plateau is shown, if the last doubling truly gains nothing; 0 with too few repeats to decide.

    `cv` is the coefficient of variation of FPS between processes, such as 0.05. `paired`: each process measures both ends of the last
    doubling.
    """
    if repeats < LEAST_REPEATS:
        return 0.0
    degrees = repeats - 1 if paired else 2 * repeats - 2
    shift = -math.log1p(delta) / (cv * math.sqrt(2.0 / repeats))
    return float(nctdtr(degrees, shift, stdtrit(degrees, (1.0 - confidence) / 2)))


def enough_repeats(cv: float, delta: float, confidence: float, paired: bool = False) -> int | None:
    """Return the repeats with which 80% of studies show a plateau; None: over 50."""
    tried = range(LEAST_REPEATS, MOST_REPEATS + 1)
    return next((repeats for repeats in tried if power(repeats, cv, delta, confidence, paired) >= ENOUGH), None)
