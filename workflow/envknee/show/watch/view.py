"""The layout of the live view: a `State` in, what `rich` shows out. Pure."""

import time
from collections.abc import Mapping, Sequence

from rich.console import Console, Group, RenderableType
from rich.text import Text

from envknee.show.watch.state import MARKS, Grid, Mark, Running, State
from envknee.study.errors import printable
from envknee.words.numbers import counted
from envknee.words.progress import trial_words

SIGNS: Mapping[str, tuple[str, str]] = {
    "running": ("▶", "yellow"),
    "failed": ("x", "red"),
    "do not fit": ("▲", "magenta"),
    "done": ("■", "green"),
    "skipped": ("-", "dim"),
    "waiting": ("·", "dim"),
}
"""Sign and colour of each mark. A cell with several trials shows the first of these that occurs."""


def fitting_view(state: State, console: Console) -> RenderableType:
    """Return the view as it fits the terminal's height: if grids are too tall, with a line in place of each."""
    whole = view_of(state)
    return whole if len(console.render_lines(whole)) < console.height else view_of(state, with_grids=False)


def view_of(state: State, with_grids: bool = True) -> RenderableType:
    """Return the whole view; lines wrap at the width of the terminal. Without grids, each has one line that counts its trials."""
    parts: list[RenderableType] = [Text(printable(f"{state.study}: {counts_words(state)}"))]
    if with_grids:
        parts.append(legend())
        for grid in state.grids:
            parts += [Text(), *_grid(grid)]
    else:
        parts += [Text(), *(Text(printable(grid_words(grid))) for grid in state.grids)]
    if state.findings:
        parts += [Text(), *(Text(printable(said)) for said in state.findings)]
    parts.append(Text())
    parts += [Text(printable(running_line(trial))) for trial in state.running]
    if state.end is not None:
        parts.append(Text(state.end, style="bold"))
    elif state.time_left:
        parts.append(Text(state.time_left))
    return Group(*parts)


def counts_words(state: State) -> str:
    """Return `12 of 27 done, 1 running, 2 failed, 12 waiting`."""
    others = (
        f"{state.counts[mark]} {mark}"
        for mark in ("running", "failed", "do not fit", "skipped", "waiting")
        if state.counts[mark]
    )
    return ", ".join([f"{state.counts['done']} of {state.planned} done", *others])


def running_line(trial: Running) -> str:
    """Return what runs, and since when by this machine's clock."""
    if trial.began_unix_s is None:
        return f"runs: {trial_words(trial.request)}"
    since = time.strftime("%H:%M:%S", time.localtime(trial.began_unix_s))
    return f"runs since {since}: {trial_words(trial.request)}"


def grid_words(grid: Grid) -> str:
    """Return how many trials of an arm have ended: `throughput stock: 12 trials ended`."""
    ended = sum(mark != "running" for cells in grid.rows.values() for cell in cells for mark in cell)
    return f"{grid.kind} {grid.arm}: {counted(ended, 'trial')} ended"


def legend() -> Text:
    """Return what the signs mean."""
    shown = Text()
    for mark, (sign, style) in SIGNS.items():
        shown.append(sign, style).append(f" {mark}  ")
    return shown


def _grid(grid: Grid) -> list[Text]:
    columns = "a row for each size, a column for each repeat"
    if grid.is_joint:
        columns = "a row for each size; first the search, then a column for each round of fresh trials"
    number = ", with the number of its trials so far" if grid.has_several else ""
    lines = [Text(printable(f"{grid.kind} {grid.arm} ({columns}{number})"))]
    width = max(len(f"{size:,}") for size in grid.rows)
    cell_width = max((len(_cell(cell, grid.has_several)) for cells in grid.rows.values() for cell in cells), default=1)
    for size, cells in grid.rows.items():
        line = Text(f"{size:>{width},} ")
        for cell, has_ended in zip(cells, grid.ended, strict=True):
            is_left_out = grid.is_joint and has_ended and not cell
            shown = Text(" ") if is_left_out else _cell(cell, grid.has_several)
            line.append(" ").append_text(shown).append(" " * (cell_width - len(shown)))
        lines.append(line)
    return lines


def _cell(marks: Sequence[Mark], has_several: bool) -> Text:
    shown = next(mark for mark in MARKS if mark in (*marks, MARKS[-1]))
    sign, style = SIGNS[shown]
    return Text(f"{sign}{len(marks)}" if has_several and marks else sign, style)
