"""Throughput limit: from which num_envs on does doubling gain less than delta in frames per second?

Input: records of throughput trials. Output: one `ThroughputLimit` per (arm, horizon, batch_size). Pure.

The estimand is g(N) = FPS(2N) / FPS(N) - 1. FPS of a point is the geometric mean over its repeats. Each repeat is the median over the
timed iterations of one process, because noise between processes is larger than noise within one. `rule.union` decides the threshold from
g(N), and `rule.contrasts` compares within machines. The verdict uses only measured doublings; `Law` explains and extrapolates.
"""

import math
import statistics
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, compress
from typing import TypeVar

import numpy as np

from envknee.base.point import rollout_size
from envknee.record.schema import Record
from envknee.record.status import DOES_NOT_RUN, Status
from envknee.verdict.composed import Composition, compose
from envknee.verdict.disturbed import cores_of_others, other_load
from envknee.verdict.measurements import Measurements, joined
from envknee.verdict.rule import affine, doublings, union
from envknee.verdict.rule.contrasts import Contrast, by_block, independent, loads_by_block, within_blocks
from envknee.verdict.rule.looks import Looked, looked_at
from envknee.verdict.rule.schedule import ONCE, Schedule
from envknee.verdict.schema.throughput import InfeasiblePoint, Law, ThroughputLimit, ThroughputPoint
from envknee.verdict.series import ONE_GPU, Ranks, Series, series_of
from envknee.verdict.settings import Settings
from envknee.verdict.statistical_blocks import blocks_of

Value = TypeVar("Value")

Loads = Mapping[int, Sequence[float | None]]
"""num_envs -> cores that other processes took during each repeat; None where that is unknown."""

LeaveOut = Callable[[Sequence[Record]], Collection[int]]
"""Records of a series -> the numbers of those that do not count."""


def analyse(
    measured: Measurements, settings: Settings, schedule: Schedule = ONCE, leave_out: LeaveOut | None = None
) -> list[ThroughputLimit]:
    """Return the throughput limit of every measured series, of a study that is looked at by `schedule`.

    Every trial that was timed to its end counts. Only version 1 of asking has trials to `leave_out`, and takes the rest as undisturbed.
    """
    composed = {arm: compose(measured.of_arm(arm).records) for arm in measured.arms}
    repeats = chain.from_iterable(of_arm.used for of_arm in composed.values())
    grouped = joined(measured.throughput, repeats, "throughput")
    return [
        _limit(series, by_size, settings, composed[series.arm], schedule, leave_out)
        for series, by_size in grouped.items()
    ]


def measured_fps(records: Sequence[Record]) -> list[float]:
    """Return the FPS of each record that was timed to its end: the median over its timed iterations."""
    return [record.fps_total.median for record in records if record.outcome.status == "ok" and record.fps_total]


def decision_of(
    fps: Mapping[int, Sequence[float]],
    delta: float,
    confidence: float,
    step: float = 0.0,
    blocks: Mapping[int, Sequence[Hashable]] | None = None,
    confirms: Mapping[int, Sequence[bool]] | None = None,
    margins: Mapping[int, float] | None = None,
    *,
    repeats: Mapping[int, Sequence[int]] | None = None,
    schedule: Schedule = ONCE,
    loads: Loads | None = None,
) -> union.Decision:
    """Decide from repeats of FPS by num_envs, each above 0. Works without records.

    Doublings with two or more confirmatory repeats at both ends have their gain from these. `repeats` has the number of each repeat, from
    0 on (None: its place in the list). Other arguments are as in `limit_of`.
    """
    seen = looks_at(fps, step, blocks, margins, repeats=repeats, schedule=schedule, loads=loads)
    decision = union.decide(seen, fps, math.log1p(delta), confidence, schedule)
    if confirms is None:
        return decision
    fresh = _only(fps, confirms)
    of_fresh = None if blocks is None else _only(blocks, confirms)
    loads_of_fresh = None if loads is None else _only(loads, confirms)
    return union.retold(decision, _contrasts(fresh, 0.0, of_fresh, loads_of_fresh), confidence)


def looks_at(
    fps: Mapping[int, Sequence[float]],
    step: float = 0.0,
    blocks: Mapping[int, Sequence[Hashable]] | None = None,
    margins: Mapping[int, float] | None = None,
    *,
    repeats: Mapping[int, Sequence[int]] | None = None,
    schedule: Schedule = ONCE,
    loads: Loads | None = None,
) -> list[Looked]:
    """Return each doubling with all looks at it; arguments are as in `decision_of`."""
    numbers = repeats or {size: range(len(values)) for size, values in fps.items()}

    def contrasts_before(repeat: float) -> list[Contrast]:
        known = {size: [number < repeat for number in of_size] for size, of_size in numbers.items()}
        values = _only(fps, known)
        of_values = None if blocks is None else _only(blocks, known)
        loads_of_values = None if loads is None else _only(loads, known)
        contrasts = _contrasts(values, step, of_values, loads_of_values)
        return [_with_margin(contrast, margins or {}) for contrast in contrasts]

    return looked_at(schedule, {size: set(of_size) for size, of_size in numbers.items()}, contrasts_before)


def _only(by_size: Mapping[int, Sequence[Value]], counts: Mapping[int, Sequence[bool]]) -> dict[int, list[Value]]:
    """Return what counts of each num_envs, without those of which nothing does."""
    counted = {size: list(compress(values, counts[size])) for size, values in by_size.items()}
    return {size: values for size, values in counted.items() if values}


def _with_margin(contrast: Contrast, margins: Mapping[int, float]) -> Contrast:
    ends = (contrast.num_envs, 2 * contrast.num_envs)
    return replace(contrast, margin=max(margins.get(size, 0.0) for size in ends))


def _contrasts(
    fps: Mapping[int, Sequence[float]],
    step: float,
    blocks: Mapping[int, Sequence[Hashable]] | None,
    loads: Loads | None,
) -> list[Contrast]:
    logs = {size: by_block(values, blocks[size] if blocks else None) for size, values in sorted(fps.items())}

    def loads_of(size: int) -> dict[Hashable, list[float]] | None:
        known = [] if loads is None else [load for load in loads[size] if load is not None]
        if len(known) < len(fps[size]):
            return None
        return loads_by_block(known, blocks[size] if blocks else None)

    def contrast(size: int) -> Contrast:
        smaller, larger = loads_of(size), loads_of(2 * size)
        both = None if smaller is None or larger is None else (smaller, larger)
        return within_blocks(size, logs[size], logs[2 * size], step, both)

    return [contrast(size) for size in logs if 2 * size in logs]


def limit_of(
    series: Series,
    fps: Mapping[int, Sequence[float]],
    statuses: Mapping[int, Counter[Status]],
    settings: Settings,
    *,
    ranks: Ranks = ONE_GPU,
    step: float = 0.0,
    blocks: Mapping[int, Sequence[Hashable]] | None = None,
    confirms: Mapping[int, Sequence[bool]] | None = None,
    margins: Mapping[int, float] | None = None,
    repeats: Mapping[int, Sequence[int]] | None = None,
    schedule: Schedule = ONCE,
    loads: Loads | None = None,
) -> ThroughputLimit:
    """Return the limit of one series from plain numbers. Works without records.

    `fps` has one FPS per repeat that was timed to its end, by ascending num_envs (per rank), and `step` is the step to which each is
    rounded. `blocks` has the block of each repeat, a `Process` or a machine (None: one machine), and `confirms` whether it is
    confirmatory (None: none is). `statuses` counts how trials ended, by num_envs; "ok" need not be counted. `margins` has what ln(FPS)
    may be off by in all repeats alike, by num_envs (None: nothing); of a doubling's ends the larger counts. `repeats` has the number of
    each repeat, from 0 on (None: its place in the list), and `schedule` says after which of them the study may be looked at. `loads` has
    the cores that other processes took during each repeat.
    """
    decision = decision_of(
        fps, settings.delta, settings.confidence, step, blocks, confirms, margins,
        repeats=repeats, schedule=schedule, loads=loads,
    )  # fmt: skip
    independent_fps = {n: independent(values, blocks[n]) if blocks else list(values) for n, values in fps.items()}
    failed = Counter({n: sum(ended[status] for status in DOES_NOT_RUN) for n, ended in statuses.items()})
    infeasible = [
        InfeasiblePoint(num_envs=n, oom=ended["oom"], refused=ended["refused"], crashed=ended["crashed"])
        for n, ended in statuses.items()
        if failed[n] and n not in fps
    ]
    every = sum(statuses.values(), Counter[Status]())
    not_counted = {status: every[status] for status in sorted(every) if status not in ("ok", *DOES_NOT_RUN)}
    return ThroughputLimit.of(
        series, decision, fps, settings.delta, settings.confidence, doublings.expm1, ranks, schedule.when,
        points=[_point(n, values, independent_fps[n], failed[n], settings.confidence, step) for n, values in fps.items()],
        infeasible=infeasible,
        law=fit_law(independent_fps, series.horizon, settings.confidence, ranks.world_size),
        not_counted=not_counted,
    )  # fmt: skip


def fit_law(fps: Mapping[int, Sequence[float]], horizon: int, confidence: float, world_size: int = 1) -> Law | None:
    """Fit t_iter(N) = t0 + c N to the iteration times ranks x N x horizon / FPS; None with fewer than three num_envs."""
    if len(fps) < affine.LEAST_SIZES:
        return None
    steps_per_env = world_size * horizon
    line = affine.fit(
        {n: [rollout_size(n, steps_per_env) / value for value in sorted(values)] for n, values in sorted(fps.items())},
        confidence,
    )
    t0, slope = line.fixed, line.slope
    points = {num_envs: statistics.geometric_mean(values) for num_envs, values in fps.items()}
    error = max(abs(line.at(n) / (rollout_size(n, steps_per_env) / value) - 1.0) for n, value in points.items())
    with np.errstate(divide="ignore"):
        asymptotes = steps_per_env / line.draws[:, 1]
    of_asymptote, of_half = (affine.interval(values, confidence) for values in (asymptotes, line.ratio_draws))
    saturates = slope > 0.0
    return Law(
        t0_s=t0, s_per_env=slope,
        asymptote_fps=steps_per_env / slope if saturates else None,
        asymptote_fps_lower=of_asymptote[0], asymptote_fps_upper=of_asymptote[1],
        half_saturation_num_envs=t0 / slope if saturates else None,
        half_saturation_num_envs_lower=of_half[0], half_saturation_num_envs_upper=of_half[1],
        largest_relative_error=error, used=error <= affine.ERROR_LIMIT, num_envs=sorted(fps), trials=sum(map(len, fps.values())),
    )  # fmt: skip


def _limit(
    series: Series,
    by_size: Mapping[int, Sequence[Record]],
    settings: Settings,
    composition: Composition,
    schedule: Schedule,
    leave_out: LeaveOut | None,
) -> ThroughputLimit:
    every = list(chain.from_iterable(by_size.values()))
    out: Collection[int] = leave_out(every) if leave_out else ()
    counting = {
        size: [record for record in group if record.request.number not in out] for size, group in by_size.items()
    }
    statuses = {size: Counter[Status](record.outcome.status for record in group) for size, group in counting.items()}
    timed_of_size = {size: [record for record in group if measured_fps([record])] for size, group in counting.items()}
    timed = {size: group for size, group in timed_of_size.items() if group}
    composed = Counter(record.request.num_envs for record in composition.records if series_of(record) == series)
    counted = composed if composition.used else Counter[int]()
    limit = limit_of(
        series, {size: measured_fps(group) for size, group in timed.items()}, statuses, settings,
        ranks=Ranks.of(every[0].request), blocks=blocks_of(timed),
        confirms={size: [record.request.confirms for record in group] for size, group in timed.items()},
        margins=dict.fromkeys(counted, composition.margin),
        repeats={size: [record.request.repeat for record in group] for size, group in timed.items()}, schedule=schedule,
        loads=None if leave_out else {size: [cores_of_others(record) for record in group] for size, group in timed.items()},
    )  # fmt: skip
    points = [point.model_copy(update={"composed": counted[point.num_envs]}) for point in limit.points]
    load = other_load(list(chain.from_iterable(timed.values())))
    return limit.model_copy(update={"points": points, "composed": composition.at(composed.keys()), "other_load": load})


def _point(
    num_envs: int,
    fps: Sequence[float],
    independent_fps: Sequence[float],
    failed: int,
    confidence: float,
    step: float,
) -> ThroughputPoint:
    """Return one point; `independent_fps` has one value for each process."""
    level = doublings.Level.of(independent_fps, step)
    lower, upper = doublings.interval(level.log_value, level.variance, level.repeats - 1, confidence)
    return ThroughputPoint(
        num_envs=num_envs,
        fps=math.exp(level.log_value),
        fps_lower=lower,
        fps_upper=upper,
        fps_repeats=list(fps),
        independent_repeats=len(independent_fps),
        failed=failed,
    )
