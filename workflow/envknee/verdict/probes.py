"""Where two measured sizes put the knee: a prediction, never a verdict. Pure.

Input: FPS at two num_envs. Output: the size from which doubling should gain less than 10%, with an interval.

Two sizes fix the law t(N) = t0 + c N. Under it the gain of doubling N is 1 / (1 + 2 c N / t0), so that the odds t0 / (c N) halve with each
doubling, and the knee lies log2(4.5) + log2(odds) doublings above N. Curves of real programs differ from the law, and noise of two trials
moves the odds. A `Prior` says by how much, in doublings. benchmarks/probes.py fits it, and predicts each published curve from curves of
other tasks and GPUs alone: docs/verdicts.md has coverage and error.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

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


PRIOR = Prior(shift=0.25, slope=1.25, spread=3.25)
"""Of all published curves, probed at their two smallest sizes (`envknee probes` prints it)."""


def knee_ahead(fps: Mapping[int, Sequence[float]], cut_off: float) -> KneeForesight | None:
    """Return the knee that the first two sizes of a climb predict; None with more or fewer sizes, or for another cut-off.

    `fps` is num_envs -> FPS of its trials.
    """
    if len(fps) != 2 or not math.isclose(cut_off, CUT_OFF):
        return None
    return knee_of({size: statistics.geometric_mean(values) for size, values in fps.items()}, PRIOR)


def knee_of(fps: Mapping[int, float], prior: Prior) -> KneeForesight:
    """Return the predicted knee from two sizes: sizes are doublings of the smaller one, or that one itself."""
    smaller, larger = sorted(fps)
    odds = log_odds(fps)
    distance = prior.shift + LAW_DISTANCE + prior.slope * odds

    def size(doublings: float) -> int:
        """Return the size at or above so many doublings of the larger probe, on the ladder from the smaller one."""
        return smaller * 2 ** max(0, math.ceil(math.log2(larger / smaller) + doublings))

    return KneeForesight(
        num_envs=size(distance),
        lower=size(distance - prior.spread),
        upper=size(distance + prior.spread),
        in_proportion=odds == MOST_ODDS,
    )


def log_odds(fps: Mapping[int, float]) -> float:
    """Return log2 (t0 / c N) at the larger of two sizes, between LEAST_ODDS and MOST_ODDS."""
    smaller, larger = sorted(fps)
    seconds = larger / fps[larger]
    variable = larger * (seconds - smaller / fps[smaller]) / (larger - smaller)
    fixed = seconds - variable
    if variable <= 0.0:
        return MOST_ODDS
    return LEAST_ODDS if fixed <= 0.0 else min(MOST_ODDS, max(LEAST_ODDS, math.log2(fixed / variable)))


def fps_at(num_envs: int, fps: Mapping[int, float], knee: float) -> float:
    """Return FPS at a size, by the law with this `knee` (num_envs) through the larger of the two probes."""
    larger = max(fps)
    half = knee / 2.0**LAW_DISTANCE  # there t0 = c N
    return fps[larger] * (num_envs / (half + num_envs)) / (larger / (half + larger))
