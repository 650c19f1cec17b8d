"""What the law of an iteration predicts of the next doubling: a prediction, never a verdict. Pure.

Input: FPS by num_envs. Output: the gain of doubling the largest size, with an interval.

t(N) = t0 + c N is fitted to the four largest sizes. The law knows neither full caches nor overflowing buffers, so its interval does not
follow from the fit: it is what held on published curves. Where the law predicts at most 20%, the true gain lay within ln 1.05 of it in
18 of 20 doublings (tests/unit/verdict/test_foresight.py counts them); of larger gains it predicts too much, up to 34 points. The two
misses are curves that fall, or rise by half, where an engine's memory is full. So it says nothing of larger gains, and claims 80%. These
curves chose the width, too: nothing else has tested it.
"""

import math
import statistics
from collections.abc import Mapping, Sequence

import numpy as np

from envknee.verdict.rule import affine
from envknee.verdict.schema.foresight import Foresight

SIZES = 4
"""Largest sizes that the law is fitted to: smaller ones wait for other things."""

MOST_GAIN = 0.20
"""Larger predicted gains are not told."""

HELD_WITHIN = math.log(1.05)
"""How far off the logarithm of a gain may be, either way."""

CONFIDENCE = 0.80
"""Share of predictions whose interval is claimed to hold."""


def next_gain(fps: Mapping[int, Sequence[float]]) -> Foresight | None:
    """Return the predicted gain of doubling the largest num_envs; None without four sizes, where the law does not fit, or it is large."""
    sizes = sorted(fps)[-SIZES:]
    if len(sizes) < SIZES:
        return None
    per_env = {size: size / statistics.geometric_mean(fps[size]) for size in sizes}
    ((fixed, slope),) = affine.solve(np.array(sizes, dtype=float), np.array([list(per_env.values())]))

    def seconds(size: int) -> float:
        return float(fixed + slope * size)

    if max(abs(seconds(size) / measured - 1.0) for size, measured in per_env.items()) > affine.ERROR_LIMIT:
        return None
    log_gain = math.log(2.0 * seconds(sizes[-1]) / seconds(2 * sizes[-1]))
    if math.expm1(log_gain) > MOST_GAIN:
        return None
    lower, upper = math.expm1(log_gain - HELD_WITHIN), math.expm1(log_gain + HELD_WITHIN)
    return Foresight(num_envs=2 * sizes[-1], gain=math.expm1(log_gain), lower=lower, upper=upper)
