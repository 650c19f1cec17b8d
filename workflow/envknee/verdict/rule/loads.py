"""Gains that were measured beside other processes: what they are beside the least load that was seen. Pure.

Input: logarithms, and the CPU time that others took meanwhile, in cores. Output: estimates with their variance.

Others slow a trial, and small sizes more than large ones: beside them the curve bends. So there is a slope for the load of each end of a
doubling, c being the least load of its trials:

    pairs (processes with both ends)   d_j = g + b_2N (c_2N,j - c) - b_N (c_N,j - c)
    fresh processes, each end alone    y_j = a + b (c_j - c)

Slopes and their noise take degrees of freedom. So below `LEAST_LOADED` repeats of a doubling whose load varies, the calm ones alone tell
the gain, three at least; from there on every one does. Which repeats count follows from the loads alone, never from the values.

One slope for the difference of the loads does not do: what both ends share would stay in the gain, so that a curve that bends beside others
passes for one that pays. With a slope for each end both errors stay below 5% at every look (`make prove`, rows "beside others").
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

VARIES_CORES = 0.5
"""Loads vary if the largest is more than this above the least. Below, a load acts as noise."""

LEAST_LOADED = 6
"""Fewest repeats of a doubling with which all are corrected for a load that varies."""


@dataclass(frozen=True)
class Corrected:
    """A mean beside the least load."""

    mean: float
    variance: float
    degrees: float
    values: tuple[float, ...]
    """Each value without what its load cost."""


def vary(loads: Sequence[float]) -> bool:
    """Tell whether loads, in cores, vary by more than noise."""
    return max(loads) - min(loads) > VARIES_CORES


def is_calm(load: float, least: float) -> bool:
    """Tell whether a load, in cores, is hardly above the least."""
    return load <= least + VARIES_CORES


def columns(ends: Sequence[Sequence[float]], least: float) -> list[list[float]] | None:
    """Return the loads above the `least` of the ends that need a slope.

    None: an end was always beside a load, so that there is no slope for it, and none of its trials tells of the least load.
    """
    above = [[load - least for load in own] for own in ends]
    if any(not vary(own) and min(own) > VARIES_CORES for own in above):
        return None
    return [own for own in above if vary(own)]


def corrected(values: Sequence[float], slopes: Sequence[Sequence[float]]) -> Corrected | None:
    """Return the mean of values where all `slopes`, each of as many numbers, are 0, by least squares; None without noise to judge by."""
    y, design = np.array(values), np.array([np.ones(len(values)), *slopes]).T
    inverse = np.linalg.pinv(design.T @ design)
    fitted = inverse @ design.T @ y
    degrees = len(values) - int(np.linalg.matrix_rank(design))
    if degrees < 1:
        return None
    squares = float(((y - design @ fitted) ** 2).sum())
    without = y - design[:, 1:] @ fitted[1:]
    return Corrected(float(fitted[0]), squares / degrees * float(inverse[0, 0]), degrees, tuple(without.tolist()))
