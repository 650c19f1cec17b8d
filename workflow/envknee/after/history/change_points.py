"""Where a series of versions changes, by permutation. Pure.

Each version has some repeats, a number each (logarithms). If nothing changed between the versions, their repeats could be exchanged. The
statistic is the largest sum of squares between two sides of a split, over all splits; SciPy's `permutation_test` gives its p-value, exactly
where there are few arrangements. So a series without a change shows one in at most `level` of cases, whatever the distribution of its
repeats, over all of its splits together. Versions that are measured on different days may differ by more than their repeats do: measure
them in turns, as arms of one study or as alternating replays.

A split that is shown divides the series, and each part is searched with its share of the level: as many parts of it as it has splits
(binary segmentation, Vostrikova 1981). Then each change is tested once more between its neighbours, at the place that fits best there.
"""

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import permutation_test

RESAMPLES = 9_999
"""Arrangements that are drawn where there are more."""

SEED = 0
"""The same series always gives the same answer."""

DECIMALS = 12
"""Differences of logarithms below this are rounding, not noise: values that are equal stay equal in every arrangement."""

Series = Sequence[Sequence[float]]
"""By version: its repeats."""


class Step(NamedTuple):
    """A change between version `place - 1` and version `place`."""

    place: int
    p_value: float


def change_points(series: Series, level: float) -> list[Step]:
    """Return the changes of a series, in order. Every version needs at least one repeat."""
    return _settled(series, sorted(_segmented(series, 0, len(series), level)), level)


def _segmented(series: Series, start: int, end: int, level: float) -> list[int]:
    """Return the places of changes in a part of a series."""
    found = _shown(series, start, end, level)
    if found is None:
        return []
    return [*_segmented(series, start, found.place, level), found.place, *_segmented(series, found.place, end, level)]


def _shown(series: Series, start: int, end: int, level: float) -> Step | None:
    """Return the best split of a part, if it is shown at the part's share of the level."""
    if end - start < 2:
        return None
    part = series[start:end]
    p_value = p_of_any_change(part)
    if p_value > level * (end - start - 1) / (len(series) - 1):
        return None
    ends = np.cumsum([len(repeats) for repeats in part])[:-1]
    return Step(start + 1 + int(np.argmax(between_sides(_pooled(part), ends))), p_value)


def _settled(series: Series, places: list[int], level: float) -> list[Step]:
    """Return each change as it is between its neighbours; one that is not shown there goes."""
    steps: list[Step] = []
    for _ in series:  # each round moves or drops a change; no series was seen to need three
        bounds = [0, *places, len(series)]
        found = [_shown(series, *ends, level) for ends in zip(bounds[:-2], bounds[2:], strict=True)]
        steps = list({step.place: step for step in found if step is not None}.values())
        if [step.place for step in steps] == places:
            break
        places = [step.place for step in steps]
    return steps


def p_of_any_change(part: Series) -> float:
    """Return the p-value of a change anywhere in a series: its repeats are exchanged between its versions."""
    ends = np.cumsum([len(repeats) for repeats in part])[:-1]

    def largest(values: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
        assert axis == -1
        return between_sides(values, ends).max(axis=-1)

    tested = permutation_test(
        (_pooled(part),), largest, permutation_type="pairings", vectorized=True, n_resamples=RESAMPLES,
        alternative="greater", rng=np.random.default_rng(SEED),
    )  # fmt: skip
    return float(tested.pvalue)


def _pooled(part: Series) -> NDArray[np.float64]:
    return np.asarray([value for repeats in part for value in repeats], dtype=float)


def between_sides(values: NDArray[np.float64], ends: NDArray[np.int_]) -> NDArray[np.float64]:
    """Return the sum of squares between both sides of each split, of values of shape (..., n): shape (..., splits).

    `ends` has the number of values before each split.
    """
    sums, total = np.cumsum(values, axis=-1), values.shape[-1]
    left = sums[..., ends - 1]
    difference = left / ends - (sums[..., -1:] - left) / (total - ends)
    return np.round(difference**2 * ends * (total - ends) / total, 2 * DECIMALS)


def least_p(counts: Sequence[int]) -> float:
    """Return the smallest p-value that a change can have, from the number of repeats of each version.

    Of the arrangements of n repeats that a split parts into n1 and n - n1, one is most extreme; and its mirror image, if the versions can
    be parted into n - n1 and n1, too.
    """
    total = sum(counts)
    lefts = list(itertools.accumulate(counts[:-1]))
    exact = min((1 + (total - left in lefts)) / math.comb(total, left) for left in lefts)
    return max(exact, 1.0 / (RESAMPLES + 1))
