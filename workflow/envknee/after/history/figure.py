"""Each measure over the versions: repeats as points, levels between changes as lines, and a mark where a change begins."""

import math
import statistics
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from envknee.show.figures import canvas
from envknee.show.figures.style import COLOURS, DASHED, GREY, INK, MARKERS
from envknee.study.errors import UserError
from envknee.study.files import check_folder_is_there, write_atomically
from envknee.verdict.schema.history import History, MeasureHistory
from envknee.words import compare, history

PANEL_IN = 2.1
"""Height of a panel."""

MOST_LETTERS = 60
"""Names of versions with more letters in all stand aslant."""

KINDS = {".svg": "svg", ".png": "png"}

LOOKS = {"better": COLOURS[0], "worse": COLOURS[1]}


def check_place(path: Path) -> None:
    """Check, before anything is computed, that a figure can be written.

    Raises:
        UserError: for another suffix than .svg and .png, or where the folder does not exist.
    """
    if path.suffix not in KINDS:
        raise UserError(f"--figure {path}: expected a name that ends in {' or '.join(KINDS)}, such as history.svg")
    check_folder_is_there("--figure", path)


def write_figure(found: History, path: Path) -> None:
    """Draw a history into a file."""
    write_atomically(path, canvas.saved(draw(found), "png" if path.suffix == ".png" else "svg"))


def draw(found: History) -> Figure:
    """Return a panel for each measure on each machine."""
    panels = [(machine, own) for machine in found.machines for own in machine.measures]
    names = [_short(name) for name in found.versions]
    is_long = sum(map(len, names)) > MOST_LETTERS
    below = 0.5 + (max(map(len, names)) * 0.045 if is_long else 0.0)
    height = 1.2 + below + PANEL_IN * len(panels)
    figure, all_axes = canvas.panels(
        history.finding(found), history.heading(found), height, ratios=(1.0,) * len(panels), below=below
    )
    for axes, (machine, own) in zip(all_axes, panels, strict=True):
        _draw_measure(axes, own, [found.versions.index(version) for version in machine.versions])
        axes.set_ylabel(f"{compare.MEASURES[own.measure]},\nin parts of the first")
        named = [canvas.note(machine.machine)] if len(found.machines) > 1 else []
        canvas.legend(axes, [*named, *_keys(own, found.confidence)])
    last = all_axes[-1]
    slanted = {"rotation": 30, "ha": "right"} if is_long else {}
    last.set_xticks(range(len(names)), names, fontsize=8, **slanted)
    last.set_xlim(-0.5, len(found.versions) - 0.5)
    return figure


def _short(name: str) -> str:
    """Return a name as the axis has room for it: its end tells versions apart."""
    return name if len(name) <= 30 else f"…{name[-29:]}"


def _draw_measure(axes: Axes, own: MeasureHistory, places: list[int]) -> None:
    """Draw one measure of versions that stand at `places`."""
    for place, level in zip(places, own.levels, strict=True):
        axes.plot(
            [place] * len(level.repeats), level.repeats, MARKERS[0], color=GREY, markersize=4, alpha=0.7, zorder=3
        )
    names = [level.version for level in own.levels]
    begins = [names.index(step.after) for step in own.changes]
    for start, end in zip([0, *begins], [*begins, len(names)], strict=True):
        every = [math.log(value) for level in own.levels[start:end] for value in level.repeats]
        height = math.exp(statistics.fmean(every))
        axes.plot([places[start] - 0.35, places[end - 1] + 0.35], [height] * 2, color=INK, linewidth=1.8, zorder=4)
    for begin, step in zip(begins, own.changes, strict=True):
        middle = (places[begin - 1] + places[begin]) / 2
        axes.axvline(middle, color=LOOKS[step.change], linewidth=1.6, linestyle=DASHED, zorder=2)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.4g}")


def _keys(own: MeasureHistory, confidence: float) -> list:
    keys = [
        canvas.key("a repeat, over all points", MARKERS[0], GREY, size=4),
        canvas.line_key("mean between changes", INK, 1.8),
    ]
    for change in dict.fromkeys(step.change for step in own.changes):
        keys.append(canvas.line_key(f"a change, {change}", LOOKS[change], 1.6, linestyle=DASHED))
    return [*keys, canvas.note(f"error of all changes\ntogether: {1.0 - confidence:.0%}")]
