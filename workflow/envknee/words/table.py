"""The verdict over a user's own table in words: the answer, what every size shows, and details. Pure."""

from collections.abc import Collection
from typing import NamedTuple

from envknee.verdict.schema.limit import Gain
from envknee.verdict.schema.memory import MemoryLimit, TermName
from envknee.verdict.schema.table import (
    ColumnNotRead,
    ColumnRead,
    Estimate,
    GpuScaling,
    MissedPeak,
    Remark,
    SeriesVerdict,
    Step,
    TableVerdict,
)
from envknee.verdict.schema.throughput import Law
from envknee.words import memory, statements
from envknee.words.intervals import sizes_between, threshold_interval, with_interval
from envknee.words.next_measurement import next_measurement
from envknee.words.numbers import counted, listed, percent, shown_batch, span
from envknee.words.states import gain_evidence
from envknee.words.tables_beside import scaling_statement

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
    """Return `GPU Card A, horizon 32, batch 1,024`, as far as the table has columns for them."""
    parts = [_named(heading, value) for heading, value in series.labels]
    if "gpus" in verdict.columns:
        parts.append(counted(series.gpus, "GPU"))
    if verdict.has_horizon:
        parts.append(f"horizon {series.throughput.horizon}")
    if "batch_size" in verdict.columns:
        parts.append(shown_batch(series.throughput.batch_size))
    return ", ".join(parts)


def _named(heading: str, value: str) -> str:
    """Return a setting with its value; what the layout of the file names needs no heading."""
    if heading in ("table", "section", "FPS column", "series"):
        return value
    return f"{heading} {value or 'not given'}"


def answer_lines(series: SeriesVerdict, verdict: TableVerdict) -> list[Line]:
    """Return how many environments pay, how many fit, and what to measure next."""
    lines = [("throughput", found(series))]
    if series.learning is not None:
        lines.append(("learning", statements.statement(series.learning)))
    lines += _memory_lines(series, verdict)
    if series.measure_next is not None:
        lines.append(("next", next_measurement(series.measure_next, series.throughput)))
    return lines


def _memory_lines(series: SeriesVerdict, verdict: TableVerdict) -> list[Line]:
    lines = [("memory", memory_words(series.memory, verdict.columns))]
    if series.host_memory is not None:
        lines.append(("host memory", _host_words(series.host_memory)))
    return lines


def _host_words(limit: MemoryLimit) -> str:
    if not limit.terms_gb:
        return "read; two sizes and one repeat more would give what each environment takes"
    terms = [_scaled(gb, "GB", "MB", "kB") + TERMS[name] for name, gb in limit.terms_gb.items() if gb > 0.0]
    return f"{' + '.join(terms)} (largest error {limit.largest_error_gb:.2g} GB)"


def no_curve_lines(verdict: TableVerdict) -> list[Line]:
    """Return the answer where no two sizes can be compared, because another column differs with them."""
    columns = " and ".join(NAMES_OF_COLUMNS.get(name, name) for name in verdict.no_curve)
    sizes = sorted({point.num_envs for series in verdict.series for point in series.throughput.points})
    said = f"no curve: {columns} differs at every size ({listed(sizes)}), and points of different {columns} are not one curve"
    if verdict.scaling and verdict.no_curve == ("gpus",):
        said = f"nothing about environments on each GPU: every number of GPUs has one size, {listed(sizes)} on each"
    lines = [("throughput", said), *scaling_lines(verdict)]
    if not verdict.scaling:
        lines.append(
            ("next", f"Measure two sizes or more at the same {columns}, or choose rows with --where COLUMN=VALUE.")
        )
    return lines


NAMES_OF_COLUMNS = {"batch_size": "batch size", "gpus": "the number of GPUs"}


def scaling_lines(verdict: TableVerdict) -> list[Line]:
    """Return what more GPUs bring, a line for each setting."""
    return [("scaling", f"{_of_labels(one)}{scaling_statement(one)}") for one in verdict.scaling]


def _of_labels(scaling: GpuScaling) -> str:
    return "".join(f"{_named(heading, value)}, " for heading, value in scaling.labels)


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
    best, rounded = estimate.step, estimate.rounded
    if rounded is not None:
        return (
            f"undecided: rounding alone allows ± {percent(rounded.largest_share, 0)}, and ± {percent(rounded.share, 0)} of the FPS at"
            f" {rounded.num_envs:,} environments, within which the cut-off lies. Give more digits"
        )
    if estimate.superlinear and (best is None or best.num_envs in estimate.superlinear):
        steps = [step for step in estimate.steps if step.num_envs in estimate.superlinear]
        gains = dict.fromkeys(percent(step.gain, 0) for step in steps)
        return (
            f"no throughput: a doubling from {listed(estimate.superlinear)} gains {' and '.join(gains)}, and twice the environments"
            " make at most twice the FPS. Something else differs, such as compilation, a fixed start-up time or the unit"
        )
    if best is None:
        last = estimate.steps[-1]
        near = ": about the limit" if estimate.is_near else ""
        return f"still gaining {percent(last.gain, 0)} a doubling at {last.to_num_envs:,}, the largest size{near}"
    reasons = [f"a doubling gains {percent(best.gain)}"]
    if best.gain < 0.0:
        reasons = [f"a doubling loses {percent(-best.gain)}"]
    if estimate.falls_beyond is not None:
        flat = "" if estimate.flat_from is None else f", then stay flat from {estimate.flat_from:,}"
        reasons.append(f"FPS fall beyond {estimate.falls_beyond:,}{flat}")
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
    lines += [("note", f"FPS jump from {size:,} on, {jump}") for size in estimate.jumps]
    if estimate.superlinear and estimate.num_envs is not None:
        sizes = listed(estimate.superlinear)
        lines.append(
            ("note", f"a doubling from {sizes} gains above 100%: something else differs there, such as compilation")
        )
    return lines


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
    """Return notes on the memory models of a table."""
    notes = dict[str, None]()
    for series in verdict.series:
        if series.memory is not None:
            notes |= dict.fromkeys(memory.memory_notes(series.memory, verdict.columns))
        if series.missed_peak is not None:
            notes[_missed(series.missed_peak)] = None
    return list(notes)


def _missed(missed: MissedPeak) -> str:
    return (
        f"not linear in num_envs: the best line misses {missed.num_envs:,} environments by {missed.share:.0%}, so what fits"
        " beyond is a guess"
    )


def _remark(remark: Remark) -> str:
    """Return what was read in another way than it stands in the file."""
    lines = listed(remark.lines)
    sentences = {
        "values_are_fps": "the sizes stand in the headings, and nothing names the values: they are read as FPS",
        "per_env": f"column {remark.heading!r} is FPS of one environment, because {remark.other!r} is num_envs times it: the total"
        " counts",
        "fps_left_out": f"column {remark.heading!r} counts as FPS; --fps chooses {' or '.join(map(repr, remark.others))}",
        "no_measurement": f"{remark.other} {lines} says that the run failed, and counts as no measurement",
        "total_envs": "num_envs grows with the number of GPUs: it is read as that of all of them, and divided by it",
        "batch_follows": "batch_size is the same share of num_envs in every row: the batch grows with the environments",
        "relative": "no horizon: FPS are those of one environment step per iteration. Gains hold, and FPS are short by the horizon",
        "differs_everywhere": f"column {remark.heading!r} has another value in every row: it parts no series",
    }
    return sentences[remark.kind]


def table_notes(verdict: TableVerdict) -> list[str]:
    """Return notes on what was read: columns, rounding, and rows without an answer."""
    notes = [_remark(remark) for remark in verdict.remarks]
    notes += [_column_read(column) for column in verdict.columns_read]
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
