"""What one doubling gains, within statistical blocks: machines, or processes that measured several sizes. Pure.

Input: ln(value) of each repeat at N and at 2N, by block. Output: a `Contrast`.

A block that has one end alone says nothing of a gain: its repeats are left out, so that another machine never passes for an effect of
num_envs. Blocks with both ends give differences d_j, combined with weights n1 n2 / (n1 + n2), the inverse variances where noise is
alike. The weights do not depend on the values, so the variance of the sum is exact, and has Welch-Satterthwaite degrees of freedom:

    several repeats of an end within blocks     that end's variance is pooled over the blocks
    one repeat of each end in each block        paired t on the d_j, k - 1 degrees

Where a test says that blocks disagree (`DISAGREE`), a doubling is only shown to be below the limit if each block shows it.
"""

import math
import statistics
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from scipy.special import chdtrc, fdtrc

from envknee.verdict.rule.doublings import Level, welch

DISAGREE = 0.05
"""From which p-value down blocks are said to disagree about a gain."""

Blocks = Mapping[Hashable, Sequence[float]]
"""Block -> ln(value) of its repeats at one num_envs."""


@dataclass(frozen=True)
class Contrast:
    """ln(value at 2N) - ln(value at N), and how sure it is."""

    num_envs: int
    log_gain: float
    variance: float | None
    """Of `log_gain`; None where nothing tells it from noise."""
    degrees: float
    repeats: int
    """Of that end which has fewer, in the blocks that have both."""
    blocks: int = 1
    """That have both ends; 0: no block does, and `log_gain` may be the machines'."""
    disagreement: float | None = None
    """p-value of the hypothesis that all blocks gain the same; None with one block."""
    parts: tuple["Contrast", ...] = ()
    """Each block's own contrast, where they disagree."""
    decides: bool = True
    """False where seeds that never arrived forbid a decision."""


def of_levels(one: Level, two: Level) -> Contrast:
    """Return the contrast of two levels without blocks: Welch's t."""
    noise = welch(one, two)
    variance, degrees = noise if noise else (None, math.nan)
    return Contrast(one.num_envs, two.log_value - one.log_value, variance, degrees, min(one.repeats, two.repeats))


def within_blocks(num_envs: int, one: Blocks, two: Blocks, step: float = 0.0) -> Contrast:
    """Return what doubling gains within blocks.

    Args:
        num_envs: of the smaller end
        one: logarithms at N by block
        two: logarithms at 2N by block
        step: to a multiple of which all values are rounded; a variance is at least that of rounding
    """
    common = [block for block in one if block in two]
    if not common:
        means = [statistics.fmean(value for values in end.values() for value in values) for end in (one, two)]
        return Contrast(num_envs, means[1] - means[0], None, math.nan, _fewest(one, two), blocks=0)
    ends = [[end[block] for block in common] for end in (one, two)]
    if len(common) == 1:
        levels = [_level(num_envs, end[0], step) for end in ends]
        return of_levels(levels[0], levels[1])
    gains = [statistics.fmean(b) - statistics.fmean(a) for a, b in zip(*ends, strict=True)]
    weights = [len(a) * len(b) / (len(a) + len(b)) for a, b in zip(*ends, strict=True)]
    whole = sum(weights)
    log_gain = sum(weight * gain for weight, gain in zip(weights, gains, strict=True)) / whole
    free = [sum(len(values) - 1 for values in end) for end in ends]
    repeats = min(sum(map(len, end)) for end in ends)
    if min(free) == 0:
        squares = sum(weight * (gain - log_gain) ** 2 for weight, gain in zip(weights, gains, strict=True))
        degrees = len(common) - 1
        return Contrast(num_envs, log_gain, squares / degrees / whole, degrees, repeats, blocks=len(common))
    pooled = [_pooled(end, degrees, step) for end, degrees in zip(ends, free, strict=True)]
    shares = [
        variance * sum((weight / whole) ** 2 / len(values) for weight, values in zip(weights, end, strict=True))
        for variance, end in zip(pooled, ends, strict=True)
    ]
    spread = sum(share**2 / degrees for share, degrees in zip(shares, free, strict=True))
    degrees = sum(shares) ** 2 / spread if spread > 0.0 else math.inf
    variances = [pooled[0] / len(a) + pooled[1] / len(b) for a, b in zip(*ends, strict=True)]
    disagreement = _disagreement(gains, variances, degrees)
    parts: tuple[Contrast, ...] = ()
    if disagreement is not None and disagreement <= DISAGREE:
        parts = tuple(
            Contrast(num_envs, gain, variance, degrees, min(len(a), len(b)))
            for gain, variance, a, b in zip(gains, variances, *ends, strict=True)
        )
    return Contrast(num_envs, log_gain, sum(shares), degrees, repeats, len(common), disagreement, parts)


def _fewest(one: Blocks, two: Blocks) -> int:
    return min(sum(map(len, end.values())) for end in (one, two))


def _level(num_envs: int, logs: Sequence[float], step: float) -> Level:
    return Level.of(num_envs, [math.exp(log) for log in logs], step)


def _pooled(end: Sequence[Sequence[float]], degrees: int, step: float) -> float:
    """Return the variance of single repeats within blocks, at least that of rounding."""
    squares = sum((value - statistics.fmean(values)) ** 2 for values in end for value in values)
    largest_step = max(step / math.exp(statistics.fmean(values)) for values in end)
    return max(squares / degrees, largest_step**2 / 12)


def _disagreement(gains: Sequence[float], variances: Sequence[float], degrees: float) -> float | None:
    """Return the p-value of Cochran's Q, as an F with the degrees of freedom of the noise; None without noise."""
    if min(variances) <= 0.0:
        return None
    weights = [1.0 / variance for variance in variances]
    mean = sum(weight * gain for weight, gain in zip(weights, gains, strict=True)) / sum(weights)
    q = sum(weight * (gain - mean) ** 2 for weight, gain in zip(weights, gains, strict=True))
    free = len(gains) - 1
    return float(chdtrc(free, q)) if math.isinf(degrees) else float(fdtrc(free, degrees, q / free))
