"""The verdict over a user's own table, which has no records. Pure.

The statistics are those of `envknee.verdict`. Rows with another horizon or batch size are another series. A table has no phases, devices
or ranks, and the verdict says nothing about them.
"""

import math
from collections import Counter
from collections.abc import Sequence
from itertools import groupby

from pydantic import Field

from envknee.after.csv.table import LARGEST, Table, TableRow
from envknee.base.point import batch_transitions
from envknee.record.status import Status
from envknee.study.model import Decide
from envknee.verdict import learning, memory_limit, throughput
from envknee.verdict.estimate import estimate
from envknee.verdict.learning_cost import seeds_of
from envknee.verdict.measure_next import measure_next
from envknee.verdict.memory_sample import Sample
from envknee.verdict.noise import assumed_cv
from envknee.verdict.rule.union import LEAST_REPEATS
from envknee.verdict.schema.learning import LearningLimit
from envknee.verdict.schema.memory import MemoryLimit
from envknee.verdict.schema.table import Estimate, MissedPeak, NotMeasured, SeriesVerdict, TableVerdict
from envknee.verdict.schema.throughput import ThroughputLimit
from envknee.verdict.series import Series

WORTH_A_NOTE = 0.005
"""Smallest rounding that is noted, as a share of the smallest FPS. Finer rounding does not widen any interval visibly."""

NOT_LINEAR = 0.05
"""Most by which the line may miss a peak, as a share of it; beyond, memory is called not linear."""


class Options(Decide):
    """The settings of a verdict, and what a table does not tell."""

    device_gb: float | None = Field(default=None, gt=0.0, le=LARGEST, examples=[80.0])
    """Memory of the GPU, GB (1e9 bytes), to see how many environments fit."""
    assume_cv: float | None = Field(default=None, gt=0.0, lt=1.0, examples=[0.05])
    """Standard deviation of FPS between processes, as a share, where nothing was repeated; by default that of published studies."""


def decide(table: Table, source: str, options: Options) -> TableVerdict:
    """Return the verdict over a table, which is called `source`."""
    grouped: dict[Series, list[TableRow]] = {}
    for row in table.rows:
        series = Series(source, row.horizon, row.batch_size)
        grouped.setdefault(series, []).append(row)
    ordered = sorted(grouped, key=lambda series: (series.horizon, series.batch_size or 0))
    memory = _memory(table, options)
    return TableVerdict(
        source=source,
        rows=len(table.rows),
        columns=sorted(table.columns),
        delta=options.delta,
        confidence=options.confidence,
        memory_margin=options.memory_margin,
        series=[_series_verdict(series, grouped[series], table, options) for series in ordered],
        memory=memory,
        missed_peak=None if memory is None else _missed_peak(_samples(table), memory),
        columns_read=list(table.columns_read),
        columns_not_read=list(table.columns_not_read),
        fps_step=_coarse_step(table),
        not_measured=_not_measured(table),
    )


def _series_verdict(series: Series, rows: Sequence[TableRow], table: Table, options: Options) -> SeriesVerdict:
    fps: dict[int, list[float]] = {}
    failures: dict[int, Counter[Status]] = {}
    for row in rows:
        if row.fps is None:
            failures.setdefault(row.num_envs, Counter())["oom"] += 1
        else:
            fps.setdefault(row.num_envs, []).append(row.fps)
    limit = throughput.limit_of(series, fps, failures, options, step=table.fps_step)
    best = _estimate(limit, options)
    return SeriesVerdict(
        throughput=limit,
        estimate=best,
        learning=_learning(series, rows, options),
        measure_next=None if limit.state == "reached" else measure_next(limit, best=best),
    )


def _estimate(limit: ThroughputLimit, options: Options) -> Estimate | None:
    if limit.state != "undecided" or limit.fewest_repeats >= LEAST_REPEATS:
        return None
    repeats = {point.num_envs: len(point.fps_repeats) for point in limit.points}
    cv = options.assume_cv
    half = limit.law.half_saturation_num_envs if limit.law else None
    return estimate(
        {point.num_envs: point.fps for point in limit.points},
        lambda num_envs: (assumed_cv(num_envs, half) if cv is None else cv) / math.sqrt(repeats[num_envs]),
        options.delta, options.confidence, limit.law, assumed_cv=cv,
    )  # fmt: skip


def _learning(series: Series, rows: Sequence[TableRow], settings: Decide) -> LearningLimit | None:
    told = [row for row in rows if row.fps is None or row.seconds_to_target or row.budget_s]
    learned = [row for row in told if row.fps is not None]
    if not learned:
        return None
    seconds = {
        num_envs: seeds_of((row.seconds_to_target, row.budget_s or 0.0) for row in of_size)
        for num_envs, of_size in groupby(learned, key=lambda row: row.num_envs)
    }
    statuses: dict[int, Counter[str]] = {}
    for row in told:
        ended = "target_reached" if row.seconds_to_target else "timeout"
        if row.fps is None:
            ended = "oom"
        statuses.setdefault(row.num_envs, Counter())[ended] += 1
    return learning.limit_of(series, seconds, statuses, settings)


def _memory(table: Table, options: Options) -> MemoryLimit | None:
    if all(row.vram_gb is None for row in table.rows):
        return None
    return memory_limit.limit_of(_samples(table), options.device_gb, options)


def _samples(table: Table) -> list[Sample]:
    return [
        Sample(
            num_envs=row.num_envs,
            horizon=row.horizon,
            batch_size=row.batch_size,
            status="oom" if row.fps is None else "ok",
            peak_gb=row.vram_gb,
        )
        for row in table.rows
    ]


def _missed_peak(samples: Sequence[Sample], limit: MemoryLimit) -> MissedPeak | None:
    """Return the peak that the linear model misses most; None if it misses none by more than `NOT_LINEAR`."""
    missed = []
    for sample in samples:
        batch = batch_transitions(sample.num_envs, sample.horizon, sample.batch_size, None, 1)
        modelled = limit.peak_gb(sample.num_envs, sample.horizon, batch)
        if sample.whole and sample.peak_gb and modelled is not None:
            missed.append((abs(modelled / sample.peak_gb - 1.0), sample.num_envs))
    share, num_envs = max(missed, default=(0.0, 0))
    return MissedPeak(num_envs=num_envs, share=share) if share > NOT_LINEAR else None


def _coarse_step(table: Table) -> float | None:
    """Return the step to which FPS are rounded, if there are repeats and it is worth a note."""
    least = min((row.fps for row in table.rows if row.fps is not None), default=math.inf)
    has_repeats = any(row.repeat for row in table.rows)
    return table.fps_step if has_repeats and table.fps_step / least >= WORTH_A_NOTE else None


def _not_measured(table: Table) -> NotMeasured | None:
    """Return the rows without an answer on learning, if others have one."""
    timed = [row for row in table.rows if row.fps is not None]
    unknown = [row for row in timed if row.seconds_to_target is None and row.budget_s is None]
    if not unknown or all(row.seconds_to_target is None for row in table.rows):
        return None
    return NotMeasured(rows=len(unknown), num_envs=sorted({row.num_envs for row in unknown}))
