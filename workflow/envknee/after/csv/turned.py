"""Tables with sizes in their headings: `| engine | B=128 | B=1 024 |`, or rows and columns exchanged. Pure.

In: a grid. Out: the same numbers with a row for each size; the grid itself where its headings are no sizes.
"""

import re
from collections.abc import Sequence

from envknee.after.csv import cells
from envknee.after.csv.grid import Grid, Line
from envknee.after.csv.headings import meanings, names_environments

SIZE = re.compile(r"(?P<name>[^\d=:]*?)\s*[=:]?\s*(?P<number>\d[\d.,'’_\s]*[kK]?)\s*(?P<after>[A-Za-z ]*)")
MEASURES = (
    "fps",
    "fps_per_env",
    "fps_per_gpu",
    "iterations_per_second",
    "seconds_per_iteration",
    "seconds_per_step",
    "vram_gb",
    "ram_gb",
)
LEAST_SIZES = 2


def upright(grid: Grid) -> Grid:
    """Return a grid with a row for each size."""
    header = grid.header.cells
    first = next((place for place, cell in enumerate(header) if _size(cell, header[0]) is not None), len(header))
    sizes = [_size(cell, header[0]) for cell in header[first:]]
    known = [size for size in sizes if size is not None]
    if first == 0 or len(known) < max(LEAST_SIZES, len(sizes)) or len(set(known)) < len(known):
        return grid
    labels = header[:first]
    measures = [_measure(row.cells[0]) for row in grid.rows]
    if any(measures):
        return _exchanged(grid, known, first, measures)
    names = tuple("series" if names_environments([label]) or not label else label for label in labels)
    rows = tuple(
        Line(row.number, (*row.cells[:first], size, cell))
        for row in grid.rows
        for size, cell in zip(known, row.cells[first:], strict=False)
        if cells.plain(cell)
    )
    return Grid(Line(grid.header.number, (*names, "num_envs", "fps")), rows, grid.title, names, grid.counts)


def values_have_no_name(before: Grid, after: Grid) -> bool:
    """Tell whether `upright` named the values of a table FPS, for want of another name."""
    return (
        before is not after
        and after.header.cells[-1] == "fps"
        and not any(_measure(row.cells[0]) for row in before.rows)
    )


def _exchanged(grid: Grid, sizes: Sequence[str], first: int, measures: Sequence[bool]) -> Grid:
    """Return a table whose first column names its measures, with rows and columns exchanged."""
    used = [row for row, is_measure in zip(grid.rows, measures, strict=True) if is_measure]
    names = ("num_envs", *(" ".join(filter(None, row.cells[:first])) for row in used))
    rows = tuple(
        Line(
            used[0].number,
            (size, *(row.cells[first + place] if first + place < len(row.cells) else "" for row in used)),
        )
        for place, size in enumerate(sizes)
    )
    return Grid(Line(grid.header.number, names), rows, grid.title, (), grid.counts)


def _measure(label: str) -> bool:
    return any(one.column in MEASURES for one in meanings(label, "1 GB"))


def _size(heading: str, corner: str) -> str | None:
    """Return the size in a heading; None if it is no number of environments. `corner` is the first heading."""
    match = SIZE.fullmatch(cells.plain(heading))
    if match is None:
        return None
    name, after = match["name"].strip(), match["after"].strip()
    is_named = any(names_environments([word]) for word in (name, after) if word)
    is_bare = not name and not after and (names_environments([corner]) or float(match["number"][0]) > 0)
    return match["number"].strip() if is_named or is_bare else None
