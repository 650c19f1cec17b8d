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
from envknee.record.schema import Frozen
from envknee.record.status import Status
from envknee.study.model import Decide
from envknee.verdict import learning, memory_limit, throughput
from envknee.verdict.estimate import Estimate, estimate
from envknee.verdict.learning_cost import seeds_of
from envknee.verdict.measure_next import measure_next
from envknee.verdict.memory_sample import Sample
from envknee.verdict.noise import assumed_cv
from envknee.verdict.rule.union import LEAST_REPEATS
from envknee.verdict.schema.headline import NextMeasurement
from envknee.verdict.schema.learning import LearningLimit
from envknee.verdict.schema.memory import MemoryLimit
from envknee.verdict.schema.throughput import ThroughputLimit
from envknee.verdict.series import Series
from envknee.words.numbers import counted, listed, shown_batch

SCHEMA_VERSION = 1

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


class SeriesVerdict(Frozen):
    """The verdict on one series: rows with the same horizon and batch size."""

    label: str
    """`horizon 32, batch 1,024`; "" if the table has neither column."""
    throughput: ThroughputLimit
    estimate: Estimate | None
    """The best estimate, if too few repeats leave the limit undecided."""
    learning: LearningLimit | None
    """None without rows on learning."""
    measure_next: NextMeasurement | None
    """The rows that would decide an open threshold; None if it is reached."""


class TableVerdict(Frozen):
    """The verdict over a table."""

    schema_version: int = SCHEMA_VERSION
    source: str
    rows: int
    columns: list[str]
    delta: float
    confidence: float
    memory_margin: float
    series: list[SeriesVerdict]
    memory: MemoryLimit | None
    """None without any vram_gb."""
    notes: list[str]


def decide(table: Table, source: str, options: Options) -> TableVerdict:
    """Return the verdict over a table, which is called `source`."""
    grouped: dict[Series, list[TableRow]] = {}
    for row in table.rows:
        series = Series(source, row.horizon, row.batch_size)
        grouped.setdefault(series, []).append(row)
    ordered = sorted(grouped, key=lambda series: (series.horizon, series.batch_size or 0))
    verdicts = [_series_verdict(series, grouped[series], table, options) for series in ordered]
    return TableVerdict(
        source=source,
        rows=len(table.rows),
        columns=sorted(table.columns),
        delta=options.delta,
        confidence=options.confidence,
        memory_margin=options.memory_margin,
        series=verdicts,
        memory=_memory(table, options),
        notes=_notes(table, any(verdict.throughput.law and verdict.throughput.law.used for verdict in verdicts)),
    )


def _label(series: Series, columns: frozenset[str]) -> str:
    parts = [f"horizon {series.horizon}"] if "horizon" in columns else []
    return ", ".join(parts + ([shown_batch(series.batch_size)] if "batch_size" in columns else []))


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
        label=_label(series, table.columns),
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
    noise = "the noise of published GPU studies" if cv is None else f"noise of {cv:.1%} (--assume-cv)"
    return estimate(
        {point.num_envs: point.fps for point in limit.points},
        lambda num_envs: (assumed_cv(num_envs, half) if cv is None else cv) / math.sqrt(repeats[num_envs]),
        noise, options.delta, options.confidence, limit.law,
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
        ended = "oom" if row.fps is None else "target_reached" if row.seconds_to_target else "timeout"
        statuses.setdefault(row.num_envs, Counter())[ended] += 1
    return learning.limit_of(series, seconds, statuses, settings)


def _memory(table: Table, options: Options) -> MemoryLimit | None:
    if all(row.vram_gb is None for row in table.rows):
        return None
    samples = [
        Sample(
            num_envs=row.num_envs,
            horizon=row.horizon,
            batch_size=row.batch_size,
            status="oom" if row.fps is None else "ok",
            peak_gb=row.vram_gb,
        )
        for row in table.rows
    ]

    def at(series: Series) -> str:
        label = _label(series, table.columns)
        return f" at {label}" if label else ""

    limit = memory_limit.limit_of(samples, options.device_gb, options, at=at)
    # A table without a horizon column needs no note on horizons.
    notes = [note for note in limit.notes if "horizon" in table.columns or not note.startswith("one horizon")]
    return limit.model_copy(update={"notes": [*notes, *_not_linear(samples, limit)]})


def _not_linear(samples: Sequence[Sample], limit: MemoryLimit) -> list[str]:
    """Return a note if the linear model misses a peak by more than `NOT_LINEAR`."""
    missed = []
    for sample in samples:
        batch = batch_transitions(sample.num_envs, sample.horizon, sample.batch_size, None, 1)
        modelled = limit.peak_gb(sample.num_envs, sample.horizon, batch)
        if sample.whole and sample.peak_gb and modelled is not None:
            missed.append((abs(modelled / sample.peak_gb - 1.0), sample.num_envs))
    share, num_envs = max(missed, default=(0.0, 0))
    if share <= NOT_LINEAR:
        return []
    return [
        f"not linear in num_envs: the best line misses {num_envs:,} environments by {share:.0%}, so what fits beyond is a guess"
    ]


def _notes(table: Table, has_law: bool) -> list[str]:
    notes = [*table.notes]
    if has_law and "horizon" not in table.columns:
        notes.append("no horizon column: seconds of the law are those of one step of all environments")
    least = min((row.fps for row in table.rows if row.fps is not None), default=math.inf)
    if any(row.repeat for row in table.rows) and table.fps_step / least >= WORTH_A_NOTE:
        notes.append(
            f"every fps is a multiple of {table.fps_step:,g}: repeats may hide what was rounded away, and it counts as noise."
            " Give more digits where there are more"
        )
    unknown = [
        row for row in table.rows if row.fps is not None and row.seconds_to_target is None and row.budget_s is None
    ]
    if unknown and any(row.seconds_to_target is not None for row in table.rows):
        sizes = listed(sorted({row.num_envs for row in unknown}))
        rows = f"{counted(len(unknown), 'row')} (at {sizes} environments)"
        notes.append(
            f"{rows} without seconds_to_target and budget_s: taken as not measured; give budget_s where the target was not"
            " reached"
        )
    return notes
