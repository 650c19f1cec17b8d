"""Throughput limit: from which num_envs on does doubling gain less than delta in frames per second?

Input: records of throughput trials. Output: one `ThroughputLimit` per (arm, horizon, batch_size). Pure.

The estimand is g(N) = FPS(2N) / FPS(N) - 1. FPS of a point is the geometric mean over its repeats, each repeat being the
median over the timed iterations of one process: noise between processes is larger than noise within one. How g(N)
becomes a threshold stands in `doublings`. The verdict rests on measured doublings alone; `Law` explains and extrapolates.

Where several ranks train together, num_envs are those of each and FPS those of all.
"""

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from envknee.config import Decide
from envknee.limits import ONE_GPU, OfSeries, Ranks, Series, affine, by_series, doublings, listed, percent
from envknee.record import Frozen, Record
from envknee.space import rollout_size

Measure = Literal["fps_total", "fps_env_step_inference", "fps_env_step"]

LEAST_REPEATS = 2
"""With one repeat per point nothing tells a gain from noise: gains are shown, and none is decided on."""

METHOD = (
    "Welch t on ln FPS over repeats in separate processes; threshold: smallest tested num_envs whose doubling is shown to gain"
    " less than delta, Holm-corrected over all doublings; its interval: inverted Bonferroni band"
)


class ThroughputPoint(Frozen):
    """FPS at one num_envs."""

    num_envs: int
    fps: float
    """Geometric mean of the repeats, frames per second."""
    fps_lower: float | None
    """Two-sided interval of this point alone; None with one repeat."""
    fps_upper: float | None
    fps_repeats: list[float]
    """Each repeat's median over its timed iterations."""
    failed: int
    """Repeats of this point that ran out of memory or were refused."""


class InfeasiblePoint(Frozen):
    """A num_envs at which no repeat fitted the memory: a result, not a gap."""

    num_envs: int
    oom: int
    refused: int


class Gain(Frozen):
    """What doubling gains: 0.25 stands for 25% more FPS with twice the environments."""

    num_envs: int
    doubled: int
    repeats: int
    """Of that end which has fewer."""
    gain: float
    gain_lower: float | None
    """Two-sided interval of this doubling alone; None where either end has one repeat."""
    gain_upper: float | None
    gain_upper_one_sided: float | None
    p_value: float | None
    """Of a gain of at least delta, before the correction for the number of doublings."""
    p_holm: float | None
    """After it: shown to be below delta when at most 1 - confidence."""
    shown_below_delta: bool


class Law(Frozen):
    """t_iter(N) = t0 + c N: seconds of an iteration with N environments per rank; FPS = ranks x N x horizon / t_iter."""

    t0_s: float
    t0_s_lower: float | None
    t0_s_upper: float | None
    s_per_env: float
    s_per_env_lower: float | None
    s_per_env_upper: float | None
    asymptote_fps: float | None
    """ranks x horizon / c: what no number of environments exceeds; None when c is 0."""
    asymptote_fps_lower: float | None
    asymptote_fps_upper: float | None
    half_saturation_num_envs: float | None
    """t0 / c: where FPS is half the asymptote; None when c is 0."""
    half_saturation_num_envs_lower: float | None
    half_saturation_num_envs_upper: float | None
    largest_relative_error: float
    used: bool
    """False where the law misses a point by more than 10%: shown, but nothing rests on it."""
    num_envs: list[int]
    trials: int
    method: str = affine.METHOD


class ThroughputLimit(OfSeries):
    """The throughput limit of one series."""

    world_size: int = 1
    """Ranks that trained together: num_envs are those of each, FPS those of all."""
    measure: Measure
    delta: float
    confidence: float
    state: Literal["reached", "not reached", "no data"]
    threshold_num_envs: int | None
    threshold_lowest: int | None
    """The threshold's interval; None without any doubling."""
    threshold_highest: int | None
    """None: the measurements set no upper end."""
    not_reached_by: int | None
    """The largest num_envs measured, where the threshold is not reached: it may lie above, or not be shown yet."""
    resumes_at: list[int]
    """Later num_envs whose doubling was measured to gain more than delta again."""
    points: list[ThroughputPoint]
    infeasible: list[InfeasiblePoint]
    not_counted: dict[str, int]
    """Trials that ended with another status than ok, oom or refused, by status."""
    gains: list[Gain]
    law: Law | None
    """None with fewer than three different num_envs: two parameters would fit anything."""
    method: str
    notes: list[str]
    statement: str
    """The verdict in one sentence."""

    @property
    def unsure(self) -> Gain | None:
        """The first doubling that gains less than delta by its estimate, but is not shown to; None without one."""
        return next((gain for gain in self.gains if gain.gain < self.delta and not gain.shown_below_delta), None)

    @property
    def fewest_repeats(self) -> int:
        """Of all points, of which there must be one."""
        return min(len(point.fps_repeats) for point in self.points)

    def point(self, num_envs: int) -> ThroughputPoint:
        """Return the point at `num_envs`, which must have been measured."""
        return next(point for point in self.points if point.num_envs == num_envs)


def analyse(records: Sequence[Record], settings: Decide, measure: Measure = "fps_total") -> list[ThroughputLimit]:
    """Return the throughput limit of every series among `records`; the verdict rests on `fps_total`."""
    grouped = by_series(records, "throughput")
    return [_limit(series, by_size, settings, measure) for series, by_size in grouped.items()]


def measured_fps(records: Sequence[Record], measure: Measure = "fps_total") -> list[float]:
    """Return the FPS of each of `records` that was timed to its end: its median over the timed iterations."""
    return [_fps(record, measure) for record in records if record.outcome.status == "ok"]


def threshold(
    fps: Mapping[int, Sequence[float]], delta: float, confidence: float, step: float = 0.0
) -> doublings.Decision:
    """Decide from repeats of FPS by num_envs: the statistics of this module without its records.

    Args:
        fps: num_envs -> one FPS per repeat, each above 0
        delta: a doubling that gains less has stopped paying
        confidence: of each interval, and of the decision as a whole
        step: to a multiple of which every FPS is rounded
    """
    levels = [doublings.Level.of(num_envs, values, step) for num_envs, values in fps.items()]
    return doublings.decide(levels, math.log1p(delta), confidence, LEAST_REPEATS)


def limit_of(
    series: Series,
    fps: Mapping[int, Sequence[float]],
    failures: Mapping[int, Counter[str]],
    settings: Decide,
    *,
    not_counted: Mapping[str, int] | None = None,
    ranks: Ranks = ONE_GPU,
    measure: Measure = "fps_total",
    step: float = 0.0,
) -> ThroughputLimit:
    """Return the limit of one series from plain numbers: what `analyse` does without its records.

    Args:
        series: what they were measured at
        fps: num_envs -> one FPS per repeat that was timed to its end, num_envs ascending
        failures: num_envs -> how many repeats ended as "oom" and "refused"
        settings: delta and confidence
        not_counted: trials that ended otherwise, by status
        ranks: that trained together; num_envs are those of each
        measure: which FPS these are
        step: to a multiple of which every FPS is rounded
    """
    decision = threshold(fps, settings.delta, settings.confidence, step)
    not_counted = dict(sorted((not_counted or {}).items()))
    infeasible = [
        InfeasiblePoint(num_envs=num_envs, oom=failed["oom"], refused=failed["refused"])
        for num_envs, failed in failures.items()
        if failed.total() and num_envs not in fps
    ]
    not_reached_by = max(fps, default=None) if decision.threshold is None else None
    return ThroughputLimit(
        arm=series.arm,
        horizon=series.horizon,
        batch_size=series.batch_size,
        world_size=ranks.world_size,
        measure=measure,
        delta=settings.delta,
        confidence=settings.confidence,
        state="no data" if not fps else "not reached" if decision.threshold is None else "reached",
        threshold_num_envs=decision.threshold,
        threshold_lowest=decision.lowest,
        threshold_highest=decision.highest,
        not_reached_by=not_reached_by,
        resumes_at=list(decision.resumes_at),
        points=[
            _point(num_envs, values, failures.get(num_envs, Counter()).total(), settings.confidence, step)
            for num_envs, values in fps.items()
        ],
        infeasible=infeasible,
        not_counted=not_counted,
        gains=[_gain(doubling) for doubling in decision.doublings],
        law=fit_law(fps, series.horizon, settings.confidence, ranks.world_size),
        method=METHOD,
        notes=_notes(fps, decision, infeasible, not_counted, ranks, settings),
        statement=_statement(fps, decision, ranks, settings),
    )


def fit_law(fps: Mapping[int, Sequence[float]], horizon: int, confidence: float, world_size: int = 1) -> Law | None:
    """Fit t_iter(N) = t0 + c N to the iteration times ranks x N x horizon / FPS; None with fewer than three num_envs."""
    if len(fps) < 3:
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
    drawn = (line.draws[:, 0], line.draws[:, 1], asymptotes, line.ratio_draws)
    bounds = [affine.interval(values, confidence) for values in drawn]
    saturates = slope > 0.0
    return Law(
        t0_s=t0, t0_s_lower=bounds[0][0], t0_s_upper=bounds[0][1],
        s_per_env=slope, s_per_env_lower=bounds[1][0], s_per_env_upper=bounds[1][1],
        asymptote_fps=steps_per_env / slope if saturates else None,
        asymptote_fps_lower=bounds[2][0], asymptote_fps_upper=bounds[2][1],
        half_saturation_num_envs=t0 / slope if saturates else None,
        half_saturation_num_envs_lower=bounds[3][0], half_saturation_num_envs_upper=bounds[3][1],
        largest_relative_error=error, used=error <= affine.ERROR_LIMIT, num_envs=sorted(fps), trials=sum(map(len, fps.values())),
    )  # fmt: skip


def _limit(
    series: Series, by_size: Mapping[int, Sequence[Record]], settings: Decide, measure: Measure
) -> ThroughputLimit:
    fps: dict[int, list[float]] = {}
    failures: dict[int, Counter[str]] = {}
    not_counted: Counter[str] = Counter()
    for num_envs, records in by_size.items():
        statuses = Counter(record.outcome.status for record in records)
        failures[num_envs] = Counter({status: statuses[status] for status in ("oom", "refused")})
        not_counted.update({status: n for status, n in statuses.items() if status not in ("ok", "oom", "refused")})
        values = measured_fps(records, measure)
        if values:
            fps[num_envs] = values
    ranks = Ranks.of(next(iter(by_size.values()))[0].request)
    return limit_of(series, fps, failures, settings, not_counted=not_counted, ranks=ranks, measure=measure)


def _fps(record: Record, measure: Measure) -> float:
    spread = getattr(record, measure)
    assert spread is not None, f"trial {record.request.number} has status ok but no {measure}"
    return spread.median


def _point(num_envs: int, fps: Sequence[float], failed: int, confidence: float, step: float) -> ThroughputPoint:
    level = doublings.Level.of(num_envs, fps, step)
    lower = upper = None
    if level.variance is not None:
        width = doublings.half_width(level.variance, level.repeats - 1, (1.0 - confidence) / 2)
        lower, upper = math.exp(level.log_value - width), math.exp(level.log_value + width)
    return ThroughputPoint(
        num_envs=num_envs,
        fps=math.exp(level.log_value),
        fps_lower=lower,
        fps_upper=upper,
        fps_repeats=list(fps),
        failed=failed,
    )


def _gain(doubling: doublings.Doubling) -> Gain:
    def share(log_gain: float | None) -> float | None:
        return None if log_gain is None else doublings.expm1(log_gain)

    return Gain(
        num_envs=doubling.num_envs,
        doubled=2 * doubling.num_envs,
        repeats=doubling.repeats,
        gain=math.expm1(doubling.log_gain),
        gain_lower=share(doubling.lower),
        gain_upper=share(doubling.upper),
        gain_upper_one_sided=share(doubling.upper_one_sided),
        p_value=doubling.p_value,
        p_holm=doubling.p_holm,
        shown_below_delta=doubling.shown_below,
    )


def _notes(
    fps: Mapping[int, Sequence[float]],
    decision: doublings.Decision,
    infeasible: Sequence[InfeasiblePoint],
    not_counted: Mapping[str, int],
    ranks: Ranks,
    settings: Decide,
) -> list[str]:
    """Return what a reader must know beside the verdict, a sentence each."""
    notes = []
    single = [num_envs for num_envs, values in fps.items() if len(values) == 1]
    if single and len(single) == len(fps):
        notes.append(
            "one repeat per point: gains are shown, but nothing tells them from noise, so no threshold is decided"
        )
    elif single:
        notes.append(f"one repeat at {listed(single)}: doublings from or to there decide nothing")
    if fps and not decision.doublings:
        notes.append(_why_no_doubling(fps))
    else:
        unpaired = [n for n in fps if 2 * n not in fps and (n % 2 or n // 2 not in fps)]
        if unpaired:
            notes.append(f"{listed(unpaired)} environments: measured, but neither half nor double was; in no doubling")
    if decision.resumes_at:
        gains = {doubling.num_envs: math.expm1(doubling.log_gain) for doubling in decision.doublings}
        again = ", ".join(f"{n:,} to {2 * n:,} gains {percent(gains[n])}" for n in decision.resumes_at)
        notes.append(f"not the end: {again}, more than delta ({settings.delta:.0%}) again")
    if infeasible:
        notes.append(
            f"infeasible (out of memory or refused): {listed(point.num_envs for point in infeasible)} environments{ranks.each}"
        )
    if not_counted:
        notes.append("not counted: " + ", ".join(f"{count} {status}" for status, count in not_counted.items()))
    return notes


def _why_no_doubling(fps: Mapping[int, Sequence[float]]) -> str:
    if len(fps) == 1:
        return f"one point ({listed(fps)} environments): a doubling needs two"
    return f"no measured num_envs is twice another ({listed(fps)}): no doubling to compare; list N, 2N, 4N, ..."


def _statement(fps: Mapping[int, Sequence[float]], decision: doublings.Decision, ranks: Ranks, settings: Decide) -> str:
    if not fps:
        return "no data: no throughput trial was timed to its end"
    if not decision.doublings:
        return f"not reached by {max(fps):,} environments{ranks.each}; {_why_no_doubling(fps)}"
    shown = next((d for d in decision.doublings if d.num_envs == decision.threshold), decision.doublings[-1])
    gain = percent(math.expm1(shown.log_gain))
    bound = "" if shown.upper_one_sided is None else f"upper bound {percent(doublings.expm1(shown.upper_one_sided))}, "
    evidence = f"({bound}{'one repeat' if shown.repeats == 1 else f'{shown.repeats} repeats'})"
    if decision.threshold is None:
        return (
            f"not reached by {max(fps):,} environments{ranks.each}; the last doubling, {shown.num_envs:,} to {2 * shown.num_envs:,},"
            f" gains {gain} {evidence}"
        )
    return (
        f"reached at {shown.num_envs:,} environments{ranks.each}: doubling to {2 * shown.num_envs:,} gains {gain} {evidence},"
        f" less than {settings.delta:.0%}"
    )
