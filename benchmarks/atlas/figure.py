"""FPS by num_envs and the gain of each doubling, of every kept task: two panels each, one below the other.

`python -m benchmarks.atlas.figure` writes docs/atlas.svg from results-published/atlas.
"""

import argparse
import math
from collections.abc import Sequence
from pathlib import Path

from envknee.show.figures import canvas
from envknee.show.figures.style import DASHED, GREY, INK, look_at
from envknee.show.figures.throughput import FILLS, fps_axis, fps_line
from envknee.study.errors import UserError, run_command
from envknee.study.files import write_atomically
from envknee.verdict.schema.throughput import ThroughputLimit
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.atlas import kept
from benchmarks.atlas.kept import Measured

COLUMNS = 3
FPS_SHARE, GAIN_SHARE = 1.5, 1.0
"""Relative heights of the two panels of a task."""

ROW_IN = 3.4
"""Height of a row of tasks, both panels together."""

MOST_TICKS = 5
LEAST_TOP = 0.6
"""The gains' axis goes up to this share at least, so that small gains look small."""


def drawn(every: Sequence[Measured]) -> list[tuple[Measured, ThroughputLimit]]:
    """Return the tasks with a curve, and their limits."""
    found = [(measured, measured.arm.recommended) for measured in every]
    return [(measured, limit) for measured, limit in found if limit is not None and limit.gains]


def draw(every: Sequence[Measured]) -> Figure:
    """Return the small panels, in the order of the tasks.

    Raises:
        UserError: where no task has a doubling.
    """
    shown = drawn(every)
    if not shown:
        raise UserError("no task of the atlas has a doubling yet. Run `python -m benchmarks.atlas`, then draw again")
    columns = min(COLUMNS, len(shown))
    rows = math.ceil(len(shown) / columns)
    figure, panels = canvas.panels(
        title(shown), "; ".join(sorted({name for measured, _ in shown for name in measured.arm.hardware})),
        height=1.3 + ROW_IN * rows, ratios=(FPS_SHARE, GAIN_SHARE) * rows, columns=columns, share=False, gaps=(0.6, 0.45),
    )  # fmt: skip
    for place, (measured, limit) in enumerate(shown):
        row, column = divmod(place, columns)
        upper, lower = panels[2 * row * columns + column], panels[(2 * row + 1) * columns + column]
        _draw_task(upper, lower, measured, limit)
        if column == 0:
            upper.set_ylabel("FPS", fontsize=8)
            lower.set_ylabel("gain of doubling", fontsize=8)
        if place + columns >= len(shown):
            lower.set_xlabel("environments (num_envs)", fontsize=8)
    for axes in panels:
        if not axes.lines:
            axes.set_visible(False)
    delta = shown[0][1].delta
    keys = [
        canvas.key("FPS, mean of repeats"),
        canvas.key("one repeat", size=3.2),
        canvas.line_key("fitted law", linestyle=(0, (3, 2))),
        canvas.line_key(f"cut-off {delta:.0%}", linestyle=DASHED),
        canvas.filled_key("stops paying", FILLS["stopped"]),
        canvas.filled_key("pays", FILLS["pays"]),
        canvas.filled_key("undecided", FILLS["undecided"]),
        canvas.line_key("knee", INK),
    ]
    canvas.legend(panels[columns - 1], keys)
    return figure


def title(shown: Sequence[tuple[Measured, ThroughputLimit]]) -> str:
    """Return where the knees lie, in a sentence."""
    knees = sorted(limit.threshold_num_envs for _, limit in shown if limit.threshold_num_envs is not None)
    if not knees:
        return f"None of {len(shown)} tasks has reached its knee"
    between = f"at {knees[0]:,}" if knees[0] == knees[-1] else f"from {knees[0]:,} to {knees[-1]:,}"
    tasks = "1 task" if len(shown) == 1 else f"{len(knees)} of {len(shown)} tasks"
    return f"The knee of {tasks} lies {between} environments"


def _draw_task(upper: Axes, lower: Axes, measured: Measured, limit: ThroughputLimit) -> None:
    """Draw a task's FPS, and below them the gain of each doubling at its smaller num_envs."""
    look = look_at(0, measured.search.task)
    fps = [value for point in limit.points for value in point.fps_repeats]
    fps_axis(upper, min(fps), max(fps), 0)
    fps_line(upper, limit, look)
    upper.set_title(measured.search.task, fontsize=9)
    upper.yaxis.set_major_formatter(canvas.thousands)
    for gain in limit.gains:
        ends = gain.gain_lower, gain.gain_upper
        canvas.value_mark(lower, gain.num_envs, gain.gain, ends, look, FILLS[gain.shown(limit.delta)])
    lower.axhline(0.0, color=GREY, linewidth=0.8)
    lower.axhline(limit.delta, color=INK, linewidth=1.0, linestyle=DASHED)
    bounds = [bound for gain in limit.gains for bound in (gain.gain_lower, gain.gain_upper)]
    lower.set_ylim(*canvas.readable([*(gain.gain for gain in limit.gains), -0.05, LEAST_TOP], bounds))
    lower.yaxis.set_major_formatter(canvas.PERCENT)
    canvas.arrows_beyond(upper)
    canvas.arrows_beyond(lower)
    sizes = sorted({point.num_envs for point in limit.points})
    for axes in (upper, lower):
        if limit.threshold_num_envs is not None:
            axes.axvline(limit.threshold_num_envs, color=INK, linewidth=1.0, zorder=1)
        canvas.sizes_axis(axes, sizes, "")
        canvas.size_ticks(axes, sizes, math.log2(max(sizes[-1] / sizes[0], 2)) / MOST_TICKS)
        axes.tick_params(labelsize=7)
    upper.set_xticklabels([])


def main() -> None:
    """Draw the kept tasks of the atlas."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, nargs="?", default=kept.ROOT / "docs" / "atlas.svg", help="(docs/atlas.svg)")
    parser.add_argument("--kept", type=Path, default=kept.FOLDER, help="the kept tasks (results-published/atlas)")
    given = parser.parse_args()
    write_atomically(given.file, canvas.saved(draw(kept.measured(given.kept)), "svg"))


if __name__ == "__main__":
    run_command(main)
