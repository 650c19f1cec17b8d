"""Where two measured sizes put the knee: a prediction, never a verdict. Pure.

Input: FPS at two num_envs. Output: the size from which doubling should gain less than 10%, with an interval.

Two sizes fix the law t(N) = t0 + c N. Under it the gain of doubling N is 1 / (1 + 2 c N / t0), so that the odds t0 / (c N) halve with each
doubling, and the knee lies log2(4.5) + log2(odds) doublings above N. Curves of real programs differ from the law, and noise of two trials
moves the odds. A `Prior` says by how much, in doublings. benchmarks/probes.py fits it to curves of other tasks and GPUs.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from envknee.verdict.rule import affine
from envknee.verdict.schema.foresight import KneeForesight

CUT_OFF = 0.10
"""Gain of a doubling at the knee. A prior holds for this cut-off alone."""

LAW_DISTANCE = math.log2((1.0 / CUT_OFF - 1.0) / 2.0)
"""Doublings from the size at which t0 = c N to the law's knee."""

LEAST_ODDS, MOST_ODDS = -4.0, 6.0
"""Range of log2 (t0 / c N). Outside of it FPS fall, or grow in proportion: two sizes say no more."""


class Prior(NamedTuple):
    """How knees of other curves lie to the law of their two probes, in doublings: distance = shift + slope x the law's, +- spread."""

    shift: float
    slope: float
    spread: float
    """Half of the interval's width."""


def log_odds(fps: Mapping[int, float]) -> float:
    """Return log2 (t0 / c N) at the larger of two sizes, between LEAST_ODDS and MOST_ODDS."""
    sizes = sorted(fps)
    times = np.array([[size / fps[size] for size in sizes]])
    ((fixed, slope),) = affine.solve(np.array(sizes, dtype=float), times)
    variable = slope * sizes[-1]
    least, most = 2.0**LEAST_ODDS, 2.0**MOST_ODDS
    if fixed >= most * variable:
        return MOST_ODDS
    return LEAST_ODDS if fixed <= least * variable else math.log2(fixed / variable)


def knee_of(fps: Mapping[int, float], prior: Prior) -> KneeForesight:
    """Return the predicted knee from two sizes: sizes are doublings of the smaller one, or that one itself."""
    smaller, larger = sorted(fps)
    distance = prior.shift + LAW_DISTANCE + prior.slope * log_odds(fps)

    def size(doublings: float) -> int:
        """Return the size at or above so many doublings of the larger probe, on the ladder from the smaller one."""
        return smaller * 2 ** max(0, math.ceil(math.log2(larger / smaller) + doublings))

    return KneeForesight(
        num_envs=size(distance), lower=size(distance - prior.spread), upper=size(distance + prior.spread)
    )


def fps_at(num_envs: int, fps: Mapping[int, float], knee: float) -> float:
    """Return FPS at a size, by the law with this `knee` (num_envs) through the larger of the two probes."""
    larger = max(fps)
    half = knee / 2.0**LAW_DISTANCE  # there t0 = c N
    return fps[larger] * (num_envs / (half + num_envs)) / (larger / (half + larger))
