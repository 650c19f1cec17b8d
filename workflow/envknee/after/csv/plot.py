"""FPS of a user's own table against num_envs, with its law."""

import itertools
from pathlib import Path

from matplotlib.figure import Figure

from envknee.show.figures import canvas
from envknee.show.figures.style import COLOURS, INK, wrapped
from envknee.verdict.schema.table import TableVerdict
from envknee.words.table import found_briefly, series_label


def plot(verdict: TableVerdict, file: Path) -> None:
    """Draw every series of a table into `file`."""
    figure = Figure(figsize=(7.0, 4.5), layout="constrained")
    axes = figure.add_subplot()
    for series, colour in zip(verdict.series, itertools.cycle(COLOURS), strict=False):
        points, limit = series.throughput.points, series.throughput
        if not points:
            continue
        sizes = [point.num_envs for point in points]
        fps = [point.fps for point in points]
        axes.plot(sizes, fps, "o-", color=colour, linewidth=0.6, label=series_label(series, verdict) or "measured")
        if limit.law is not None and limit.law.used:
            along = canvas.densely(sizes)
            fps = [limit.horizon * size / (limit.law.t0_s + limit.law.s_per_env * size) for size in along]
            axes.plot(along, fps, color=colour, linewidth=1.0)
        where = limit.threshold_num_envs or (series.estimate.num_envs if series.estimate else None)
        if where is not None:
            what = "limit" if limit.threshold_num_envs else "estimate"
            axes.axvline(where, color=colour, linestyle="--", linewidth=1.0, label=f"{what}: {where:,}")
    sizes = [point.num_envs for series in verdict.series for point in series.throughput.points]
    canvas.sizes_axis(axes, sizes or [1], "Environments (num_envs)")
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(canvas.thousands)
    axes.set_ylabel("FPS")
    found = {
        series_label(series, verdict): found_briefly(series)
        for series in verdict.series[:3]  # as many as a title has room for
    }
    axes.set_title(wrapped(canvas.by_arm(found), 75), color=INK, fontsize=11, loc="left")
    axes.legend()
    figure.savefig(file)
