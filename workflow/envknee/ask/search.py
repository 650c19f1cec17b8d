"""The search for the threshold of one series: the num_envs whose trial tells most comes next.

Input: what is known of each num_envs of a (horizon, batch_size). Output: the num_envs to run next, or why none. Pure.

Two trials far apart give the law of the iteration time (t0 + c N). The law predicts where a doubling stops paying. Around that
num_envs, single repeats find the doubling that gains less than delta. With `ascending` one trial of each size finds it instead, from
the smallest on, so that an unknown program is never given far more than it has shown to bear. More repeats, where there are fewest,
show it by the rule that the verdict uses (`verdict.rule.union`). A series is decided when two successive doublings are shown to gain
less than delta, or when the largest doubling that fits is shown to gain at least delta.

Every look after a trial is a chance of error, and counts as one (`verdict.rule.looks`). Two successive doublings must be shown beside
that, so that one lucky look ends nothing. The repeats that stop a search understate the gain. So fresh repeats of both ends measure the
gain of the doubling (`Step.confirms`).

Where trials run side by side on several devices, each device measures the ends of a doubling in turns (`Tried.turn`), and gains are
compared within devices.
"""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from envknee.base.fields import Kind
from envknee.record.reasons import SearchEnd
from envknee.study.sweep import Adaptive
from envknee.verdict import learning, throughput
from envknee.verdict.learning import SeedRepeats
from envknee.verdict.learning_cost import Seeds
from envknee.verdict.noise import measured_cv
from envknee.verdict.rule import affine
from envknee.verdict.rule.schedule import EVERY_REPEAT, LEAST_REPEATS
from envknee.verdict.rule.union import Decision, Tested

MOST_AHEAD = 4
"""Sizes that a climb may have under way without a result: nobody knows what larger ones need. Further devices repeat the smallest."""


@dataclass
class Tried:
    """Results and requests at one num_envs of a series."""

    asked: int = 0
    """Requests so far, with or without a visible record."""
    under_way: int = 0
    """Repeats without a visible record so far."""
    fps: list[float] = field(default_factory=list)
    seeds: list[tuple[float, bool]] = field(default_factory=list)
    """Seconds of each seed, and whether it reached the target, in the order asked."""
    confirming: int = 0
    """Fresh repeats asked for; no other field counts them."""
    asked_here: int = 0
    """Of `asked`, those in the lane of the next trial, which have its device; 0 without lanes (`space.Slot.lane`)."""
    confirming_here: int = 0
    """The same of `confirming`."""
    blocks: list[Hashable] | None = None
    """With lanes, the statistical block of each of `fps`."""

    @property
    def costs(self) -> Seeds:
        """Seconds of the seeds."""
        return Seeds(
            tuple(seconds for seconds, reached in self.seeds if reached),
            tuple(seconds for seconds, reached in self.seeds if not reached),
        )

    @property
    def seed_repeats(self) -> SeedRepeats:
        """Which repeat gave each seed, in the order of `costs`."""
        return SeedRepeats.of(enumerate(reached for _, reached in self.seeds))

    @property
    def turn(self) -> tuple[int, int]:
        """What puts the num_envs first that has been measured least: on the device of the next trial, then on all."""
        return self.asked_here, self.asked

    @property
    def turn_to_confirm(self) -> tuple[int, int]:
        """The same for fresh repeats."""
        return self.confirming_here, self.confirming

    @property
    def known(self) -> int:
        """Repeats with a measurement."""
        return len(self.fps) + len(self.seeds)


@dataclass(frozen=True)
class Rule:
    """How one kind of trial is decided, by the verdict's own functions."""

    kind: Kind
    settings: Adaptive
    most: int
    """Most repeats of a point."""
    in_lanes: bool = False
    """Whether trials run in lanes, each on a device of its own."""

    @property
    def log_limit(self) -> float:
        """The gain, as the logarithm of a ratio, below which a doubling has stopped paying."""
        delta = self.settings.delta
        return math.log1p(delta) if self.kind == "throughput" else -math.log1p(-delta)

    def decide(self, tried: Mapping[int, Tried]) -> Decision:
        """Return what all repeats so far show, each of which is a look."""
        delta, confidence = self.settings.delta, self.settings.confidence
        if self.kind == "throughput":
            fps = {size: tries.fps for size, tries in tried.items() if tries.fps}
            blocks = {size: tried[size].blocks for size in fps}
            known = {size: own for size, own in blocks.items() if own is not None}
            return throughput.decision_of(
                fps, delta, confidence, blocks=known if len(known) == len(fps) else None, schedule=EVERY_REPEAT
            )
        measured = {size: tries for size, tries in tried.items() if tries.known}
        seeds = {size: tries.costs for size, tries in measured.items()}
        repeats = {size: tries.seed_repeats for size, tries in measured.items()}
        return learning.decision_of(seeds, delta, confidence, repeats, EVERY_REPEAT)


class End(NamedTuple):
    """Why a series needs nothing more."""

    end: SearchEnd
    num_envs: tuple[int, ...] = ()
    repeats: int | None = None


class Step(NamedTuple):
    """The next measurement of a series."""

    num_envs: int | None
    """None: nothing more."""
    end: End | None = None
    """Set if the series needs nothing more, but a fresh repeat if `confirms`."""
    waits: bool = False
    """Whether a running trial may make this one needless."""
    focus: int | None = None
    """The num_envs around which the threshold is searched."""
    confirms: bool = False
    """Whether a fresh repeat measures the gain of the doubling found."""


def next_step(sizes: Sequence[int], tried: Mapping[int, Tried], rule: Rule, start: int | None) -> Step:
    """Return what one series needs next.

    `sizes` are the num_envs that may fit, ascending, and `start` is the threshold of an earlier series, if known.
    """
    if rule.settings.ascending:
        sizes = _unbroken(sizes, tried)
        tried = {size: tried[size] for size in sizes}
    pairs = [size for size in sizes if 2 * size in tried]
    if not pairs:
        return Step(None, End("no_doubling_fits", tuple(sizes)))
    decision = rule.decide(tried)
    by_size = {doubling.num_envs: doubling for doubling in decision.doublings}
    if rule.kind == "learning" and (between := _narrow_interval(decision, rule.settings.within)):
        return Step(None, End("threshold_between", between), focus=between[1])
    if rule.settings.ascending and (size := _next_above(sizes, tried, by_size, rule)) is not None:
        unknown = [size for size in sizes if tried[size].under_way and not tried[size].known]
        if rule.in_lanes and len(unknown) >= MOST_AHEAD:
            return _fewest(unknown[:2], tried, rule, unknown[0])
        return Step(size, waits=any(tries.under_way for tries in tried.values()))
    focus = _focus(pairs, tried, by_size, rule, start)
    if focus is None:
        scouts = dict.fromkeys([sizes[len(sizes) // 4], sizes[(5 * len(sizes)) // 8], *sizes])
        unseen = [size for size in scouts if not tried[size].asked]
        if not unseen and rule.in_lanes and any(tries.under_way for tries in tried.values()):
            return _fewest([pairs[-1], 2 * pairs[-1]], tried, rule, pairs[-1])  # rather than leave a device idle
        if not unseen:
            return Step(None, End("none_measured"))
        # A third is needed only if one of the first two gives no measurement.
        return Step(unseen[0], waits=sum(tries.under_way + tries.known for tries in tried.values()) >= 2)
    if focus not in by_size:
        return _fewest([focus, 2 * focus], tried, rule, focus, wanted=1)
    pays = by_size[focus].contrast.log_gain >= rule.log_limit
    # The threshold is the smallest doubling that qualifies, so the doubling before counts, too.
    before = [] if pays or focus // 2 not in tried else [focus // 2]
    if before and not tried[before[0]].known:
        return _fewest(before, tried, rule, focus, wanted=1)
    around = [*before, focus, 2 * focus]
    if min(tried[size].known for size in around) < LEAST_REPEATS:
        return _fewest(around, tried, rule, focus)
    if pays:
        if by_size[focus].band_lower >= rule.log_limit:
            return Step(None, End("still_pays", (focus,)))
        return _fewest([focus, 2 * focus], tried, rule, focus)
    onward = [size for size in pairs if size >= focus]
    shown = [size for size in onward if size in by_size and by_size[size].shown_below]
    for first in onward:
        then = 2 * first
        if first in shown and (then in shown or then not in pairs):
            end = End("stopped_paying", (first, then) if then in pairs else (first,))
            fresh = None
            if rule.kind == "throughput" and (threshold := decision.threshold) is not None:
                ends = [size for size in (threshold, 2 * threshold) if tried[size].confirming < rule.settings.confirm]
                fresh = min(ends, key=lambda size: (tried[size].turn_to_confirm, size), default=None)
            return Step(fresh, end, focus=focus, confirms=fresh is not None)
        tested, ends = (then, [then, 2 * then]) if first in shown else (first, [*before, first, 2 * first])
        if not _hopeless(by_size.get(tested), tried, rule) and not _used_up(ends, tried, rule):
            return _fewest(ends, tried, rule, focus)
    # A doubling that was shown, but not confirmed by the next one, gets all its repeats.
    if shown:
        return _fewest([shown[0], 2 * shown[0]], tried, rule, focus)
    return Step(None, End("too_many_repeats", (focus,), rule.most), focus=focus)


def _unbroken(sizes: Sequence[int], tried: Mapping[int, Tried]) -> list[int]:
    """Return the sizes below the first one whose trials gave no measurement."""
    broken = (size for size in sizes if tried[size].asked > tried[size].under_way and not tried[size].known)
    first = next(broken, math.inf)
    return [size for size in sizes if size < first]


def _next_above(
    sizes: Sequence[int], tried: Mapping[int, Tried], doublings: Mapping[int, Tested], rule: Rule
) -> int | None:
    """Return the smallest size without a trial; None if the last two measured doublings gain less than the limit, or all have one."""
    above = next((size for size in sizes if not tried[size].asked), None)
    if above is None:
        return None
    last_two = [doublings[size] for size in sorted(doublings)[-2:]]
    is_flat = len(last_two) == 2 and all(doubling.contrast.log_gain < rule.log_limit for doubling in last_two)
    return None if is_flat else above


def _narrow_interval(decision: Decision, within: float) -> tuple[int, int] | None:
    """Return the ends of the threshold's interval if they are at most the factor `within` apart."""
    lowest, highest = decision.lowest, decision.highest
    if lowest is None or highest is None or highest > within * lowest:
        return None
    return lowest, highest


def _focus(
    pairs: Sequence[int], tried: Mapping[int, Tried], doublings: Mapping[int, Tested], rule: Rule, start: int | None
) -> int | None:
    """Return the doubling that seems to be the first to gain less than the limit; None while unknown."""
    paying = [size for size, doubling in doublings.items() if doubling.contrast.log_gain >= rule.log_limit]
    below = [size for size in doublings if size not in paying]
    if below:
        return min(below)
    predicted = None
    if sum(bool(tries.fps) for tries in tried.values()) >= 2:
        wanted = _by_law(tried, rule.settings.delta)
        predicted = next((size for size in pairs if size >= wanted), pairs[-1])
    if paying:
        onward = [size for size in pairs if size > max(paying)]
        return max(onward[0], min(predicted or 0, onward[-1])) if onward else pairs[-1]
    if start is not None:
        return min(pairs, key=lambda size: abs(math.log(size / start)))
    return predicted if rule.kind == "throughput" else pairs[len(pairs) // 2]


def _hopeless(doubling: Tested | None, tried: Mapping[int, Tried], rule: Rule) -> bool:
    """Tell whether a measured doubling's gain is so close to the limit that even all repeats would hardly show it to be less.

    Only for planning: it pools the noise of all num_envs, and assumes about two tested doublings.
    """
    if doubling is None or doubling.contrast.repeats < LEAST_REPEATS:
        return False
    spread = _spread_with_all(doubling, tried, rule)
    if spread is None:
        return False
    share = (1.0 - rule.settings.confidence) / 2 / EVERY_REPEAT.factor(max(rule.most, LEAST_REPEATS))
    bound = -float(stdtrit(2 * (rule.most - 1), share)) * spread
    return doubling.contrast.log_gain + bound > rule.log_limit


def _spread_with_all(doubling: Tested, tried: Mapping[int, Tried], rule: Rule) -> float | None:
    """Return the standard error that a doubling's gain would have with all repeats; None if the noise is unknown."""
    contrast = doubling.contrast
    if rule.in_lanes:  # the noise of a size's repeats would hold the differences between devices
        return None if contrast.variance is None else math.sqrt(contrast.variance * contrast.repeats / rule.most)
    cv = measured_cv(tries.fps or [s for s, reached in tries.seeds if reached] for tries in tried.values())
    return None if cv is None else cv * math.sqrt(2.0 / rule.most)


def _used_up(ends: Sequence[int], tried: Mapping[int, Tried], rule: Rule) -> bool:
    """Tell whether a doubling of a search on several devices has all its repeats.

    They were asked for before the results showed that they would not do, and a later doubling may.
    """
    return rule.in_lanes and all(tried[size].asked >= rule.most for size in ends)


def _fewest(
    around: Sequence[int], tried: Mapping[int, Tried], rule: Rule, focus: int, wanted: int = LEAST_REPEATS
) -> Step:
    """Return a step at the size with the fewest requests, in the lane first.

    It can wait while results are under way and each size has the `wanted` ones.
    """
    left = [size for size in around if tried[size].asked < rule.most]
    if not left:
        return Step(None, End("undecided", (focus,), rule.most), focus=focus)
    size = min(left, key=lambda size: (tried[size].turn, size))
    pending = any(tried[num_envs].under_way for num_envs in around)
    return Step(size, waits=pending and tried[size].asked >= wanted, focus=focus)


def _by_law(tried: Mapping[int, Tried], delta: float) -> float:
    """Return where doublings stop paying by t_iter(N) = t0 + c N, at N = t0 (1 - delta) / (2 c delta). It holds for every horizon."""
    measured = [(size, size / fps) for size, tries in tried.items() for fps in tries.fps]
    sizes, seconds = np.array(measured).T
    (t0, per_env) = affine.solve(sizes, seconds[None])[0]
    return math.inf if per_env <= 0.0 else float(t0 / per_env) * (1.0 - delta) / (2.0 * delta)
