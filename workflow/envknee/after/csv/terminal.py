"""The verdict over a user's own table, for a terminal."""

from rich import box
from rich.console import Console
from rich.table import Table

from envknee.after.csv.verdict import SeriesVerdict, TableVerdict
from envknee.show.terminal import print_lines
from envknee.verdict.estimate import Estimate, Step
from envknee.verdict.schema.memory import MemoryLimit
from envknee.verdict.schema.throughput import Law
from envknee.words.learning import learning_notes, learning_statement
from envknee.words.next_measurement import next_measurement
from envknee.words.numbers import counted, percent, sizes_between, span, with_interval
from envknee.words.states import threshold_interval
from envknee.words.throughput import infeasible_notes, throughput_notes, throughput_statement

UNITS: dict[str, str] = {
    "base": "",
    "per_environment": " per environment",
    "per_transition": " per transition of the rollout",
    "per_batch_transition": " per transition of the batch",
}


def print_table_verdict(verdict: TableVerdict, console: Console) -> None:
    """Print the answer in three lines, then the points of every series, then details."""
    for series in verdict.series:
        if series.label:
            console.print(series.label, soft_wrap=True)
        print_lines(_answer(series, verdict), console)
    for series in verdict.series:
        console.print(f"\n{series.label}" if series.label else "", soft_wrap=True)
        console.print(_points(series, verdict.confidence))
        print_lines(_limits(series), console)
    read = f"{verdict.source}: {counted(verdict.rows, 'row')}"
    settings = f"a doubling stops paying below {verdict.delta:.0%}, confidence {verdict.confidence:.0%}"
    of_memory = verdict.memory.notes if verdict.memory else []
    notes = [f"memory: {note}" for note in of_memory] + verdict.notes
    print_lines([("read", f"{read}; {settings}"), *(("note", note) for note in notes)], console)


def _answer(series: SeriesVerdict, verdict: TableVerdict) -> list[tuple[str, str]]:
    """Return how many environments pay, how many fit, and what to measure next."""
    limit = series.throughput
    lines = [("throughput", series.estimate.statement if series.estimate else throughput_statement(limit))]
    if series.learning is not None:
        lines.append(("learning", learning_statement(series.learning)))
    lines.append(("memory", _memory(verdict.memory)))
    return lines if series.measure_next is None else [*lines, ("next", next_measurement(series.measure_next, limit))]


def _points(series: SeriesVerdict, confidence: float) -> Table:
    """Return a table of every size, with what a doubling from there gains; an estimate's steps may go to another size."""
    limit, estimate = series.throughput, series.estimate
    steps = {step.num_envs: step for step in (estimate.steps if estimate else limit.gains)}
    rows = {point.num_envs: ["", str(point.oom), "", "", "out of memory"] for point in limit.infeasible}
    for point in limit.points:
        size, step, gains, marks = point.num_envs, steps.get(point.num_envs), ["", ""], []
        if size in (limit.threshold_num_envs, estimate and estimate.num_envs):
            marks.append("estimate" if estimate else "threshold")
        if size in limit.resumes_at:
            marks.append("pays again")
        if step is not None:
            gains = [_signed(step.gain), span(step.gain_lower, step.gain_upper, _signed)]
            marks += [f"to {step.to_num_envs:,}"] if isinstance(step, Step) and step.to_num_envs != 2 * size else []
            marks += ["FPS fall"] if (step.gain if step.gain_upper is None else step.gain_upper) < 0.0 else []
        if point.failed:
            marks.append(f"{point.failed} more out of memory")
        rows[size] = [_fps(point.fps), str(len(point.fps_repeats)), *gains, ", ".join(marks)]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    has_repeats = any(len(point.fps_repeats) > 1 or point.failed for point in limit.points)
    for column in ("envs", "FPS", *["repeats"] * has_repeats, "a doubling gains", f"{confidence:.0%} interval"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    for size, (fps, repeats, *gains_and_marks) in sorted(rows.items()):
        table.add_row(f"{size:,}", fps, *[repeats] * has_repeats, *gains_and_marks)
    return table


def _limits(series: SeriesVerdict) -> list[tuple[str, str]]:
    """Return the interval of the limit, the law, and notes."""
    limit = series.throughput
    lines, notes = [], throughput_notes(limit)
    if series.estimate is not None:
        lines += _estimated(series.estimate)
        # An estimate uses steps between any two sizes, so notes about missing doublings do not apply.
        few = "one repeat per point" if all(len(p.fps_repeats) == 1 for p in limit.points) else "too few repeats"
        notes = [f"{few}: an estimate, not a verdict"] + infeasible_notes(limit)
    elif limit.gains:
        lines.append(("interval", f"the threshold is {threshold_interval(limit)}"))
    lines.append(("law", _law(limit.law)))
    notes += [f"learning: {note}" for note in (learning_notes(series.learning) if series.learning else [])]
    return lines + [("note", note) for note in notes]


def _estimated(estimate: Estimate) -> list[tuple[str, str]]:
    """Return the interval of an estimated limit, and notes on FPS that no saturating curve has."""
    where = "no measured size" if estimate.lowest is None else sizes_between(estimate.lowest, estimate.highest)
    by_law = "" if estimate.by_law is None else f"; the law puts it at {estimate.by_law:,.0f}"
    lines = [("interval", f"the limit is {where}, with {estimate.noise}{by_law}")]
    lines += [("note", f"FPS dip at {size:,} and recover: measure it again") for size in estimate.dips]
    jump = "after a step that gained little: saturating FPS cannot. Measure it and the next size again"
    return lines + [("note", f"FPS jump from {size:,} on, {jump}") for size in estimate.jumps]


def _law(law: Law | None) -> str:
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


def _memory(limit: MemoryLimit | None) -> str:
    if limit is None:
        return "not given: with a column vram_gb (peak, GB) you see how many environments fit"
    if not limit.identifiable:
        return limit.statement
    model = " + ".join(_scaled(gb, "GB", "MB", "kB") + UNITS[name] for name, gb in limit.terms_gb.items() if gb > 0.0)
    error = f"{model} (largest error {limit.largest_error_gb:.2g} GB)"
    for wall in limit.walls if limit.device_memory_gb is not None or limit.smallest_failed else []:
        if wall.largest_fitted is not None and (wall.largest_num_envs_lower or 0) < wall.largest_fitted:
            failed = "" if wall.smallest_failed is None else f", {wall.smallest_failed:,} did not"
            return f"{wall.largest_fitted:,} environments fit as measured{failed}; no line through the peaks tells what lies beyond"
    if limit.device_memory_gb is None:
        return f"{error}; give --device-gb to see how many environments fit"
    return f"{limit.statement}; {error}"


def _scaled(value: float, *units: str) -> str:
    """Return a value in the one of three `units`, each a thousandth of the one before, that suits it."""
    place = 0 if value >= 0.1 else 1 if value >= 1e-4 else 2
    return f"{value * 1e3**place:.3g} {units[place]}"


def _fps(value: float) -> str:
    """Return `12,345`, or `12.3` for a small number."""
    return f"{value:,.0f}" if value >= 100.0 else f"{value:.3g}"


def _signed(share: float) -> str:
    return percent(share) if share < 0.0 or share > 10.0 else f"+{percent(share)}"
