"""The decision rule that throughput and learning share: from which num_envs on is doubling shown to gain less than a limit?

Input: per num_envs an estimate of ln(value), more being better, with its variance. Output: a `Decision`. Pure.

Each doubling N -> 2N is compared by Welch's t interval on the difference of the logarithms. Variances are not pooled over
num_envs: noise often depends on N, and with one point six times as noisy as the others a pooled variance called "reached"
wrongly in 24% of simulated studies (3 repeats, every doubling at the limit) and covered 67% where it said 95%.

The threshold is the smallest of several N that pass a test, so chance has several attempts. Holm's step-down
correction (Holm 1979, Scand. J. Statist. 6:65) keeps the chance of one or more wrong rejections, and with it of a wrong
threshold, at 1 - confidence, whatever the shape of the curve and however neighbouring doublings depend on each other.
Simulated studies whose every doubling gains exactly the limit, the worst case, are wrong in 2 to 5% of cases with it
and in 13 to 26% without (tests/unit/test_limits_throughput.py).

A doubling that cannot decide because seeds of its smaller end are censored counts among the tests all the same. Whether
they are is chance, and a correction that got milder with it let 5.2% through in such studies (10 seeds, `prove`).

The threshold's own interval inverts a band that holds for all doublings at once (Bonferroni): it starts at the first N
that is not shown to gain at least the limit and ends at the first that is shown to gain less, or stays open.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.special import stdtr, stdtrit

LARGEST_LOG = 700.0
"""Just below what a float holds the exponential of."""


@dataclass(frozen=True)
class Level:
    """What was measured at one num_envs."""

    num_envs: int
    log_value: float
    """Natural logarithm of a quantity of which more is better (FPS, or one over a cost)."""
    variance: float | None
    """Of `log_value`, that is of the mean and not of single repeats; None where one repeat cannot tell."""
    repeats: int
    at_most: bool = False
    """True where `log_value` is only an upper bound, because some repeats are censored."""

    @classmethod
    def of(cls, num_envs: int, repeats: Sequence[float], step: float = 0.0) -> "Level":
        """Return the level of uncensored repeats, each above 0: the logarithm of their geometric mean.

        Args:
            num_envs: that they were measured at
            repeats: the values
            step: to a multiple of which all values are rounded. Repeats that differ by less than it may all be rounded the
                same way, so that their mean is off by as much as each: its variance is at least step^2 / 12, whatever their number.
        """
        logs = [math.log(value) for value in repeats]
        mean = statistics.fmean(logs)
        squares = sum((log - mean) ** 2 for log in logs)
        variance = (
            max(squares / (len(logs) - 1) / len(logs), (step / math.exp(mean)) ** 2 / 12) if len(logs) > 1 else None
        )
        return cls(num_envs, mean, variance, len(logs))


@dataclass(frozen=True)
class Doubling:
    """How much going from num_envs to twice as many gains; gains and bounds are natural logarithms of the ratio."""

    num_envs: int
    repeats: int
    """Of that end of the doubling which has fewer."""
    log_gain: float
    """An upper bound where the larger end is only known to be at most its value, a lower bound where the smaller end is."""
    from_at_most: bool
    to_at_most: bool
    lower: float | None
    """Two-sided interval of this doubling alone; an end is None where nothing bounds the gain on that side."""
    upper: float | None
    upper_one_sided: float | None
    p_value: float | None
    """Of the hypothesis that the gain is at least the limit; None where this doubling cannot decide."""
    p_holm: float | None
    """The same, corrected for the number of doublings tested: shown to be below the limit when at most 1 - confidence."""
    shown_below: bool
    band_lower: float
    """Band over all doublings at once; minus and plus infinity where this doubling cannot decide."""
    band_upper: float


@dataclass(frozen=True)
class Decision:
    """Where doubling stops paying."""

    doublings: tuple[Doubling, ...]
    threshold: int | None
    """The smallest tested num_envs shown to gain less than the limit by doubling; None: none is shown to."""
    lowest: int | None
    """Smallest num_envs that the threshold may have; None without any doubling."""
    highest: int | None
    """Largest one; None: the measurements set no upper end."""
    resumes_at: tuple[int, ...]
    """Later num_envs whose doubling was measured to gain more than the limit again."""


def decide(levels: Sequence[Level], log_limit: float, confidence: float, least_repeats: int) -> Decision:
    """Compare every exact doubling among `levels` with `log_limit`.

    Args:
        levels: one per num_envs, in any order
        log_limit: the gain, as the logarithm of a ratio, below which doubling has stopped paying
        confidence: of the two-sided intervals, of each one-sided bound, and of the decision as a whole
        least_repeats: a doubling with fewer repeats at either end is shown but decides nothing (at least 2)
    """
    by_size = {level.num_envs: level for level in sorted(levels, key=lambda level: level.num_envs)}
    pairs = [(level, by_size[2 * size]) for size, level in by_size.items() if 2 * size in by_size]
    tests = [_test(one, two, log_limit, least_repeats) for one, two in pairs]
    tested = sum(test.planned for test in tests)
    adjusted = holm([1.0 if test.planned and test.p_value is None else test.p_value for test in tests])
    tail = 1.0 - confidence
    doublings = tuple(
        _with_bounds(one, two, test, p_holm if test.p_value is not None else None, tail, tested)
        for (one, two), test, p_holm in zip(pairs, tests, adjusted, strict=True)
    )
    gain_more = {doubling.num_envs for doubling in doublings if doubling.band_lower >= log_limit}
    threshold = next((doubling.num_envs for doubling in doublings if doubling.shown_below), None)
    return Decision(
        doublings=doublings,
        threshold=threshold,
        lowest=next((size for size in by_size if size not in gain_more), None) if doublings else None,
        highest=next((d.num_envs for d in doublings if d.band_upper < log_limit), None),
        resumes_at=tuple(
            d.num_envs
            for d in doublings
            if threshold is not None and d.num_envs > threshold and d.log_gain > log_limit and not d.to_at_most
        ),
    )


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Return p-values corrected for their number by Holm's step-down rule; None stays None and is not counted."""
    known = sorted((p, place) for place, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    largest = 0.0
    for rank, (p, place) in enumerate(known):
        largest = max(largest, min(1.0, (len(known) - rank) * p))
        adjusted[place] = largest
    return adjusted


def welch(one: Level, two: Level) -> tuple[float, float] | None:
    """Return variance and degrees of freedom of the difference of two levels, or None where either has one repeat.

    Welch 1947 (Biometrika 34:28) and Satterthwaite 1946. Identical repeats that were not rounded leave no noise at all, and
    then the estimate decides.
    """
    if one.variance is None or two.variance is None:
        return None
    variance = one.variance + two.variance
    spread = one.variance**2 / (one.repeats - 1) + two.variance**2 / (two.repeats - 1)
    return variance, variance**2 / spread if spread > 0.0 else math.inf


def difference(one: Level, two: Level, confidence: float) -> tuple[float, float | None, float | None]:
    """Return ln(two / one) with Welch's two-sided interval; no interval where either has one repeat."""
    log_ratio = two.log_value - one.log_value
    noise = welch(one, two)
    if noise is None:
        return log_ratio, None, None
    width = half_width(*noise, (1.0 - confidence) / 2)
    return log_ratio, log_ratio - width, log_ratio + width


def exp(log_ratio: float) -> float:
    """Return the ratio of a logarithm, kept finite: two repeats can leave an interval hundreds of orders of magnitude wide."""
    return math.exp(min(log_ratio, LARGEST_LOG))


def expm1(log_ratio: float) -> float:
    """Return the same less 1: a gain."""
    return math.expm1(min(log_ratio, LARGEST_LOG))


def half_width(variance: float, degrees: float, tail: float) -> float:
    """Return how far a Student t bound lies from the estimate, leaving `tail` of the probability beyond it."""
    return 0.0 if variance == 0.0 else -float(stdtrit(degrees, tail)) * math.sqrt(variance)


@dataclass(frozen=True)
class _Test:
    """One doubling: difference of logarithms, its variance and Welch's degrees of freedom."""

    log_gain: float
    variance: float | None
    degrees: float
    planned: bool
    """Enough repeats at both ends to decide, whatever came out."""
    p_value: float | None
    """None: not planned, or censored at the smaller end."""


def _test(one: Level, two: Level, log_limit: float, least_repeats: int) -> _Test:
    log_gain = two.log_value - one.log_value
    noise = welch(one, two)
    if noise is None:
        return _Test(log_gain, None, math.nan, False, None)
    variance, degrees = noise
    planned = min(one.repeats, two.repeats) >= least_repeats
    if not planned or one.at_most:
        p_value = None
    elif variance == 0.0:
        p_value = float(log_gain >= log_limit)
    else:
        p_value = float(stdtr(degrees, (log_gain - log_limit) / math.sqrt(variance)))
    return _Test(log_gain, variance, degrees, planned, p_value)


def _with_bounds(one: Level, two: Level, test: _Test, p_holm: float | None, tail: float, tested: int) -> Doubling:
    def bound(side: int, share: float) -> float | None:
        """Return the upper (side 1) or lower (side -1) bound, or None where a censored end leaves that side open."""
        if test.variance is None or (one.at_most if side > 0 else two.at_most) or (one.at_most and two.at_most):
            return None
        return test.log_gain + side * half_width(test.variance, test.degrees, share)

    decides = test.p_value is not None
    band_lower, band_upper = (bound(side, tail / (2 * tested)) if decides else None for side in (-1, 1))
    return Doubling(
        num_envs=one.num_envs,
        repeats=min(one.repeats, two.repeats),
        log_gain=test.log_gain,
        from_at_most=one.at_most,
        to_at_most=two.at_most,
        lower=bound(-1, tail / 2),
        upper=bound(1, tail / 2),
        upper_one_sided=bound(1, tail),
        p_value=test.p_value,
        p_holm=p_holm,
        shown_below=p_holm is not None and p_holm <= tail,
        band_lower=-math.inf if band_lower is None else band_lower,
        band_upper=math.inf if band_upper is None else band_upper,
    )
