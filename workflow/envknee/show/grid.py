"""A table as lines of text that fit a width. Words stay whole: columns are merged, dropped, turned or split among several tables instead.

Input: a `words.tables.Table`. Output: lines without a title. Pure.
"""

import textwrap
from collections.abc import Iterator, Sequence

from envknee.study.errors import printable
from envknee.words.tables import Table

GAP = "   "
"""Between two columns."""

LEAST_COLUMN = 4
"""Characters below which no column is made narrower, however narrow the terminal is."""

MOST_TURNED = 4
"""Rows of a table that may become columns."""


def brief(table: Table, width: int) -> list[str]:
    """Return a line for each row, as far as that is possible. Columns that do not fit are dropped, the last one first.

    A column with the same cell in every row becomes a line below the table.
    """
    table = _printable(table)
    count = len(table.columns)
    for kept in range(count, 1, -1):
        part = _first(table, kept)
        for tried, said in _merged(part):
            if _natural_width(tried) <= width:
                return _drawn(tried, _natural_widths(tried)) + _wrapped(said, width)
        widths = _narrow(part, width)
        if kept < count and widths is not None:
            return _drawn(part, widths)
    return _forced(_first(table, 2), width)


def whole(table: Table, width: int) -> list[str]:
    """Return every cell. A table that is too wide is turned, or its columns are split among several tables, one below the other."""
    table = _printable(table)
    for tried, said in _merged(table):
        if _natural_width(tried) <= width:
            return _drawn(tried, _natural_widths(tried)) + _wrapped(said, width)
    widths = _narrow(table, width)
    if widths is not None and _wrapped_rows(table, widths) <= len(table.rows) / 2:
        return _drawn(table, widths)
    turned = _turned(table)
    if len(table.rows) <= MOST_TURNED and _natural_width(turned) <= width:
        return _drawn(turned, _natural_widths(turned))
    lines = list[str]()
    for part in _parts(table, width):
        widths = _narrow(part, width)
        lines += [*([""] if lines else []), *(_forced(part, width) if widths is None else _drawn(part, widths))]
    return lines


def _printable(table: Table) -> Table:
    """Return a table whose cells are one line each; a row must have a cell for each heading."""
    for row in table.rows:
        if len(row) != len(table.columns):
            raise ValueError(f"{table.title}: {len(row)} cells below {len(table.columns)} headings: {row}")
    rows = [tuple(map(printable, row)) for row in table.rows]
    return Table(table.title, tuple(map(printable, table.columns)), rows)


def _first(table: Table, count: int) -> Table:
    return Table(table.title, table.columns[:count], [row[:count] for row in table.rows])


def _merged(table: Table) -> Iterator[tuple[Table, list[str]]]:
    """Yield the table, then ever fewer of its columns, and a line for each that was taken out: one with the same cell in every row.

    The last columns are taken out first, and the first two stay.
    """
    said = list[str]()
    yield table, said
    for place in reversed(range(2, len(table.columns))):
        cells = {row[place] for row in table.rows}
        if len(cells) == 1 < len(table.rows):
            said = [f"{table.columns[place]}: {cells.pop() or 'nothing'} (every {table.columns[0]})", *said]
            table = _without(table, place)
            yield table, said


def _without(table: Table, place: int) -> Table:
    """Return a table without one of its columns."""
    rows = [row[:place] + row[place + 1 :] for row in table.rows]
    return Table(table.title, table.columns[:place] + table.columns[place + 1 :], rows)


def _turned(table: Table) -> Table:
    """Return a table whose rows are columns."""
    heads, *rows = zip(table.columns, *table.rows, strict=True)
    return Table(table.title, heads, rows)


def _parts(table: Table, width: int) -> Iterator[Table]:
    """Yield the first column with as many others as fit beside it, until all have been there."""
    widths = [_wanted(table, place) for place in range(len(table.columns))]
    start = 1
    while start < len(table.columns):
        end = start + 1
        while end < len(table.columns) and _total([widths[0], *widths[start : end + 1]]) <= width:
            end += 1
        columns = (table.columns[0], *table.columns[start:end])
        yield Table(table.title, columns, [(row[0], *row[start:end]) for row in table.rows])
        start = end


def _wanted(table: Table, place: int) -> int:
    """Return the width of a column whose cells stay on one line, and whose heading may not."""
    heading = max(map(len, table.columns[place].split()), default=0)
    return max([heading, *(len(row[place]) for row in table.rows)])


def _natural_widths(table: Table) -> list[int]:
    return [max(map(len, column)) for column in zip(table.columns, *table.rows, strict=True)]


def _natural_width(table: Table) -> int:
    return _total(_natural_widths(table))


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(GAP) * (len(widths) - 1)


def _narrow(table: Table, width: int) -> list[int] | None:
    """Return widths at which cells wrap at words, the widest column first; None if some word would not fit."""
    widths = _natural_widths(table)
    least = [
        max((len(word) for cell in column for word in cell.split()), default=0)
        for column in zip(table.columns, *table.rows, strict=True)
    ]
    while _total(widths) > width:
        free = [place for place in range(len(widths)) if widths[place] > least[place]]
        if not free:
            return None
        widths[max(free, key=lambda place: (widths[place], place))] -= 1
    return widths


def _forced(table: Table, width: int) -> list[str]:
    """Return a table with words that are cut: only where one alone is wider than its share of the terminal."""
    widths = _natural_widths(table)
    while _total(widths) > width and max(widths) > LEAST_COLUMN:
        widths[widths.index(max(widths))] -= 1
    return _drawn(table, widths)


def _wrapped_rows(table: Table, widths: Sequence[int]) -> int:
    """Return how many rows take more than one line."""
    return sum(
        any(len(_cell_lines(cell, width)) > 1 for cell, width in zip(row, widths, strict=True)) for row in table.rows
    )


def _drawn(table: Table, widths: Sequence[int]) -> list[str]:
    heads = _row_lines(table.columns, widths)
    rows = [line for row in table.rows for line in _row_lines(row, widths)]
    return [*heads, "─" * _total(widths), *rows]


def _row_lines(cells: Sequence[str], widths: Sequence[int]) -> list[str]:
    """Return a row, whose cells may take several lines."""
    columns = [_cell_lines(cell, width) for cell, width in zip(cells, widths, strict=True)]
    height = max(map(len, columns))
    padded = [column + [""] * (height - len(column)) for column in columns]
    lines = (
        GAP.join(f"{part:<{width}}" for part, width in zip(parts, widths, strict=True))
        for parts in zip(*padded, strict=True)
    )
    return [line.rstrip() for line in lines]


def _cell_lines(cell: str, width: int) -> list[str]:
    """Return the lines of a cell; a word that is wider than its column ends in an ellipsis."""
    lines = textwrap.wrap(cell, width, break_long_words=False, break_on_hyphens=False) or [""]
    return [line if len(line) <= width else f"{line[: max(width - 1, 0)]}…" for line in lines]


def _wrapped(lines: Sequence[str], width: int) -> list[str]:
    return [part for line in lines for part in textwrap.wrap(line, width, break_on_hyphens=False)]
