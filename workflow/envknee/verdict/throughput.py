"""Throughput limit: from which num_envs on does doubling gain less than delta in frames per second?

Input: records of throughput trials. Output: one `ThroughputLimit` per (arm, horizon, batch_size). Pure.

The estimand is g(N) = FPS(2N) / FPS(N) - 1. FPS of a point is the geometric mean over its repeats, each repeat being the
median over the timed iterations of one process: noise between processes is larger than noise within one. How
g(N) becomes a threshold stands in `rule.union`, and how machines are kept apart in `rule.contrasts`.
The verdict rests on measured doublings alone; `Law` explains and extrapolates.

Where several ranks train together, num_envs are those of each and FPS those of all.
"""

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence

from envknee.record.schema import Record
from envknee.record.status import DID_NOT_FIT
from envknee.study.model import Decide
from envknee.verdict.blocks import machine_blocks
from envknee.verdict.rule import doublings, union
from envknee.verdict.rule.contrasts import within_blocks
from envknee.verdict.schema.throughput import Gain, InfeasiblePoint, Measure, ThroughputLimit, ThroughputPoint
from envknee.verdict.series import ONE_GPU, Ranks, Series, by_series
from envknee.verdict.throughput_law import fit_law
from envknee.verdict.words.throughput import throughput_notes, throughput_statement

LEAST_REPEATS = 2
"""Of `threshold`, by which `sampler: adaptive` chooses trials; the verdict asks for `union.LEAST_REPEATS`."""

METHOD = (
    "Welch t on ln FPS over repeats in separate processes, within machines; threshold: smallest tested num_envs whose doubling is shown"
    " to gain less than delta, by a fixed sequence from the largest doubling down or by Holm, each at half of 1 - confidence; still pays:"
    " one-sided lower bound of the largest doubling; the threshold's interval: inverted Bonferroni band"
)


def analyse(records: Sequence[Record], settings: Decide, measure: Measure = "fps_total") -> list[ThroughputLimit]:
    """Return the throughput limit of every series among `records`; the verdict rests on `fps_total`."""
    grouped = by_series(records, "throughput")
    return [_limit(series, by_size, settings, measure) for series, by_size in grouped.items()]


def measured_fps(records: Sequence[Record], measure: Measure = "fps_total") -> list[float]:
    """Return the FPS of each of `records` that was timed to its end: its median over the timed iterations."""
    return [_fps(record, measure) for record in records if _is_timed(record, measure)]


def threshold(
    fps: Mapping[int, Sequence[float]], delta: float, confidence: float, step: float = 0.0
) -> doublings.Decision:
    """Decide from repeats of FPS by num_envs with Holm's correction alone: what `sampler: adaptive` looks at.

    Args:
        fps: num_envs -> one FPS per repeat, each above 0
        delta: a doubling that gains less has stopped paying
        confidence: of each interval, and of the decision as a whole
        step: to a multiple of which every FPS is rounded
    """
    levels = [doublings.Level.of(num_envs, values, step) for num_envs, values in fps.items()]
    return doublings.decide(levels, math.log1p(delta), confidence, LEAST_REPEATS)


def decision_of(
    fps: Mapping[int, Sequence[float]],
    delta: float,
    confidence: float,
    step: float = 0.0,
    blocks: Mapping[int, Sequence[Hashable]] | None = None,
) -> union.Decision:
    """Decide from repeats of FPS by num_envs: the statistics of this module without its records.

    Args:
        fps: num_envs -> one FPS per repeat, each above 0
        delta: a doubling that gains less has stopped paying
        confidence: of each interval, and of the decision as a whole
        step: to a multiple of which every FPS is rounded
        blocks: num_envs -> the machine (or process) of each repeat; without it all are of one
    """
    logs: dict[int, dict[Hashable, list[float]]] = {}
    for num_envs, values in sorted(fps.items()):
        of_size = logs.setdefault(num_envs, {})
        for value, block in zip(values, (blocks or {}).get(num_envs, [None] * len(values)), strict=True):
            of_size.setdefault(block, []).append(math.log(value))
    contrasts = [within_blocks(size, logs[size], logs[2 * size], step) for size in logs if 2 * size in logs]
    return union.decide(contrasts, logs, math.log1p(delta), confidence)


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
    blocks: Mapping[int, Sequence[Hashable]] | None = None,
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
        blocks: num_envs -> the machine of each repeat; without it all are of one
    """
    decision = decision_of(fps, settings.delta, settings.confidence, step, blocks)
    not_counted = dict(sorted((not_counted or {}).items()))
    infeasible = [
        InfeasiblePoint(num_envs=num_envs, oom=failed["oom"], refused=failed["refused"])
        for num_envs, failed in failures.items()
        if failed.total() and num_envs not in fps
    ]
    return ThroughputLimit(
        arm=series.arm,
        horizon=series.horizon,
        batch_size=series.batch_size,
        world_size=ranks.world_size,
        measure=measure,
        delta=settings.delta,
        confidence=settings.confidence,
        state=decision.state if fps else "no data",
        threshold_num_envs=decision.threshold,
        threshold_lowest=decision.lowest,
        threshold_highest=decision.highest,
        largest_num_envs=max(fps, default=None),
        still_gains=None if decision.still_pays is None else doublings.expm1(decision.still_pays),
        more_repeats=decision.more_repeats,
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
        notes=throughput_notes(fps, decision, infeasible, not_counted, ranks, settings),
        statement=throughput_statement(fps, decision, ranks, settings),
    )


def _limit(
    series: Series, by_size: Mapping[int, Sequence[Record]], settings: Decide, measure: Measure
) -> ThroughputLimit:
    fps: dict[int, list[float]] = {}
    timed: dict[int, list[Record]] = {}
    failures: dict[int, Counter[str]] = {}
    not_counted: Counter[str] = Counter()
    for num_envs, records in by_size.items():
        statuses = Counter(record.outcome.status for record in records)
        failures[num_envs] = Counter({status: statuses[status] for status in DID_NOT_FIT})
        not_counted.update({status: n for status, n in statuses.items() if status not in ("ok", *DID_NOT_FIT)})
        values = measured_fps(records, measure)
        if values:
            fps[num_envs] = values
            timed[num_envs] = [record for record in records if _is_timed(record, measure)]
    ranks = Ranks.of(next(iter(by_size.values()))[0].request)
    return limit_of(
        series, fps, failures, settings,
        not_counted=not_counted, ranks=ranks, measure=measure, blocks=machine_blocks(timed),
    )  # fmt: skip


def _is_timed(record: Record, measure: Measure) -> bool:
    """Tell whether a trial was timed to its end. A foreign command may not tell how its time is shared out."""
    is_told = record.request.command is None or getattr(record, measure) is not None
    return record.outcome.status == "ok" and is_told


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


def _gain(doubling: union.Tested) -> Gain:
    def share(log_gain: float | None) -> float | None:
        return None if log_gain is None else doublings.expm1(log_gain)

    return Gain(
        num_envs=doubling.num_envs,
        doubled=2 * doubling.num_envs,
        repeats=doubling.contrast.repeats,
        gain=math.expm1(doubling.contrast.log_gain),
        gain_lower=share(doubling.lower),
        gain_upper=share(doubling.upper),
        gain_lower_one_sided=share(doubling.lower_one_sided),
        gain_upper_one_sided=share(doubling.upper_one_sided),
        p_value=doubling.p_value,
        p_holm=doubling.p_holm,
        shown_below_delta=doubling.shown_below,
        machines=doubling.contrast.blocks,
        machines_disagree=doubling.contrast.disagreement,
    )
