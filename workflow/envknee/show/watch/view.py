"""The layout of the live view: a `State` in, what `rich` shows out. Pure."""

import time
from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from envknee.show.watch.state import Grid, Mark, Running, State
from envknee.study.errors import printable
from envknee.words.progress import trial_words

SIGNS: Mapping[Mark, tuple[str, str]] = {
    "running": ("▶", "yellow"),
    "failed": ("x", "red"),
    "done": ("■", "green"),
    "skipped": ("-", "dim"),
    "waiting": ("·", "dim"),
}
"""Sign and colour of each mark. In a cell with several trials the first of these that occurs is shown, with their number."""


def view_of(state: State) -> RenderableType:
    """Return the whole view; lines wrap at the width of the terminal."""
    parts: list[RenderableType] = [Text(printable(f"{state.study}: {counts_words(state)}")), legend()]
    for grid in state.grids:
        parts += [Text(), *_grid(grid)]
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
        f"{state.counts[mark]} {mark}" for mark in ("running", "failed", "skipped", "waiting") if state.counts[mark]
    )
    return ", ".join([f"{state.counts['done']} of {state.planned} done", *others])


def running_line(trial: Running) -> str:
    """Return what runs, and since when by this machine's clock."""
    if trial.began_unix_s is None:
        return f"runs: {trial_words(trial.request)}"
    since = time.strftime("%H:%M:%S", time.localtime(trial.began_unix_s))
    return f"runs since {since}: {trial_words(trial.request)}"


def legend() -> Text:
    """Return what the signs mean."""
    shown = Text()
    for mark, (sign, style) in SIGNS.items():
        shown.append(sign, style).append(f" {mark}  ")
    return shown


def _grid(grid: Grid) -> list[Text]:
    lines = [Text(printable(f"{grid.kind} {grid.arm} (a row for each size, a column for each repeat)"))]
    width = max(len(f"{size:,}") for size in grid.rows)
    for size, cells in grid.rows.items():
        line = Text(f"{size:>{width},} ")
        for cell in cells:
            line.append(" ").append_text(_cell(cell))
        lines.append(line)
    return lines


def _cell(marks: Sequence[Mark]) -> Text:
    shown = next((mark for mark in SIGNS if mark in marks), "waiting")
    sign, style = SIGNS[shown]
    number = str(len(marks)) if len(marks) > 1 else ""
    return Text(f"{sign}{number}", style)
