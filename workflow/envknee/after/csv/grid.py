"""A table as it stands in a file: headings and cells with their lines, before anybody knows what they mean. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from envknee.study.errors import UserError

MOST_ROWS, MOST_COLUMNS, MOST_CHARACTERS = 5_000, 500, 1_000
"""Most lines of a table, cells of a line, and characters of a cell. Tables that people measure have a hundred lines."""

MOST_TABLES = 100
"""Most tables of a file."""


class Line(NamedTuple):
    """The cells of one line, stripped."""

    number: int
    """In the file, from 1."""
    cells: tuple[str, ...]


@dataclass(frozen=True)
class Grid:
    """One table of a file."""

    header: Line
    rows: tuple[Line, ...]
    title: str = ""
    """What the file says above the table."""
    settings: tuple[str, ...] = ()
    """Headings that part series by the layout, whatever they are called."""
    counts: str = "line"
    """What `Line.number` counts: JSON has records."""

    def at(self, source: str, line: int) -> str:
        """Return how a message names a line."""
        return f"{source}, {self.counts} {line}"


def bounded(lines: Iterable[Line], source: str) -> list[Line]:
    """Return the lines that have a cell with text.

    Raises:
        UserError: when the table is larger than a person can have measured: it would take minutes.
    """
    table: list[Line] = []
    for line in lines:
        what = _too_large(line.cells, len(table))
        if what is not None:
            raise UserError(
                f"{source}, line {line.number}: the table has {what}. Keep the rows and columns of the measurement alone."
            )
        cells = tuple(cell.strip() for cell in line.cells)
        if any(cells):
            table.append(Line(line.number, cells))
    return table


def tables(blocks: Iterable[tuple[str, Sequence[Line]]], source: str, least_columns: int = 1) -> list[Grid]:
    """Return a grid for each block of lines with its title: the first line is the header, and a row may end early.

    A block without a row, or with fewer columns, is no table. At most `MOST_TABLES` are returned.
    """
    grids = (_grid(title, bounded(lines, source), least_columns) for title, lines in blocks)
    return list(islice((grid for grid in grids if grid is not None), MOST_TABLES))


def _grid(title: str, table: Sequence[Line], least_columns: int) -> Grid | None:
    if len(table) < 2 or len(table[0].cells) < least_columns:
        return None
    header, *rows = table
    return Grid(header, tuple(_padded(row, len(header.cells)) for row in rows), title)


def _padded(row: Line, columns: int) -> Line:
    """Return a row with at least as many cells as the header."""
    return Line(row.number, row.cells + ("",) * (columns - len(row.cells)))


def _too_large(cells: Sequence[str], rows_before: int) -> str | None:
    if rows_before > MOST_ROWS:
        return f"more than {MOST_ROWS:,} rows"
    if len(cells) > MOST_COLUMNS:
        return f"{len(cells):,} columns, more than {MOST_COLUMNS:,}"
    longest = max(map(len, cells), default=0)
    if longest > MOST_CHARACTERS:
        return f"a cell of {longest:,} characters, more than {MOST_CHARACTERS:,}"
    return None


def title_of(above: Sequence[str]) -> str:
    """Return the last text of the lines between two tables, without marks of headings."""
    for text in reversed(above[-20:]):
        plain = text.strip().strip("#*_=:-~`\"'|+. ").strip()
        if plain:
            return plain if len(plain) <= 60 else f"{plain[:57]}..."
    return ""
