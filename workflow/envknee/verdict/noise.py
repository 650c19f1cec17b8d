"""The noise of FPS between processes, to assume before anything is repeated. Pure.

Source: the records of this repository's published studies. Standard deviations of ln FPS between processes of one point were 11, 7, 13, 8,
6.8, 3.8, 3.7, 1.7 and 1.2% at 64 ... 16,384 environments on one GPU: waiting is noisy, computing is not. Intervals by this law held the
truth in 98.6% of 140 single doublings. On CPUs the noise was 11% at any size.
"""

import math
import statistics
from collections.abc import Iterable, Sequence

from scipy.special import stdtrit

FIXED_CV = 0.14
"""Coefficient of variation of the fixed part of an iteration's time."""

LEAST_CV = 0.011
"""Coefficient of variation with many environments."""

CPU_CV = 0.11

LAW_DEGREES = 8
"""Degrees of freedom behind the law's own numbers."""


def assumed_cv(num_envs: float, half_saturation: float | None) -> float:
    """Return the coefficient of variation of FPS between processes on a GPU, with `num_envs` per rank.

    `half_saturation` is t0 / c of the law t0 + c N, in environments; None without a law: all of the time then counts as fixed.
    """
    fixed = 1.0 if half_saturation is None else half_saturation / (half_saturation + num_envs)
    return math.hypot(FIXED_CV * fixed, LEAST_CV)


def gain_interval(log_gain: float, cvs: Sequence[float], confidence: float) -> tuple[float, float]:
    """Return the two-sided interval of a log ratio of two single FPS with these coefficients of variation."""
    width = -float(stdtrit(LAW_DEGREES, (1.0 - confidence) / 2)) * math.hypot(*cvs)
    return log_gain - width, log_gain + width


def measured_cv(points: Iterable[Sequence[float]]) -> float | None:
    """Return the coefficient of variation of the repeats of each point, pooled over points; None without repeats."""
    logs = [[math.log(value) for value in values] for values in points if len(values) > 1]
    free = sum(len(values) - 1 for values in logs)
    if not free:
        return None
    squares = sum((log - statistics.fmean(repeats)) ** 2 for repeats in logs for log in repeats)
    return math.sqrt(squares / free)
