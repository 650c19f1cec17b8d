"""The verdict over a user's own table, for a terminal."""

from rich import box
from rich.console import Console
from rich.table import Table

from envknee.show.terminal import print_lines
from envknee.verdict.schema.table import SeriesVerdict, TableVerdict
from envknee.words.table import answer_lines, closing_lines, detail_lines, point_rows, series_label


def print_table_verdict(verdict: TableVerdict, console: Console) -> None:
    """Print the answer in three lines, then the points of every series, then details."""
    for series in verdict.series:
        label = series_label(series, verdict)
        if label:
            console.print(label, soft_wrap=True)
        print_lines(answer_lines(series, verdict), console)
    for series in verdict.series:
        label = series_label(series, verdict)
        console.print(f"\n{label}" if label else "", soft_wrap=True)
        console.print(_points(series, verdict.confidence))
        print_lines(detail_lines(series), console)
    print_lines(closing_lines(verdict), console)


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
