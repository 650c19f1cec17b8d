"""The verdict's decision: from which num_envs on is doubling shown to gain less than a limit? Pure.

Input: a `Contrast` per doubling. Output: a `Decision` with one of three states.

Two tests share the chance of error, alpha / 2 each:

    fixed sequence   from the largest doubling down, each tested at alpha / 2, until one fails (no correction is needed: Maurer et al.
                     1995). It has much power if FPS saturate, and proves "from N on"
    Holm 1979        over all doublings: it finds a threshold on a curve that rises again

A doubling is shown to be below the limit if either test says so; together they are wrong in at most alpha of all studies. `still pays` is
another test: the lower bound of the largest doubling, at alpha. If machines disagree, each of them must show it.

The threshold's own interval inverts a band over all doublings (Bonferroni).
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from scipy.special import ndtri, stdtr, stdtrit

from envknee.verdict.rule.contrasts import Contrast
from envknee.verdict.rule.doublings import half_width, holm

State = Literal["reached", "still pays", "undecided"]

LEAST_REPEATS = 3
"""Repeats, or seeds, with fewer of which a gain is shown, but decides nothing: with two, 80% power would need a doubling that loses a
quarter."""

POWER = 0.8
"""Chance of a decision with the suggested repeats, if the estimates are true."""

MOST_REPEATS = 200
"""More repeats are never suggested: the gain is too near the limit."""


@dataclass(frozen=True)
class Tested:
    """One doubling: gains and bounds are natural logarithms of the ratio."""

    contrast: Contrast
    lower: float | None
    """Two-sided interval of this doubling alone; None if its variance is unknown."""
    upper: float | None
    lower_one_sided: float | None
    upper_one_sided: float | None
    p_value: float | None
    """For a gain of at least the limit; None if this doubling cannot decide."""
    p_holm: float | None
    """The same, corrected for the number of doublings. The gain is shown to be below the limit at (1 - confidence) / 2 or less."""
    shown_below: bool
    """Whether either test shows a gain below the limit."""
    band_lower: float
    """Band over all doublings at once; infinite if this doubling cannot decide."""
    band_upper: float
    fresh: bool = False
    """Whether contrast and bounds come from confirmatory repeats only. The tests use all repeats."""

    @property
    def num_envs(self) -> int:
        """The smaller end."""
        return self.contrast.num_envs


@dataclass(frozen=True)
class Decision:
    """The decision on one series."""

    state: State
    doublings: tuple[Tested, ...]
    threshold: int | None
    """The smallest tested num_envs shown to gain less than the limit by doubling."""
    still_pays: float | None
    """Lower bound of the largest doubling's gain (a logarithm), if at least the limit."""
    more_repeats: int | None
    """More repeats of each point that would decide an undecided series with 80% power; None if decided, or over 200."""
    lowest: int | None
    """Smallest num_envs that the threshold may have; None without any doubling."""
    highest: int | None
    """Largest num_envs that the threshold may have; None: the measurements set no upper end."""
    resumes_at: tuple[int, ...]
    """Later num_envs whose measured doubling gains more than the limit again."""


def decide(contrasts: Sequence[Contrast], sizes: Iterable[int], log_limit: float, confidence: float) -> Decision:
    """Decide a series, from one contrast per doubling, by ascending num_envs.

    Doubling has stopped paying where it gains less than `log_limit`, the logarithm of a ratio. A doubling with fewer than
    `LEAST_REPEATS` at either end is shown, but decides nothing. `confidence` is that of each interval, of each one-sided bound, and of
    the decision as a whole. `sizes` has every num_envs measured.
    """
    alpha = 1.0 - confidence
    planned = [contrast.variance is not None and contrast.repeats >= LEAST_REPEATS for contrast in contrasts]
    p_values = [
        _p_below(contrast, log_limit) if own and contrast.decides else None
        for contrast, own in zip(contrasts, planned, strict=True)
    ]
    # A doubling that cannot decide by chance still counts as a test; one that cannot by design does not.
    counted = [1.0 if own and p is None else p for own, p in zip(planned, p_values, strict=True)]
    adjusted = holm(counted)
    # The fixed sequence goes on from the largest down as long as each one is shown.
    in_sequence = [
        p is not None and all(later is None or later <= alpha / 2 for later in counted[place:])
        for place, p in enumerate(counted)
    ]
    tested_count = sum(planned)
    doublings = tuple(
        _tested(contrast, p, None if p is None else p_holm, below, alpha, tested_count)
        for contrast, p, p_holm, below in zip(contrasts, p_values, adjusted, in_sequence, strict=True)
    )
    threshold = next((doubling.num_envs for doubling in doublings if doubling.shown_below), None)
    last = doublings[-1] if doublings else None
    pays = None
    if last is not None and last.p_value is not None and last.lower_one_sided is not None:
        pays = last.lower_one_sided if last.lower_one_sided >= log_limit else None
    state: State = "reached" if threshold is not None else "still pays" if pays is not None else "undecided"
    gain_more = {doubling.num_envs for doubling in doublings if doubling.band_lower >= log_limit}
    return Decision(
        state=state,
        doublings=doublings,
        threshold=threshold,
        still_pays=pays,
        more_repeats=more_repeats(doublings, log_limit, alpha) if state == "undecided" else None,
        lowest=next((size for size in sorted(sizes) if size not in gain_more), None) if doublings else None,
        highest=next((doubling.num_envs for doubling in doublings if doubling.band_upper < log_limit), None),
        resumes_at=tuple(
            doubling.num_envs
            for doubling in doublings
            if threshold is not None and doubling.num_envs > threshold and doubling.contrast.log_gain > log_limit
        ),
    )


def retold(decision: Decision, fresh: Sequence[Contrast], confidence: float) -> Decision:
    """Return the same decision, with gains and bounds from confirmatory repeats, if there are any.

    The repeats that stop a search understate the gain: their intervals covered 50 to 74% at the doubling found.
    """
    by_size = {contrast.num_envs: contrast for contrast in fresh}

    def told(doubling: Tested) -> Tested:
        contrast = by_size.get(doubling.num_envs)
        if contrast is None or contrast.variance is None:
            return doubling
        return replace(
            doubling, contrast=contrast, **_bounds(replace(contrast, parts=()), 1.0 - confidence), fresh=True
        )

    return replace(decision, doublings=tuple(told(doubling) for doubling in decision.doublings))


def _p_below(contrast: Contrast, log_limit: float) -> float:
    """Return the p-value of a gain of at least the limit; if machines disagree, the largest of theirs."""

    def p_of(part: Contrast) -> float:
        assert part.variance is not None
        above = part.log_gain + contrast.margin - log_limit
        if part.variance == 0.0:
            return float(above >= 0.0)
        return float(stdtr(part.degrees, above / math.sqrt(part.variance)))

    return max(p_of(part) for part in (contrast, *contrast.parts))


def _bound(contrast: Contrast, side: int, share: float) -> float | None:
    """Return a one-sided bound of a gain, beyond which lies a `share` of the chance; if machines disagree, the widest of theirs."""
    if contrast.variance is None or not contrast.decides:
        return None
    ends = [
        part.log_gain + side * (half_width(part.variance, part.degrees, share) + contrast.margin)
        for part in contrast.parts or (contrast,)
        if part.variance is not None
    ]
    return max(ends) if side > 0 else min(ends)


def _bounds(contrast: Contrast, alpha: float) -> dict[str, Any]:
    """Return the bounds of a doubling alone, by their names in `Tested`."""
    sides, tails = {"lower": -1, "upper": 1}, {"": alpha / 2, "_one_sided": alpha}
    return {side + tail: _bound(contrast, sides[side], tails[tail]) for side in sides for tail in tails}


def _tested(
    contrast: Contrast, p_value: float | None, p_holm: float | None, in_sequence: bool, alpha: float, tested: int
) -> Tested:
    decides = p_value is not None
    band_lower, band_upper = (_bound(contrast, side, alpha / (2 * tested)) if decides else None for side in (-1, 1))
    return Tested(
        contrast=contrast,
        **_bounds(contrast, alpha),
        p_value=p_value,
        p_holm=p_holm,
        shown_below=in_sequence or (p_holm is not None and p_holm <= alpha / 2),
        band_lower=-math.inf if band_lower is None else band_lower,
        band_upper=math.inf if band_upper is None else band_upper,
    )


def more_repeats(doublings: Sequence[Tested], log_limit: float, alpha: float) -> int | None:
    """Return how many more repeats of each point would decide with 80% power, if the estimates and their noise are true.

    It takes the cheapest of three ways: a suffix of doublings by the fixed sequence, a doubling by Holm, or the lower bound of the largest
    doubling. None: over `MOST_REPEATS`, or the noise is unknown although there are enough repeats.
    """
    if not doublings:
        return None
    now = min(doubling.contrast.repeats for doubling in doublings)
    if any(doubling.contrast.variance is None for doubling in doublings):
        return LEAST_REPEATS - now if now < LEAST_REPEATS else None
    ways: list[float] = []
    suffix = 0.0
    for contrast in (doubling.contrast for doubling in reversed(doublings)):
        # If machines disagree, each must show it.
        gains = [part.log_gain for part in (contrast, *contrast.parts)]
        if not ways:
            ways.append(_repeats_for(contrast, min(gains) - contrast.margin - log_limit, alpha))
        gap = log_limit - max(gains) - contrast.margin
        suffix = max(suffix, _repeats_for(contrast, gap, alpha / 2))
        ways += [suffix, _repeats_for(contrast, gap, alpha / 2 / len(doublings))]
    needed = min(ways)
    return None if math.isinf(needed) else max(int(needed), LEAST_REPEATS, now + 1) - now


def _repeats_for(contrast: Contrast, gap: float, alpha: float) -> float:
    """Return the repeats with which a one-sided test at `alpha` sees a `gap` with 80% power; infinite: over `MOST_REPEATS`."""
    assert contrast.variance is not None
    if gap <= 0.0:
        return math.inf
    of_one = contrast.variance * contrast.repeats
    for repeats in range(2, MOST_REPEATS + 1):
        degrees = repeats - 1 if contrast.processes else 2 * repeats - 2
        reach = -float(stdtrit(degrees, alpha)) + float(ndtri(POWER))
        if reach * math.sqrt(of_one / repeats) <= gap:
            return repeats
    return math.inf
