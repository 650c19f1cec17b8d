"""The verdict's decision: from which num_envs on is doubling shown to gain less than a limit? Pure.

Input: each doubling with all looks at it (`looks`). Output: a `Decision` with one of three states.

Two tests share the chance of error, alpha / 2 each:

    fixed sequence   from the largest doubling down, each tested at alpha / 2, until one fails (no correction is needed: Maurer et al.
                     1995). It has much power if FPS saturate, and proves "from N on"
    Holm 1979        over all doublings: it finds a threshold on a curve that rises again

A doubling is shown to be below the limit if either test says so; together they are wrong in at most alpha of all studies. `still pays` is
another test: the lower bound of the largest doubling, at alpha. If machines disagree, each of them must show it. What an earlier look
has shown counts only while the newest estimate is on the same side of the limit.

Bounds hold at every look: each is the narrowest of those of all looks, each of which leaves its share of the chance of error. Where the
newest estimate lies outside of them, the study contradicts itself, and that doubling decides nothing.

The threshold's own interval inverts a band over all doublings (Bonferroni).
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from scipy.special import ndtri, stdtr, stdtrit

from envknee.verdict.rule.contrasts import Contrast
from envknee.verdict.rule.doublings import half_width, holm
from envknee.verdict.rule.looks import Look, Looked
from envknee.verdict.rule.schedule import LEAST_REPEATS, ONCE, SHARE, Schedule

State = Literal["reached", "still pays", "undecided"]

POWER = 0.8
"""Chance of a decision with the suggested repeats, if the estimates are true."""

MOST_REPEATS = 200
"""More repeats are never suggested: the gain is too near the limit."""


@dataclass(frozen=True)
class Tested:
    """One doubling: gains and bounds are natural logarithms of the ratio."""

    contrast: Contrast
    """As the last look saw it."""
    lower: float | None
    """Two-sided interval of this doubling alone, which holds at every look; None if its variance is unknown."""
    upper: float | None
    lower_one_sided: float | None
    upper_one_sided: float | None
    p_value: float | None
    """For a gain of at least the limit, over all looks; None if this doubling cannot decide."""
    p_holm: float | None
    """The same, corrected for the number of doublings. The gain is shown to be below the limit at (1 - confidence) / 2 or less."""
    shown_below: bool
    """Whether either test shows a gain below the limit."""
    band_lower: float
    """Band over all doublings at once; infinite if this doubling cannot decide."""
    band_upper: float
    contradicts: bool = False
    """Whether the newest estimate lies outside of the bounds that earlier looks set: then this doubling decides nothing."""
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


def decide(
    doublings: Sequence[Looked],
    sizes: Iterable[int],
    log_limit: float,
    confidence: float,
    schedule: Schedule = ONCE,
) -> Decision:
    """Decide a series, from all looks at each doubling, by ascending num_envs.

    Doubling has stopped paying where it gains less than `log_limit`, the logarithm of a ratio. A doubling with fewer than
    `LEAST_REPEATS` at either end is shown, but decides nothing. `confidence` is that of each interval, of each one-sided bound, and of
    the decision as a whole, however often a study is looked at by `schedule`. `sizes` has every num_envs measured.
    """
    alpha = 1.0 - confidence
    planned = [bool(_enough(doubling)) for doubling in doublings]
    alone = [_alone(doubling, alpha) for doubling in doublings]
    p_values = [
        None if own.contradicts else _p_below(doubling, log_limit)
        for doubling, own in zip(doublings, alone, strict=True)
    ]
    # A doubling that cannot decide by chance still counts as a test; one that cannot by design does not.
    counted = [1.0 if own and p is None else p for own, p in zip(planned, p_values, strict=True)]
    adjusted = holm(counted)
    below = [doubling.latest.log_gain < log_limit for doubling in doublings]
    shown_alone = [p is None or (p <= alpha / 2 and is_below) for p, is_below in zip(counted, below, strict=True)]
    # The fixed sequence goes on from the largest down as long as each one is shown.
    in_sequence = [p is not None and all(shown_alone[place:]) for place, p in enumerate(counted)]
    by_holm = [
        p is not None and p_holm is not None and p_holm <= alpha / 2 and is_below
        for p, p_holm, is_below in zip(p_values, adjusted, below, strict=True)
    ]
    tested_count = sum(planned)
    tested = tuple(
        _tested(
            doubling,
            alone[place],
            _band(doubling, alpha / (2 * tested_count)) if p_values[place] is not None else NO_BAND,
            p_value=p_values[place],
            p_holm=None if p_values[place] is None else adjusted[place],
            shown_below=in_sequence[place] or by_holm[place],
        )
        for place, doubling in enumerate(doublings)
    )
    threshold = next((doubling.num_envs for doubling in tested if doubling.shown_below), None)
    pays = _still_pays(tested[-1], log_limit) if tested else None
    state = _state(threshold, pays)
    gain_more = {doubling.num_envs for doubling in tested if doubling.band_lower >= log_limit}
    return Decision(
        state=state,
        doublings=tested,
        threshold=threshold,
        still_pays=pays,
        more_repeats=more_repeats(tested, log_limit, alpha, schedule) if state == "undecided" else None,
        lowest=next((size for size in sorted(sizes) if size not in gain_more), None) if tested else None,
        highest=next((doubling.num_envs for doubling in tested if doubling.band_upper < log_limit), None),
        resumes_at=tuple(
            doubling.num_envs
            for doubling in tested
            if threshold is not None and doubling.num_envs > threshold and doubling.contrast.log_gain > log_limit
        ),
    )


def _state(threshold: int | None, pays: float | None) -> State:
    if threshold is not None:
        return "reached"
    return "undecided" if pays is None else "still pays"


def _still_pays(largest: Tested, log_limit: float) -> float | None:
    """Return the lower bound of the largest doubling's gain, if it and the newest estimate are at least the limit."""
    bound = largest.lower_one_sided
    if largest.p_value is None or bound is None or bound < log_limit:
        return None
    return bound if largest.contrast.log_gain >= log_limit else None


def retold(decision: Decision, fresh: Sequence[Contrast], confidence: float) -> Decision:
    """Return the same decision, with gains and bounds from confirmatory repeats, if there are any.

    The repeats that stop a search understate the gain: their intervals covered 50 to 74% at the doubling found.
    """
    by_size = {contrast.num_envs: contrast for contrast in fresh}

    def told(doubling: Tested) -> Tested:
        contrast = by_size.get(doubling.num_envs)
        if contrast is None or contrast.variance is None:
            return doubling
        # Their number was fixed beforehand: they are looked at once.
        alone = (Look(replace(contrast, parts=()), 1.0),)
        return replace(doubling, contrast=contrast, **_bounds(alone, 1.0 - confidence), contradicts=False, fresh=True)

    return replace(decision, doublings=tuple(told(doubling) for doubling in decision.doublings))


def interval_at_every_look(looked: Looked, confidence: float) -> tuple[float | None, float | None]:
    """Return the two-sided interval of a contrast, a logarithm, that holds at every look; None where its variance is unknown.

    If looks contradict each other, it spans what any of them allows, so that it holds as often.
    """
    alpha, looks = 1.0 - confidence, _shown_looks(looked)
    alone = _alone(looked, alpha)
    if not alone.contradicts:
        return alone.bounds["lower"], alone.bounds["upper"]
    every = [_bounds([look], alpha) for look in looks]
    return min(bounds["lower"] for bounds in every), max(bounds["upper"] for bounds in every)


def _enough(doubling: Looked) -> list[Look]:
    """Return the looks that had enough repeats, and known noise, to decide anything."""
    return [
        look for look in doubling.looks if look.contrast.variance is not None and look.contrast.repeats >= LEAST_REPEATS
    ]


def _p_below(doubling: Looked, log_limit: float) -> float | None:
    """Return the p-value of a gain of at least the limit, over all looks; None if no look may decide."""
    deciding = [look for look in _enough(doubling) if look.contrast.decides]
    if not deciding or not doubling.latest.decides:
        return None
    return min(1.0, *(look.factor * _p_at(look.contrast, log_limit) for look in deciding))


def _p_at(contrast: Contrast, log_limit: float) -> float:
    """Return the p-value of a gain of at least the limit at one look; if machines disagree, the largest of theirs."""

    def p_of(part: Contrast) -> float:
        assert part.variance is not None
        above = part.log_gain + contrast.margin - log_limit
        if part.variance == 0.0:
            return float(above >= 0.0)
        return float(stdtr(part.degrees, above / math.sqrt(part.variance)))

    return max(p_of(part) for part in (contrast, *contrast.parts))


def _bound_at(look: Look, side: int, share: float) -> float | None:
    """Return a one-sided bound of a gain at one look, beyond which lies its part of a `share` of the chance.

    If machines disagree, the widest of theirs.
    """
    contrast = look.contrast
    if contrast.variance is None or not (contrast.decides or contrast.loaded):
        return None
    ends = [
        part.log_gain + side * (half_width(part.variance, part.degrees, share / look.factor) + contrast.margin)
        for part in contrast.parts or (contrast,)
        if part.variance is not None
    ]
    return max(ends) if side > 0 else min(ends)


def _bound(looks: Sequence[Look], side: int, share: float) -> float | None:
    """Return a one-sided bound of a gain that holds at every look: the narrowest of theirs."""
    ends = [end for look in looks if (end := _bound_at(look, side, share)) is not None]
    if not ends:
        return None
    return min(ends) if side > 0 else max(ends)


def _bounds(looks: Sequence[Look], alpha: float) -> dict[str, Any]:
    """Return the bounds of a doubling alone, by their names in `Tested`."""
    sides, tails = {"lower": -1, "upper": 1}, {"": alpha / 2, "_one_sided": alpha}
    return {side + tail: _bound(looks, sides[side], tails[tail]) for side in sides for tail in tails}


def _shown_looks(doubling: Looked) -> Sequence[Look]:
    """Return the looks whose bounds are shown: those that may decide, or the newest estimate as if it were one."""
    deciding = [look for look in _enough(doubling) if look.contrast.decides]
    return deciding or doubling.looks[-1:] or (Look(doubling.latest, 1.0 / SHARE),)


class _Alone(NamedTuple):
    """A doubling by itself."""

    bounds: dict[str, Any]
    """By their names in `Tested`."""
    contradicts: bool
    """Whether the newest estimate lies outside of the bounds that all looks set."""


def _alone(doubling: Looked, alpha: float) -> _Alone:
    looks = _shown_looks(doubling)
    bounds = _bounds(looks, alpha)
    lower, upper = bounds["lower"], bounds["upper"]
    if lower is None or upper is None or lower <= doubling.latest.log_gain <= upper:
        return _Alone(bounds, contradicts=False)
    # Bounds that contradict each other are no interval: then those of the newest look are shown.
    return _Alone(_bounds(looks[-1:], alpha), contradicts=True)


NO_BAND = (-math.inf, math.inf)


def _band(doubling: Looked, share: float) -> tuple[float, float]:
    """Return the ends of the band over all doublings, of which each leaves a `share` of the chance at either end."""
    lower, upper = (_bound(_shown_looks(doubling), side, share) for side in (-1, 1))
    return NO_BAND if lower is None or upper is None else (lower, upper)


def _tested(
    doubling: Looked,
    alone: _Alone,
    band: tuple[float, float],
    *,
    p_value: float | None,
    p_holm: float | None,
    shown_below: bool,
) -> Tested:
    return Tested(
        contrast=doubling.latest,
        **alone.bounds,
        p_value=p_value,
        p_holm=p_holm,
        shown_below=shown_below,
        band_lower=band[0],
        band_upper=band[1],
        contradicts=alone.contradicts,
    )


def more_repeats(doublings: Sequence[Tested], log_limit: float, alpha: float, schedule: Schedule = ONCE) -> int | None:
    """Return how many more repeats of each point would decide with 80% power, if the estimates and their noise are true.

    It takes the cheapest of three ways: a suffix of doublings by the fixed sequence, a doubling by Holm, or the lower bound of the largest
    doubling. None: over `MOST_REPEATS`, or the noise is unknown although there are enough repeats.
    """
    if not doublings:
        return None
    now = min(doubling.contrast.repeats for doubling in doublings)
    least = max(doubling.contrast.least_repeats for doubling in doublings)
    if any(doubling.contrast.variance is None for doubling in doublings):
        first = schedule.next_look(least)
        return first - now if now < least and first is not None else None
    ways: list[float] = []
    suffix = 0.0
    for contrast in (doubling.contrast for doubling in reversed(doublings)):
        # If machines disagree, each must show it.
        gains = [part.log_gain for part in (contrast, *contrast.parts)]
        if not ways:
            ways.append(_repeats_for(contrast, min(gains) - contrast.margin - log_limit, alpha, schedule))
        gap = log_limit - max(gains) - contrast.margin
        suffix = max(suffix, _repeats_for(contrast, gap, alpha / 2, schedule))
        ways += [suffix, _repeats_for(contrast, gap, alpha / 2 / len(doublings), schedule)]
    needed = min(ways)
    if math.isinf(needed):
        return None
    look = schedule.next_look(max(int(needed), least, now + 1))
    return None if look is None else look - now


def _repeats_for(contrast: Contrast, gap: float, alpha: float, schedule: Schedule) -> float:
    """Return the repeats with which a one-sided test at `alpha` sees a `gap` with 80% power; infinite: over `MOST_REPEATS`."""
    assert contrast.variance is not None
    if gap <= 0.0:
        return math.inf
    of_one = contrast.variance * contrast.repeats
    for repeats in range(2, MOST_REPEATS + 1):
        factor = schedule.factor(repeats)
        if math.isinf(factor):
            continue
        degrees = repeats - 1 if contrast.processes else 2 * repeats - 2
        reach = -float(stdtrit(degrees, alpha / factor)) + float(ndtri(POWER))
        if reach * math.sqrt(of_one / repeats) <= gap:
            return repeats
    return math.inf
