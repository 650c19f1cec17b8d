"""The verdict over a user's own table in words: the answer, what every size shows, and details. Pure."""

from collections.abc import Collection
from typing import NamedTuple

from envknee.verdict.schema.limit import Gain
from envknee.verdict.schema.memory import MemoryLimit, TermName
from envknee.verdict.schema.table import ColumnNotRead, ColumnRead, Estimate, SeriesVerdict, Step, TableVerdict
from envknee.verdict.schema.throughput import Law
from envknee.words import memory, statements
from envknee.words.intervals import sizes_between, threshold_interval, with_interval
from envknee.words.next_measurement import next_measurement
from envknee.words.numbers import counted, listed, percent, shown_batch, span
from envknee.words.states import gain_evidence

TERMS: dict[TermName, str] = {
    "base": "",
    "per_environment": " per environment",
    "per_transition": " per transition of the rollout",
    "per_batch_transition": " per transition of the batch",
}
"""What follows the amount of each part of a memory model."""

Line = tuple[str, str]
"""A name and a text."""


class PointRow(NamedTuple):
    """What a table shows of one size; cells are text."""

    size: str
    fps: str
    repeats: str
    gain: str
    """Of a doubling from there."""
    interval: str
    remark: str


# --- The answer


def series_label(series: SeriesVerdict, verdict: TableVerdict) -> str:
    """Return `horizon 32, batch 1,024`, as far as the table has columns for them."""
    return _label(series.throughput.horizon, series.throughput.batch_size, verdict)


def _label(horizon: int, batch_size: int | None, verdict: TableVerdict) -> str:
    parts = []
    if verdict.has_horizon:
        parts.append(f"horizon {horizon}")
    if "batch_size" in verdict.columns:
        parts.append(shown_batch(batch_size))
    return ", ".join(parts)


def answer_lines(series: SeriesVerdict, verdict: TableVerdict) -> list[Line]:
    """Return how many environments pay, how many fit, and what to measure next."""
    lines = [("throughput", found(series))]
    if series.learning is not None:
        lines.append(("learning", statements.statement(series.learning)))
    lines.append(("memory", memory_words(verdict.memory, verdict.columns)))
    if series.measure_next is not None:
        lines.append(("next", next_measurement(series.measure_next, series.throughput)))
    return lines


def found(series: SeriesVerdict) -> str:
    """Return the limit by FPS in a sentence, or its estimate."""
    if series.estimate is not None:
        return estimate_statement(series.estimate)
    return statements.statement(series.throughput)


def found_briefly(series: SeriesVerdict) -> str:
    """Return the limit by FPS in a few words, for a title."""
    limit = series.throughput
    if series.estimate is not None:
        return estimate_statement(series.estimate)
    shown = limit.named
    if limit.state == "no data" or shown is None:
        return statements.statement(limit)
    if limit.state == "reached":
        state = f"reached at {shown.num_envs:,} environments"
    elif limit.state == "still pays":
        state = f"still pays at {shown.doubled:,} environments"
    else:
        state = f"undecided up to {limit.largest_num_envs:,} environments"
    return ": ".join([state, *gain_evidence(limit)])


def estimate_statement(estimate: Estimate) -> str:
    """Return the best estimate of a limit in a sentence."""
    best = estimate.step
    if best is None:
        last = estimate.steps[-1]
        return f"still gaining {percent(last.gain, 0)} a doubling at {last.to_num_envs:,}, the largest size"
    reasons = [f"a doubling gains {percent(best.gain)}"]
    if best.gain < 0.0:
        reasons = [f"a doubling loses {percent(-best.gain)}"]
    if estimate.falls_beyond is not None:
        reasons.append(f"FPS fall beyond {estimate.falls_beyond:,}")
    if estimate.jumps:
        gains = [percent(step.gain, 0) for step in estimate.steps if step.num_envs in estimate.jumps]
        reasons.append(f"doubling {listed(estimate.jumps)} gains {' and '.join(gains)} again")
    return f"estimate: {best.num_envs:,} environments ({'; '.join(reasons)})"


def memory_words(limit: MemoryLimit | None, columns: Collection[str]) -> str:
    """Return how many environments fit, and the memory model."""
    if limit is None:
        return "not given: with a column vram_gb (peak, GB) you see how many environments fit"
    if not limit.identifiable:
        return memory.memory_statement(limit, columns)
    as_measured = _fits_as_measured(limit)
    if as_measured is not None:
        return as_measured
    terms = [_scaled(gb, "GB", "MB", "kB") + TERMS[name] for name, gb in limit.terms_gb.items() if gb > 0.0]
    model = f"{' + '.join(terms)} (largest error {limit.largest_error_gb:.2g} GB)"
    if limit.device_memory_gb is None:
        return f"{model}; give --device-gb to see how many environments fit"
    return f"{memory.memory_statement(limit, columns)}; {model}"


def _fits_as_measured(limit: MemoryLimit) -> str | None:
    """Return what was measured, where the memory model says less; None where it says more."""
    if limit.device_memory_gb is None and not limit.smallest_failed:
        return None
    for wall in limit.walls:
        if wall.largest_fitted is not None and (wall.largest_num_envs_lower or 0) < wall.largest_fitted:
            failed = "" if wall.smallest_failed is None else f", {wall.smallest_failed:,} did not"
            beyond = "no line through the peaks tells what lies beyond"
            return f"{wall.largest_fitted:,} environments fit as measured{failed}; {beyond}"
    return None


# --- Every size


def point_rows(series: SeriesVerdict) -> list[PointRow]:
    """Return a row for every size, in ascending order; an estimate's steps may go to another size than the double."""
    limit, estimate = series.throughput, series.estimate
    steps: dict[int, Gain | Step] = {step.num_envs: step for step in (estimate.steps if estimate else limit.gains)}
    rows = {
        point.num_envs: PointRow(f"{point.num_envs:,}", "", str(point.oom), "", "", "out of memory")
        for point in limit.infeasible
    }
    for point in limit.points:
        step = steps.get(point.num_envs)
        remarks = _remarks_on_size(point.num_envs, series)
        if step is not None:
            remarks += _remarks_on_step(step)
        if point.failed:
            remarks.append(f"{point.failed} more out of memory")
        rows[point.num_envs] = PointRow(
            size=f"{point.num_envs:,}",
            fps=_fps(point.fps),
            repeats=str(len(point.fps_repeats)),
            gain="" if step is None else _signed(step.gain),
            interval="" if step is None else span(step.gain_lower, step.gain_upper, _signed),
            remark=", ".join(remarks),
        )
    return [row for _, row in sorted(rows.items())]


def _remarks_on_size(num_envs: int, series: SeriesVerdict) -> list[str]:
    limit, estimate = series.throughput, series.estimate
    remarks = []
    if estimate is not None and num_envs in (limit.threshold_num_envs, estimate.num_envs):
        remarks.append("estimate")
    elif num_envs == limit.threshold_num_envs:
        remarks.append("threshold")
    if num_envs in limit.resumes_at:
        remarks.append("pays again")
    return remarks


def _remarks_on_step(step: Gain | Step) -> list[str]:
    remarks = []
    if isinstance(step, Step) and step.to_num_envs != 2 * step.num_envs:
        remarks.append(f"to {step.to_num_envs:,}")
    most = step.gain if step.gain_upper is None else step.gain_upper
    if most < 0.0:
        remarks.append("FPS fall")
    return remarks


# --- Details


def detail_lines(series: SeriesVerdict) -> list[Line]:
    """Return the interval of the limit, the law, and notes."""
    limit = series.throughput
    lines = []
    if series.estimate is not None:
        lines += _estimate_lines(series.estimate)
        found_notes = _notes_beside_estimate(series)
    else:
        found_notes = statements.notes(limit)
        if limit.gains:
            lines.append(("interval", f"the threshold is {threshold_interval(limit)}"))
    lines.append(("law", law_words(limit.law)))
    if series.learning is not None:
        found_notes = [*found_notes, *(f"learning: {note}" for note in statements.notes(series.learning))]
    return lines + [("note", note) for note in found_notes]


def _estimate_lines(estimate: Estimate) -> list[Line]:
    """Return the interval of an estimated limit, and notes on FPS that no saturating curve has."""
    where = "no measured size" if estimate.lowest is None else sizes_between(estimate.lowest, estimate.highest)
    by_law = "" if estimate.by_law is None else f"; the law puts it at {estimate.by_law:,.0f}"
    lines = [("interval", f"the limit is {where}, with {noise_words(estimate)}{by_law}")]
    lines += [("note", f"FPS dip at {size:,} and recover: measure it again") for size in estimate.dips]
    jump = "after a step that gained little: saturating FPS cannot. Measure it and the next size again"
    return lines + [("note", f"FPS jump from {size:,} on, {jump}") for size in estimate.jumps]


def noise_words(estimate: Estimate) -> str:
    """Return the source of an estimate's noise."""
    if estimate.assumed_cv is None:
        return "the noise of published GPU studies"
    return f"noise of {estimate.assumed_cv:.1%} (--assume-cv)"


def _notes_beside_estimate(series: SeriesVerdict) -> list[str]:
    """Return notes that apply to an estimate, too. It uses steps between any two sizes, so none on missing doublings does."""
    limit = series.throughput
    alone = all(len(point.fps_repeats) == 1 for point in limit.points)
    notes = [f"{'one repeat per point' if alone else 'too few repeats'}: an estimate, not a verdict"]
    if limit.infeasible:
        sizes = listed(point.num_envs for point in limit.infeasible)
        notes.append(f"infeasible (out of memory or refused): {sizes} environments")
    return notes


def law_words(law: Law | None) -> str:
    """Return the law of an iteration's seconds, with its asymptote and its largest error."""
    if law is None:
        return "needs three different num_envs"
    error = f"misses a point by {percent(law.largest_relative_error)} at most"
    if not law.used:
        return f"seconds of an iteration do not follow t0 + c N: the best fit {error}, and is not used"
    start, more = (_scaled(seconds, "s", "ms", "us") for seconds in (law.t0_s, law.s_per_env))
    seconds = f"{start} + {more} per environment"
    if law.asymptote_fps is None or law.half_saturation_num_envs is None:
        return f"{seconds}: no asymptote, more environments cost nothing at these points; {error}"
    decimals = 0 if law.asymptote_fps >= 100.0 else 2
    most = with_interval(law.asymptote_fps, law.asymptote_fps_lower, law.asymptote_fps_upper, decimals)
    half = with_interval(
        law.half_saturation_num_envs, law.half_saturation_num_envs_lower, law.half_saturation_num_envs_upper
    )
    return f"{seconds}: at most {most} FPS, half of it at {half} environments; {error}"


def closing_lines(verdict: TableVerdict) -> list[Line]:
    """Return what was read and by which settings, and notes on the whole table."""
    rows = f"{verdict.source}: {counted(verdict.rows, 'row')}"
    settings = f"a doubling stops paying below {verdict.delta:.0%}, confidence {verdict.confidence:.0%}"
    notes = [f"memory: {note}" for note in memory_notes(verdict)] + table_notes(verdict)
    return [("read", f"{rows}; {settings}"), *(("note", note) for note in notes)]


def memory_notes(verdict: TableVerdict) -> list[str]:
    """Return notes on the memory model of a table."""
    if verdict.memory is None:
        return []
    notes = memory.memory_notes(verdict.memory, verdict.columns)
    missed = verdict.missed_peak
    if missed is not None:
        notes.append(
            f"not linear in num_envs: the best line misses {missed.num_envs:,} environments by {missed.share:.0%}, so what fits"
            " beyond is a guess"
        )
    return notes


def table_notes(verdict: TableVerdict) -> list[str]:
    """Return notes on what was read: columns, rounding, and rows without an answer."""
    notes = [_column_read(column) for column in verdict.columns_read]
    notes += [_column_not_read(column) for column in verdict.columns_not_read]
    has_law = any(series.throughput.law and series.throughput.law.used for series in verdict.series)
    if has_law and not verdict.has_horizon:
        notes.append("no horizon column: seconds of the law are those of one step of all environments")
    if verdict.fps_step is not None:
        notes.append(
            f"every fps is a multiple of {verdict.fps_step:,g}: repeats may hide what was rounded away, and it counts as noise."
            " Give more digits where there are more"
        )
    if verdict.not_measured is not None:
        rows, sizes = counted(verdict.not_measured.rows, "row"), listed(verdict.not_measured.num_envs)
        notes.append(
            f"{rows} (at {sizes} environments) without seconds_to_target and budget_s: taken as not measured; give budget_s"
            " where the target was not reached"
        )
    return notes


def _column_read(column: ColumnRead) -> str:
    times = "" if column.factor == 1.0 else f" x {column.factor:,.12g}"
    return f"column {column.heading!r} is read as {column.column}{times}"


def _column_not_read(column: ColumnNotRead) -> str:
    meant = "" if column.nearest is None else f" (did you mean '{column.nearest}'?)"
    return f"column {column.heading!r} is not read{meant}"


def _scaled(value: float, *units: str) -> str:
    """Return a value in the one of three `units`, each a thousandth of the one before, that suits it."""
    place = 2
    if value >= 0.1:
        place = 0
    elif value >= 1e-4:
        place = 1
    return f"{value * 1e3**place:.3g} {units[place]}"


def _fps(value: float) -> str:
    """Return `12,345`, or `12.3` for a small number."""
    return f"{value:,.0f}" if value >= 100.0 else f"{value:.3g}"


def _signed(share: float) -> str:
    return percent(share) if share < 0.0 or share > 10.0 else f"+{percent(share)}"
