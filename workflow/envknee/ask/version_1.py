"""Version 1 of asking: the stopping rules and texts of studies that were begun with it. Only they use this file, to verify and to go on.

Requests must come out as they were written, byte for byte: change nothing here that changes an answer. Rules of later versions are in
the other modules of `envknee.ask`. These are shared by all versions: which points a sampler of `samplers/points` chooses, what
decides a refusal (`refusals`), and the functions of `verdict` that are imported here. Whoever changes one of those first copies to
this file how it was; `envknee replay --verify` of the published studies shows whether it is the same.
"""

import itertools
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from envknee.ask.question import Choice, NotRun, Question
from envknee.ask.refusals import MEMORY_MARGIN
from envknee.base.fields import Kind
from envknee.base.parts import FURTHEST, Parts, parts_of
from envknee.base.point import Point
from envknee.record.reasons import FailedBefore, PredictedTooLarge, RefusalReason, RolloutTooLarge
from envknee.record.schema import Record, Request
from envknee.study import space
from envknee.study.model import Decide
from envknee.study.sweep import Adaptive, UntilDecided
from envknee.verdict import learning, learning_cost, noise, throughput
from envknee.verdict.composed import compose
from envknee.verdict.learning_cost import Seeds, cost, seconds_of
from envknee.verdict.measurements import Measurements, measurements_of
from envknee.verdict.noise import measured_cv
from envknee.verdict.rule import affine
from envknee.verdict.rule.schedule import LEAST_REPEATS
from envknee.verdict.rule.union import Decision, Tested
from envknee.verdict.schema.throughput import ThroughputLimit
from envknee.verdict.series import Series, by_series

LOOKS = (3, 5, 8, 13)
"""Numbers of repeats after which a section, or a size in `sampler: adaptive`, may count as decided."""

DECIDED = "decided after"

FAR_MORE_CORES = 0.5
"""A trial does not count if other processes used this many more cores than during the median trial of its series."""

CONFIDENCE = 0.95
"""Of the intervals by which `skip_decided` compares seeds."""

CLOSE = 1.05
"""The memory limit is known well enough when a num_envs that fits and one that does not are at most this factor apart."""


def not_run(question: Question, point: Point) -> NotRun:
    """Return why a trial at `point` is not run."""
    if skip := why(question, point):
        return NotRun(skip=skip)
    if refusal := question.memory.refusal(point):
        return NotRun(refusal=text_of(refusal))
    if getattr(question.sweep, "skip_decided", False):
        return NotRun(skip=slower(question.slot.arm, point, question.records.values()))
    return NotRun()


def text_of(refusal: RefusalReason) -> str:
    """Return a refusal's text."""
    match refusal:
        case RolloutTooLarge():
            return (
                f"The observations of one rollout of {refusal.num_envs} x {refusal.horizon} take {refusal.needed_gb:.4g} GB"
                f" (measured: {refusal.measured_gb:.4g} GB at {refusal.measured_num_envs} x {refusal.measured_horizon}), and"
                f" {refusal.usable_gb:.4g} GB can be used ({1 - MEMORY_MARGIN:.0%} of the device's {refusal.device_gb:.4g} GB)."
            )
        case FailedBefore():
            return (
                f"{refusal.trials} trials ran out of memory at no larger a point: the smallest at num_envs"
                f" {refusal.smallest_num_envs}, horizon {refusal.smallest_horizon}."
            )
        case PredictedTooLarge():
            return (
                f"The memory model of {refusal.trials} trials (largest error {refusal.largest_error_gb:.2g} GB) says"
                f" {refusal.predicted_gb:.4g} GB at {refusal.num_envs} x {refusal.horizon}, and the device has"
                f" {refusal.device_gb:.4g} GB."
            )


# When repeats are enough


def why(question: Question, point: Point) -> str | None:
    """Return why a trial at `point` is not needed, or None."""
    sweep, slot = question.sweep, question.slot
    # A decision stays: a look uses the first repeats only, which later records do not change.
    skips = (asked.skip for asked in question.asked)
    if decided := next((skip for skip in skips if isinstance(skip, str) and skip.startswith(DECIDED)), None):
        return decided
    if _always_runs(question):
        return None
    own = question.results
    if sweep.until_decided and (look := decided_at(own, question, sweep.until_decided)):
        return f"{DECIDED} {look} repeats"
    rule = sweep.until_decided if slot.kind == "throughput" and slot.repeat else None
    composed, tests = following(question, own) if question.composes else ({}, set())
    follow = composed.keys() - tests
    clear = _clear(own, rule) - tests if rule else set()
    # A part of a point that is not clear is needed, too.
    clear -= {part for other, parts in composed.items() if other not in clear for part in parts.points}
    # The first repeat is always measured, and so are more_repeats: their user has seen how long a repeat takes. Earlier repeats
    # alone say whether there is time, so that a repeat is measured whole or not at all.
    if sweep.time_limit_s is not None and 0 < slot.repeat < sweep.repeats:
        measured = [r for r in own if r.request.repeat < slot.repeat and r.outcome.status != "skipped"]
        spent_s = sum(record.outcome.total_s for record in measured)
        first = {other for other in question.points if question.composes and not _is_far(other, question.points)}
        if measured and spent_s + _expected_s(measured, clear | follow, first) > sweep.time_limit_s:
            repeats = len({record.request.repeat for record in measured})
            return f"time_limit_s {sweep.time_limit_s:g}: {repeats} repeats took {spent_s:.0f} s, and another would take too long"
        if slot.again:
            return "with time_limit_s the first repeat alone measures a point again"
    if point in clear:
        return "its doublings clearly gain more than delta: no repeat of it would change the verdict"
    if point in follow:
        parts = composed[point]
        learns = " and ".join(f"{part.num_envs}" for part in parts.learns)
        steps, horizon = parts.collects.num_envs, parts.collects.horizon
        return f"composed of {steps} environments' steps and {learns} environments' learning at horizon {horizon}"
    if question.composes and not own and _is_far(point, question.points):
        return f"its rollout is over {FURTHEST:g} times any at the smallest horizon: measured once the memory of others is known"
    return None


def _always_runs(question: Question) -> bool:
    """Tell whether a section has no rule by which a trial may be needless, so that no record need be read."""
    sweep = question.sweep
    return not (sweep.until_decided or sweep.time_limit_s is not None or question.composes)


def following(question: Question, records: Sequence[Record]) -> tuple[dict[Point, Parts], Set[Point]]:
    """Return the points that are composed in this repeat, with their parts, and those of them that test the law and are measured, too.

    A point is measured if a part of it, or another point with its rollout, could not be. Two kinds of points are measured until they have
    tested the law: of each rollout larger than any at the smallest horizon the one with most environments, and one of each other horizon.
    A point whose test was too far off is tested again. If the law does not hold, no point is composed.
    """
    composition = compose(records)
    if composition.missed:
        return {}, set()
    statuses = {record.request.point: record.outcome.status for record in records if not record.request.skip}
    bad = {point for point, status in statuses.items() if status != "ok"}
    too_large = {(point.rollout, point.batch_size) for point in bad}
    composed = {
        point: parts
        for point, parts in parts_of(question.points).items()
        if not parts.points & bad and (point.rollout, point.batch_size) not in too_large
    }
    groups: dict[tuple[bool, int, int | None], list[Point]] = {}
    for point, parts in composed.items():  # by ascending num_envs at each horizon
        size = point.rollout if parts.extrapolate else point.horizon
        groups.setdefault((parts.extrapolate, size, point.batch_size), []).append(point)
    tests = composition.doubted
    for (extrapolates, size, batch_size), group in sorted(groups.items(), key=lambda item: not item[0][0]):
        tested = {point for point in composition.tests.keys() | tests if point.batch_size == batch_size}
        if extrapolates and not tested & {*group}:
            tests.add(max(group))
        # Of a horizon the second largest: half the time, and as good a test. A larger rollout that is tested there will do.
        elif not extrapolates and size not in {point.horizon for point in tested}:
            tests.add(group[-2:][0])
    return composed, tests & composed.keys()


def _is_far(point: Point, points: Sequence[Point]) -> bool:
    smallest = min(point.horizon for point in points)
    return point.rollout > FURTHEST * max(own.rollout for own in points if own.horizon == smallest)


def decided_at(records: Sequence[Record], question: Question, rule: UntilDecided) -> int | None:
    """Return the first look at which every series was decided, or None."""
    known = {record.request.number for record in records}
    unfinished = {request.repeat for request in question.requests if request.number not in known}
    whole = min(unfinished | {1 + max((request.repeat for request in question.requests), default=-1)})
    decide = Decide(delta=rule.delta, delta_learning=rule.delta, confidence=rule.confidence)
    analyse = _throughput_limits if question.slot.kind == "throughput" else learning.analyse
    for look in itertools.takewhile(lambda look: look <= whole, LOOKS):
        limits = analyse(measurements_of([record for record in records if record.request.repeat < look]), decide)
        if all(limit.state != "undecided" for limit in limits):
            return look
    return None


def _throughput_limits(measured: Measurements, settings: Decide) -> list[ThroughputLimit]:
    """Return the limits by the rule of version 1: looked at once, without trials beside far more load than the others."""
    return throughput.analyse(measured, settings, leave_out=_disturbed)


def _disturbed(records: Sequence[Record]) -> set[int]:
    """Return the numbers of trials during which other processes used far more cores than during the rest."""
    busy = {record.request.number: record.metrics.get("others_cpu_percent") for record in records}
    cores = {number: spread.median / 100 for number, spread in busy.items() if spread is not None}
    usual = statistics.median(cores.values()) if cores else 0.0
    return {number for number, used in cores.items() if used > usual + FAR_MORE_CORES}


def _clear(records: Sequence[Record], rule: UntilDecided) -> set[Point]:
    """Return the points with doublings that all clearly gain more than delta, and of which none is the largest."""
    clear: set[Point] = set()
    on_cpu = any(r.outcome.environment and r.outcome.environment.device.type == "cpu" for r in records)
    for limit in _throughput_limits(measurements_of(records), Decide(delta=rule.delta, confidence=rule.confidence)):
        half = limit.law.half_saturation_num_envs if limit.law else None
        cvs = {
            measured.num_envs: (noise.CPU_CV if on_cpu else noise.assumed_cv(measured.num_envs, half))
            / math.sqrt(len(measured.fps_repeats))
            for measured in limit.points
        }
        gains_more = {
            gain.num_envs: gain is not limit.gains[-1]
            and noise.gain_interval(math.log1p(gain.gain), (cvs[gain.num_envs], cvs[gain.doubled]), rule.confidence)[0]
            > math.log1p(rule.delta)
            for gain in limit.gains
        }
        for size in cvs:
            doublings = [more for smaller, more in gains_more.items() if size in (smaller, 2 * smaller)]
            if doublings and all(doublings):
                clear.add(Point(size, limit.horizon, limit.batch_size))
    return clear


def _expected_s(records: Sequence[Record], clear: Set[Point], first: Set[Point] = frozenset()) -> float:
    """Return the expected seconds of another repeat without the clear points.

    A point takes its median. In blocks that is without the process's start, which is added for each block. A point of `first` that was
    not measured yet takes as long for each environment step as the one with as many environments at the smallest horizon.
    """
    seconds: dict[Point, list[float]] = {}
    begun: list[tuple[Point, float]] = []
    for record in records:
        request, total_s = record.request, record.outcome.total_s
        if request.block is not None and request.position == 0:
            begun.append((request.point, total_s))
        else:
            seconds.setdefault(request.point, []).append(total_s)
    starts_s = [total_s - statistics.median(seconds.get(point, [0.0])) for point, total_s in begun]
    blocks = len(begun) / len({record.request.repeat for record in records})
    start_s = blocks * statistics.fmean(starts_s) if starts_s else 0.0
    medians = {point: statistics.median(values) for point, values in seconds.items()}
    smallest = min((point.horizon for point in medians), default=1)
    for point in first - medians.keys():
        medians[point] = medians.get(Point(point.num_envs, smallest, point.batch_size), 0.0) * point.horizon / smallest
    return start_s + sum(taken_s for point, taken_s in medians.items() if point not in clear)


# Learning trials that would change nothing


def slower(arm: str, point: Point, records: Iterable[Record]) -> str | None:
    """Return why the next seed of a point would change nothing, or None."""
    learned = by_series((record for record in records if record.request.skip is None), "learning")
    seeds = {(series, size): seconds_of(group) for series, sizes in learned.items() for size, group in sizes.items()}
    seeds = {place: costs for place, costs in seeds.items() if costs.count >= LEAST_REPEATS}
    own = seeds.get((Series(arm, point.horizon, point.batch_size), point.num_envs))
    if own is None or (lower := _interval_s(own)[0]) is None:
        return None
    ends = {place: upper for place, costs in seeds.items() if (upper := _interval_s(costs)[1]) is not None}
    soonest = min(ends, key=lambda place: (ends[place], place), default=None)
    if soonest is None or lower <= ends[soonest]:
        return None
    series, num_envs = soonest
    return (
        f"decided: {own.count} seeds take at least {lower:.4g} s to the target, and arm {series.arm} at"
        f" {num_envs:,} environments at most {ends[soonest]:.4g} s ({CONFIDENCE:.0%} intervals)"
    )


def _interval_s(seeds: Seeds) -> tuple[float | None, float | None]:
    """Return the ends of the interval of the seconds to the target; None for an end that is unknown."""
    if seeds.censored:
        return None if seeds.reached else min(seeds.censored), None
    interval = cost(seeds, CONFIDENCE)
    return interval.interval_lower, interval.interval_upper


# sampler: adaptive


def looked(repeats: int) -> int:
    """Return how many of a size's repeats are used: those up to the latest of `LOOKS`, or all before the first."""
    return max((look for look in LOOKS if look <= repeats), default=repeats)


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

    @property
    def seen(self) -> Seeds:
        """Seconds of the seeds up to the latest look."""
        first = self.seeds[: looked(len(self.seeds))]
        return Seeds(tuple(s for s, reached in first if reached), tuple(s for s, reached in first if not reached))

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
    """Most repeats of a point: one of `LOOKS`."""

    @property
    def log_limit(self) -> float:
        """The gain, as the logarithm of a ratio, below which a doubling has stopped paying."""
        delta = self.settings.delta
        return math.log1p(delta) if self.kind == "throughput" else -math.log1p(-delta)

    def decide(self, tried: Mapping[int, Tried]) -> Decision:
        """Return what the latest looks at each size show."""
        delta, confidence = self.settings.delta, self.settings.confidence
        if self.kind == "throughput":
            fps = {size: tries.fps[: looked(len(tries.fps))] for size, tries in tried.items() if tries.fps}
            return throughput.decision_of(fps, delta, confidence)
        seeds = {size: tries.seen for size, tries in tried.items() if tries.known}
        return learning.decision_of(seeds, delta, confidence)


class Step(NamedTuple):
    """The next measurement of a series."""

    num_envs: int | None
    """None: nothing more."""
    why: str
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
    pairs = [size for size in sizes if 2 * size in tried]
    if not pairs:
        return Step(None, f"no two num_envs that fit are a doubling apart ({listed(sizes) or 'none fits'})")
    decision = rule.decide(tried)
    by_size = {doubling.num_envs: doubling for doubling in decision.doublings}
    lowest, highest = decision.lowest, decision.highest
    narrow = lowest is not None and highest is not None and highest <= rule.settings.within * lowest
    if rule.kind == "learning" and narrow:
        return Step(None, f"decided, the threshold lies between {lowest:,} and {highest:,} environments", focus=highest)
    focus = _focus(pairs, tried, by_size, rule, start)
    if focus is None:
        scouts = dict.fromkeys([sizes[len(sizes) // 4], sizes[(5 * len(sizes)) // 8], *sizes])
        unseen = [size for size in scouts if not tried[size].asked]
        if not unseen:
            return Step(None, "no two num_envs could be measured")
        # A third is needed only if one of the first two gives no measurement.
        return Step(unseen[0], "scout", waits=sum(tries.under_way + tries.known for tries in tried.values()) >= 2)
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
            return Step(None, f"decided, doubling still pays at {focus:,} environments, the last that can be doubled")
        return _fewest([focus, 2 * focus], tried, rule, focus)
    onward = [size for size in pairs if size >= focus]
    shown = [size for size in onward if size in by_size and by_size[size].shown_below]
    for first in onward:
        then = 2 * first
        if first in shown and (then in shown or then not in pairs):
            both = f"{first:,} and {then:,}" if then in pairs else f"{first:,}"
            why = f"decided, doubling {both} environments has stopped paying"
            fresh = None
            if rule.kind == "throughput" and (threshold := decision.threshold) is not None:
                size = min((threshold, 2 * threshold), key=lambda size: (tried[size].confirming, size))
                fresh = size if tried[size].confirming < rule.settings.confirm else None
            return Step(fresh, why, focus=focus, confirms=fresh is not None)
        tested, ends = (then, [then, 2 * then]) if first in shown else (first, [*before, first, 2 * first])
        if not _hopeless(by_size.get(tested), tried, rule):
            return _fewest(ends, tried, rule, focus)
    # A doubling that was shown, but not confirmed by the next one, gets all its repeats.
    why = f"undecided, more than {rule.most} repeats would be needed around {focus:,} environments"
    return _fewest([shown[0], 2 * shown[0]], tried, rule, focus) if shown else Step(None, why, focus=focus)


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
    cv = measured_cv(tries.fps or [s for s, reached in tries.seeds if reached] for tries in tried.values())
    if cv is None:
        return False
    bound = -float(stdtrit(2 * (rule.most - 1), (1.0 - rule.settings.confidence) / 2)) * cv * math.sqrt(2.0 / rule.most)
    return doubling.contrast.log_gain + bound > rule.log_limit


def _fewest(
    around: Sequence[int], tried: Mapping[int, Tried], rule: Rule, focus: int, wanted: int = LEAST_REPEATS
) -> Step:
    """Return a step at the size with the fewest requests. It can wait while results are under way and each size has the `wanted` ones."""
    size = min(around, key=lambda size: (tried[size].asked, size))
    if tried[size].asked >= rule.most:
        return Step(None, f"undecided at {focus:,} environments after {rule.most} repeats around it", focus=focus)
    pending = any(tried[num_envs].under_way for num_envs in around)
    return Step(size, f"around {focus:,}", waits=pending and tried[size].asked >= wanted, focus=focus)


def _by_law(tried: Mapping[int, Tried], delta: float) -> float:
    """Return where doublings stop paying by t_iter(N) = t0 + c N, at N = t0 (1 - delta) / (2 c delta). It holds for every horizon."""
    measured = [(size, size / fps) for size, tries in tried.items() for fps in tries.fps]
    sizes, seconds = np.array(measured).T
    (t0, per_env) = affine.solve(sizes, seconds[None])[0]
    return math.inf if per_env <= 0.0 else float(t0 / per_env) * (1.0 - delta) / (2.0 * delta)


def choose(question: Question) -> Choice:
    """Return the next trial, or why no further one is needed."""
    sweep, records = question.sweep, question.records
    rule = Rule(question.slot.kind, sweep.adaptive, looked(sweep.repeats))
    asked = [request for request in question.requests if request.skip is None]
    ends: list[str] = []
    waiting: Choice | None = None
    focus: int | None = None
    for (horizon, batch_size), series in _by_series(question.points).items():
        of_series = _asked_of((horizon, batch_size), asked)
        sizes = [point.num_envs for point in _that_fit(series, of_series, question)]
        tried = {size: Tried() for size in sizes}
        for request in of_series:
            if request.num_envs in tried:
                _note(tried[request.num_envs], request, records.get(request.number))
        step = next_step(sizes, tried, rule, focus)
        focus = step.focus or focus
        if (size := step.num_envs) is None:
            ends.append(f"horizon {horizon}, {shown_batch(batch_size)}: {step.why}")
            continue
        repeat = tried[size].asked + tried[size].confirming
        choice = Choice(Point(size, horizon, batch_size), repeat, None, confirms=step.confirms)
        if not step.waits:
            return choice
        waiting = waiting or choice
    if waiting is None and (probe := _probe(question, asked)) is not None:
        return Choice(probe, 0, None)
    return waiting or Choice(min(question.points), 0, "; ".join(ends))


def _by_series(points: Sequence[Point]) -> dict[tuple[int, int | None], list[Point]]:
    """Return (horizon, batch_size) -> its points by num_envs, all in ascending order."""
    ordered = sorted(points, key=lambda point: (point.horizon, point.batch_size or 0, point.num_envs))
    return {series: list(own) for series, own in groupby(ordered, attrgetter("horizon", "batch_size"))}


def _asked_of(series: tuple[int, int | None], asked: Sequence[Request]) -> list[Request]:
    return [r for r in asked if (r.point.horizon, r.point.batch_size) == series]


def _probe(question: Question, asked: Sequence[Request]) -> Point | None:
    """Return a point between the largest num_envs that fitted and the smallest that did not; None if none is needed.

    The first two lie 5% below and above the limit that the memory model predicts; others halve the rest.
    """
    sweep, records, memory = question.sweep, question.records, question.memory
    axis = set(space.axes(sweep)[0])
    for series, own in _by_series(question.points).items():
        of_series = _asked_of(series, asked)
        probes = [r for r in of_series if r.num_envs not in axis]
        known = {r.num_envs: records[r.number].outcome.status for r in of_series if r.number in records}
        fitted = max((size for size, status in known.items() if status != "oom"), default=None)
        if fitted is None or len(probes) >= sweep.adaptive.probes:
            continue
        refused = [p.num_envs for p in own if p.num_envs > fitted and memory.refusal(p) is not None]
        failed = min([*refused, *(size for size, status in known.items() if status == "oom")], default=None)
        if failed is None or failed <= CLOSE * fitted:
            continue
        wanted = [(fitted + failed) // 2]
        predicted = memory.prediction(Point(fitted, *series))
        if predicted is not None and (wall := predicted.largest_num_envs) is not None:
            wanted = [int(0.95 * wall), int(1.05 * wall), *wanted]
        step = min(axis)  # multiples of it are whole warps and divide into the listed batches
        for size in (place // step * step for place in wanted):
            probe = Point(size, *series)
            asked_for = any(request.num_envs == size for request in of_series)
            if fitted < size < failed and not asked_for and space.is_legal(probe, question.study.world_sizes):
                return probe
    return None


def _that_fit(series: Sequence[Point], asked: Sequence[Request], question: Question) -> list[Point]:
    """Return the points that may fit: below the first that ran out of memory, and not refused."""
    records, memory = question.records, question.memory
    failed = [r.num_envs for r in asked if r.number in records and records[r.number].outcome.status == "oom"]
    return [p for p in series if p.num_envs < min(failed, default=p.num_envs + 1) and memory.refusal(p) is None]


def _note(tried: Tried, request: Request, record: Record | None) -> None:
    if request.confirms:
        tried.confirming += 1
        return
    tried.asked += 1
    if record is None:
        tried.under_way += 1
    elif request.kind == "throughput":
        tried.fps += throughput.measured_fps([record])
    else:
        seeds = learning_cost.seconds_of([record])
        tried.seeds += [(seconds, True) for seconds in seeds.reached] + [(seconds, False) for seconds in seeds.censored]


def listed(sizes: Iterable[int]) -> str:
    """Return `128, 1,024`."""
    return ", ".join(f"{size:,}" for size in sizes)


def shown_batch(batch_size: int | None) -> str:
    """Return `batch 128`, or `library batch` for the library's own."""
    return "library batch" if batch_size is None else f"batch {batch_size:,}"
