"""FPS of a user's own table against num_envs, with its law."""

import textwrap
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from envknee.after.csv.verdict import SeriesVerdict, TableVerdict
from envknee.show.figures.canvas import sizes_axis, thousands
from envknee.show.figures.style import COLOURS, INK

MOST_IN_TITLE = 3
"""Most series in the title."""


def _finding(series: SeriesVerdict) -> str:
    said = series.estimate.statement if series.estimate else series.throughput.statement.partition(";")[0]
    return f"{series.label}: {said}" if series.label else said[:1].upper() + said[1:]


def plot(verdict: TableVerdict, file: Path) -> None:
    """Draw every series of a table into `file`."""
    figure = Figure(figsize=(7.0, 4.5), layout="constrained")
    axes = figure.add_subplot()
    for series, colour in zip(verdict.series, np.resize(np.array(COLOURS), len(verdict.series)).tolist(), strict=True):
        points, limit = series.throughput.points, series.throughput
        if not points:
            continue
        sizes = [point.num_envs for point in points]
        fps = [point.fps for point in points]
        axes.plot(sizes, fps, "o-", color=colour, linewidth=0.6, label=series.label or "measured")
        if limit.law is not None and limit.law.used:
            along = np.geomspace(sizes[0], sizes[-1], 200)
            seconds = limit.law.t0_s + limit.law.s_per_env * along
            axes.plot(along, limit.horizon * along / seconds, color=colour, linewidth=1.0)
        where = limit.threshold_num_envs or (series.estimate.num_envs if series.estimate else None)
        if where is not None:
            what = "limit" if limit.threshold_num_envs else "estimate"
            axes.axvline(where, color=colour, linestyle="--", linewidth=1.0, label=f"{what}: {where:,}")
    sizes = [point.num_envs for series in verdict.series for point in series.throughput.points]
    sizes_axis(axes, sizes or [1], "Environments (num_envs)")
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(thousands)
    axes.set_ylabel("Frames per second")
    title = "\n".join(textwrap.fill(_finding(series), 75) for series in verdict.series[:MOST_IN_TITLE])
    axes.set_title(title or verdict.source, color=INK, fontsize=11, loc="left")
    axes.legend()
    figure.savefig(file)
