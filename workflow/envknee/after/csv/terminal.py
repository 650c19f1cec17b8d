"""The verdict over a user's own table, for a terminal."""

from rich import box
from rich.console import Console
from rich.table import Table

from envknee.show.terminal import print_lines
from envknee.verdict.schema.table import Beside, Pair, SeriesVerdict, TableVerdict
from envknee.words.table import (
    answer_lines,
    closing_lines,
    detail_lines,
    no_curve_lines,
    point_rows,
    scaling_lines,
    series_label,
)
from envknee.words.tables_beside import beside_notes, beside_statement, pair_lines, ratio_rows


def print_table_verdict(verdict: TableVerdict, console: Console) -> None:
    """Print the answer in three lines, then the points of every series, then details."""
    if verdict.no_curve:
        print_lines(no_curve_lines(verdict), console)
        console.print("")
        console.print(_single_points(verdict))
        print_lines(closing_lines(verdict), console)
        return
    for series in verdict.series:
        label = series_label(series, verdict)
        if label:
            console.print(label, soft_wrap=True)
        print_lines(answer_lines(series, verdict), console)
    print_lines([*scaling_lines(verdict), *(("beside", beside_statement(one)) for one in verdict.beside)], console)
    for series in verdict.series:
        label = series_label(series, verdict)
        console.print(f"\n{label}" if label else "", soft_wrap=True)
        console.print(_points(series, verdict.confidence))
        print_lines(detail_lines(series), console)
    for beside in verdict.beside:
        console.print("")
        _print_beside(beside, verdict.confidence, console)
    print_lines(closing_lines(verdict), console)


def print_pair(pair: Pair, console: Console) -> None:
    """Print two tables side by side: the answer, then every size."""
    print_lines(pair_lines(pair), console)
    for beside in pair.beside:
        console.print("")
        _print_beside(beside, pair.confidence, console)


def _print_beside(beside: Beside, confidence: float, console: Console) -> None:
    console.print(f"{beside.second} / {beside.first}", soft_wrap=True)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in ("envs", "FPS ratio", f"{confidence:.0%} interval"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    for row in ratio_rows(beside):
        table.add_row(*row)
    console.print(table)
    print_lines([("note", note) for note in beside_notes(beside)], console)


def _single_points(verdict: TableVerdict) -> Table:
    """Return a table of series that have one size each."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("", overflow="fold")
    for column in ("envs", "FPS"):
        table.add_column(column, justify="right", no_wrap=True)
    for series in verdict.series:
        for row in point_rows(series):
            table.add_row(series_label(series, verdict), row.size, row.fps or row.remark)
    return table


def _points(series: SeriesVerdict, confidence: float) -> Table:
    """Return a table of every size; repeats have a column if there are any."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    has_repeats = any(len(point.fps_repeats) > 1 or point.failed for point in series.throughput.points)
    for column in ("envs", "FPS", *["repeats"] * has_repeats, "a doubling gains", f"{confidence:.0%} interval"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    for row in point_rows(series):
        repeats = [row.repeats] * has_repeats
        table.add_row(row.size, row.fps, *repeats, row.gain, row.interval, row.remark)
    return table
