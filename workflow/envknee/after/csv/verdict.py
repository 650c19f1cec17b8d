"""The verdict over a user's own table, which has no records. Pure.

The statistics are those of `envknee.verdict`. Rows that differ in another column than num_envs and repeat are another series. A table has
no phases and no devices, and the verdict says nothing about them.
"""

import math
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from itertools import groupby
from typing import TypeVar

from pydantic import Field

from envknee.after.csv.rows import LARGEST, TableRow
from envknee.after.csv.table import Table
from envknee.base.point import batch_transitions
from envknee.record.status import Status
from envknee.study.errors import UserError
from envknee.study.model import Decide
from envknee.verdict import beside, learning, memory_limit, throughput
from envknee.verdict.estimate import estimate
from envknee.verdict.learning_cost import seeds_of
from envknee.verdict.measure_next import measure_next
from envknee.verdict.memory_sample import Sample
from envknee.verdict.noise import assumed_cv
from envknee.verdict.rule.schedule import LEAST_REPEATS
from envknee.verdict.schema.learning import LearningLimit
from envknee.verdict.schema.memory import MemoryLimit
from envknee.verdict.schema.table import (
    Beside,
    Estimate,
    GpuScaling,
    MissedPeak,
    NotMeasured,
    Pair,
    SeriesVerdict,
    TableVerdict,
)
from envknee.verdict.schema.throughput import Law, ThroughputLimit
from envknee.verdict.series import Ranks, Series
from envknee.verdict.throughput import fit_law

Labels = tuple[tuple[str, str], ...]
Key = TypeVar("Key", bound=Hashable)

SIDE_BY_SIDE = ("table", "FPS column")
"""Labels of series that a file puts side by side."""

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
    parts = _parted(table.rows)
    families = _grouped(table.rows, _family)
    memories = {key: _memory(rows, options) for key, rows in families.items()}
    hosts = {key: _host_memory(rows, options) for key, rows in families.items()}
    missed = {
        key: None if memory is None else _missed_peak(_samples(families[key]), memory)
        for key, memory in memories.items()
    }
    ordered = sorted(parts, key=_largest_first)
    series = [
        _series_verdict(source, rows, table, options).model_copy(
            update={
                "memory": memories[_family(rows[0])],
                "missed_peak": missed[_family(rows[0])],
                "host_memory": hosts[_family(rows[0])],
            }
        )
        for rows in ordered
    ]
    alone = next(iter(families)) if len(families) == 1 else None
    return TableVerdict(
        source=source,
        rows=len(table.rows),
        columns=sorted(table.columns),
        delta=options.delta,
        confidence=options.confidence,
        memory_margin=options.memory_margin,
        series=series,
        memory=memories[alone] if alone is not None else None,
        missed_peak=missed[alone] if alone is not None else None,
        scaling=_scaling(parts, options),
        beside=_side_by_side(parts, options),
        no_curve=_no_curve(parts),
        remarks=list(table.remarks),
        columns_read=list(table.columns_read),
        columns_not_read=list(table.columns_not_read),
        fps_step=_coarse_step(table),
        not_measured=_not_measured(table),
    )


def compare(first: Table, second: Table, names: tuple[str, str], options: Options) -> Pair:
    """Return two tables side by side, series by series."""
    of_first, of_second = ({_key(rows[0]): rows for rows in _parted(table.rows)} for table in (first, second))
    pairs = [(rows, of_second[key], _name(key)) for key, rows in of_first.items() if key in of_second]
    if not pairs and len(of_first) == 1 and len(of_second) == 1:
        pairs = [(rows, others, "") for rows, others in zip(of_first.values(), of_second.values(), strict=True)]
    if not pairs:
        raise UserError(
            f"{names[0]} and {names[1]} have no series in common. Choose one of each with --where COLUMN=VALUE, or give both the same"
            " columns."
        )
    besides = [
        _beside(" ".join(filter(None, (names[0], name))), " ".join(filter(None, (names[1], name))), a, b, options)
        for a, b, name in pairs
    ]
    return Pair(first=names[0], second=names[1], confidence=options.confidence, beside=besides)


def _largest_first(rows: Sequence[TableRow]) -> tuple[int, int]:
    """Return the order of a series: most sizes first, then the smallest of single sizes."""
    sizes = {row.num_envs for row in rows}
    return -len(sizes), min(sizes) if len(sizes) == 1 else -max(sizes)


# --- Series, and what lies beside what


def _parted(rows: Sequence[TableRow]) -> list[list[TableRow]]:
    """Return the rows of each series, in the order of the table."""
    parts = _grouped(rows, _key).values()
    return sorted(parts, key=lambda part: (min(row.line for row in part), part[0].horizon, part[0].batch_size or 0))


def _grouped(rows: Sequence[TableRow], key: Callable[[TableRow], Key]) -> dict[Key, list[TableRow]]:
    """Return the rows of each key, keys in the order of their first rows."""
    groups: dict[Key, list[TableRow]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def _key(row: TableRow) -> tuple[Labels, int, int, int | None]:
    return row.labels, row.gpus, row.horizon, row.batch_size


def _family(row: TableRow) -> tuple[Labels, int]:
    """Return what rows have in common whose memory follows one model."""
    return row.labels, row.gpus


def _name(key: tuple[Labels, int, int, int | None]) -> str:
    return ", ".join(f"{value}" for _, value in key[0])


def _fps(rows: Sequence[TableRow]) -> dict[int, list[float]]:
    fps: dict[int, list[float]] = {}
    for row in rows:
        if row.fps is not None:
            fps.setdefault(row.num_envs, []).append(row.fps)
    return fps


def _noise(options: Options, law: Law | None) -> Callable[[int], float]:
    """Return the coefficient of variation to assume for a size, where nothing was repeated."""
    cv = options.assume_cv
    half = None if law is None else law.half_saturation_num_envs
    return lambda num_envs: assumed_cv(num_envs, half) if cv is None else cv


def _beside(first: str, second: str, a: Sequence[TableRow], b: Sequence[TableRow], options: Options) -> Beside:
    failed = tuple(sorted({row.num_envs for row in rows if row.fps is None}) for rows in (a, b))
    law = fit_law(_fps(a), 1, options.confidence)
    noise = _noise(options, law if law is not None and law.used else None)
    return beside.beside(first, second, _fps(a), _fps(b), (failed[0], failed[1]), noise, options.confidence)


def _side_by_side(parts: Sequence[Sequence[TableRow]], options: Options) -> list[Beside]:
    """Return every series that differs from the first alone in the table or the column of FPS that it stands in, beside that."""
    found = []
    firsts: dict[tuple[object, ...], Sequence[TableRow]] = {}
    for rows in parts:
        own = [pair for pair in rows[0].labels if pair[0] in SIDE_BY_SIDE]
        others = tuple(pair for pair in rows[0].labels if pair[0] not in SIDE_BY_SIDE)
        first = firsts.setdefault((others, *_key(rows[0])[1:]), rows)
        if first is not rows and own:
            before = [pair for pair in first[0].labels if pair[0] in SIDE_BY_SIDE]
            named = [" ".join(value for _, value in pairs) for pairs in (before, own)]
            found.append(_beside(named[0], named[1], first, rows, options))
    return [one for one in found if one.sizes]


def _scaling(parts: Sequence[Sequence[TableRow]], options: Options) -> list[GpuScaling]:
    """Return what more GPUs bring, for each setting that was measured with several numbers of them."""
    grouped: dict[tuple[Labels, int, int | None], dict[int, dict[int, list[float]]]] = {}
    for rows in parts:
        labels, gpus, horizon, batch = _key(rows[0])
        grouped.setdefault((labels, horizon, batch), {})[gpus] = _fps(rows)
    found = [
        beside.scaling(labels, by_gpus, _noise(options, None), options.confidence)
        for (labels, _, _), by_gpus in grouped.items()
        if len(by_gpus) > 1
    ]
    return [one for one in found if one is not None]


def _no_curve(parts: Sequence[Sequence[TableRow]]) -> tuple[str, ...]:
    """Return the columns that differ wherever num_envs or GPUs do; () where a series has two sizes, and for one point."""
    if len(parts) < 2 or any(len({row.num_envs for row in rows}) > 1 for rows in parts):
        return ()
    firsts = [rows[0] for rows in parts]
    headings = dict.fromkeys(heading for row in firsts for heading, _ in row.labels)
    columns = [heading for heading in headings if len({dict(row.labels).get(heading) for row in firsts}) > 1]
    own = [name for name in ("gpus", "horizon", "batch_size") if len({getattr(row, name) for row in firsts}) > 1]
    return (*columns, *own)


# --- One series


def _series_verdict(source: str, rows: Sequence[TableRow], table: Table, options: Options) -> SeriesVerdict:
    series = Series(source, rows[0].horizon, rows[0].batch_size)
    failures: dict[int, Counter[Status]] = {}
    for row in rows:
        if row.fps is None:
            failures.setdefault(row.num_envs, Counter())["oom"] += 1
    ranks = Ranks(rows[0].gpus, "GPU")
    limit = throughput.limit_of(series, _fps(rows), failures, options, ranks=ranks, step=table.fps_step)
    best = _estimate(limit, rows, table.fps_step, options)
    return SeriesVerdict(
        labels=rows[0].labels,
        gpus=rows[0].gpus,
        throughput=limit,
        estimate=best,
        learning=_learning(series, rows, options),
        measure_next=None if limit.state == "reached" else measure_next(limit, best=best),
    )


def _estimate(limit: ThroughputLimit, rows: Sequence[TableRow], step: float, options: Options) -> Estimate | None:
    if limit.state != "undecided" or limit.fewest_repeats >= LEAST_REPEATS:
        return None
    repeats = {point.num_envs: len(point.fps_repeats) for point in limit.points}
    spreads = {row.num_envs: row.fps_spread / row.fps for row in rows if row.fps}
    usual = _noise(options, limit.law)

    def noise(num_envs: int) -> float:
        return max(usual(num_envs), spreads.get(num_envs, 0.0)) / math.sqrt(repeats[num_envs])

    return estimate(
        {point.num_envs: point.fps for point in limit.points}, noise, options.delta, options.confidence, limit.law,
        assumed_cv=options.assume_cv,
        rounding={row.num_envs: max(step, row.fps_digit) / row.fps / 2.0 for row in rows if row.fps},
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


def _memory(rows: Sequence[TableRow], options: Options) -> MemoryLimit | None:
    if all(row.vram_gb is None for row in rows):
        return None
    return memory_limit.limit_of(_samples(rows), options.device_gb, options)


def _host_memory(rows: Sequence[TableRow], options: Options) -> MemoryLimit | None:
    if all(row.ram_gb is None for row in rows):
        return None
    samples = [
        sample.model_copy(update={"peak_gb": row.ram_gb, "status": "ok"})
        for sample, row in zip(_samples(rows), rows, strict=True)
    ]
    return memory_limit.limit_of(samples, None, options, on_gpu=False)


def _samples(rows: Sequence[TableRow]) -> list[Sample]:
    return [
        Sample(
            num_envs=row.num_envs,
            horizon=row.horizon,
            batch_size=row.batch_size,
            status="oom" if row.fps is None else "ok",
            peak_gb=None if row.vram_is_bound else row.vram_gb,
        )
        for row in rows
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
