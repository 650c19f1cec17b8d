"""The statistical power of a study before it is measured: the chance of a decision, from repeats and noise. Pure.

The fixed sequence tests the last doubling first, at half of 1 - confidence (`rule.union`). The chance that it is shown to gain less than
delta follows from the non-central t. In a study that is looked at more than once the last look counts here, at the level that the
others leave it (`rule.schedule`). Holm's half and earlier looks add a little, and unequal variances take a little: of simulated studies as
many show a plateau, within four points. Fresh processes leave 2 r - 2 degrees of freedom, pairs within r processes r - 1
(`rule.contrasts`). Pairs get the same noise, because the noise that sizes of a process share is unknown before it is measured.
"""

import math

from scipy.special import nctdtr, stdtrit

from envknee.verdict.rule.schedule import LEAST_REPEATS, ONCE, Schedule, When
from envknee.verdict.schema.power import ENOUGH, MOST_REPEATS


def power(
    repeats: int, cv: float, delta: float, confidence: float, paired: bool = False, schedule: Schedule = ONCE
) -> float:
    """Return the chance that a plateau is shown, if the last doubling truly gains nothing; 0 with too few repeats to decide.

    `cv` is the coefficient of variation of FPS between processes, such as 0.05. `paired`: each process measures both ends of the last
    doubling.
    """
    look = schedule.last_look(repeats)
    if look is None:
        return 0.0
    level = (1.0 - confidence) / 2 / schedule.factor(look)
    degrees = look - 1 if paired else 2 * look - 2
    shift = -math.log1p(delta) / (cv * math.sqrt(2.0 / look))
    return float(nctdtr(degrees, shift, stdtrit(degrees, level)))


def enough_repeats(cv: float, delta: float, confidence: float, paired: bool = False, when: When = "once") -> int | None:
    """Return the repeats with which 80% of studies show a plateau, if so many are planned; None: over 50."""
    for repeats in range(LEAST_REPEATS, MOST_REPEATS + 1):
        if power(repeats, cv, delta, confidence, paired, Schedule(when, repeats)) >= ENOUGH:
            return repeats
    return None
