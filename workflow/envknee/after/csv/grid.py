"""A table as it stands in a file: headings and cells with their lines, before anybody knows what they mean. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
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


def _too_large(cells: Sequence[str], rows_before: int) -> str | None:
    if rows_before > MOST_ROWS:
        return f"more than {MOST_ROWS:,} rows"
    if len(cells) > MOST_COLUMNS:
        return f"{len(cells):,} columns, more than {MOST_COLUMNS:,}"
    longest = max(map(len, cells), default=0)
    if longest > MOST_CHARACTERS:
        return f"a cell of {longest:,} characters, more than {MOST_CHARACTERS:,}"
    return None


def title_of(lines: Sequence[str], above: int) -> str:
    """Return the last text above a line (index from 0), without marks of headings."""
    for text in reversed(lines[max(0, above - 20) : above]):
        plain = text.strip().strip("#*_=:-~`\"'|+. ").strip()
        if plain:
            return plain if len(plain) <= 60 else f"{plain[:57]}..."
    return ""
