"""Tables with a separator between cells: CSV, semicolons of many countries' spreadsheets, and tabs. Pure."""

import csv
import re
from collections.abc import Iterator, Sequence

from envknee.after.csv.grid import Grid, Line, bounded
from envknee.study.errors import UserError

NUMBERS = re.compile(r"[\d\s.,;eE+\-]+")


class NotDelimited(UserError):
    """The text is not CSV."""


def commas(lines: Sequence[str], source: str) -> list[Grid]:
    """Return the table between commas, if the text has one."""
    return _one(lines, source, ",")


def semicolons(lines: Sequence[str], source: str) -> list[Grid]:
    """Return the table between semicolons, if the text has one."""
    return _one(lines, source, ";")


def tabs(lines: Sequence[str], source: str) -> list[Grid]:
    """Return the table between tabs, if the text has one. Quotes have no meaning there."""
    if not any("\t" in line for line in lines):
        return []
    # A comment becomes a blank line, so that later lines keep their numbers.
    split = (Line(number, tuple(line.split("\t"))) for number, line in enumerate(_without_comments(lines), 1))
    return _grids(bounded(split, source))


def _one(lines: Sequence[str], source: str, separator: str) -> list[Grid]:
    if not any(separator in line for line in lines):
        return []
    return _grids(bounded(_rows(_without_comments(lines), separator, source), source))


def _rows(lines: Sequence[str], separator: str, source: str) -> Iterator[Line]:
    reader = csv.reader(lines, delimiter=separator, strict=True)
    try:
        for cells in reader:
            yield Line(reader.line_num, tuple(cells))
    except csv.Error as error:
        raise NotDelimited(
            f"{source}, line {reader.line_num}: not CSV: {error}. Close every quote, or leave quotes out."
        ) from error


def _grids(table: Sequence[Line]) -> list[Grid]:
    """Return the table below its header; single cells above it are a title."""
    title = ""
    while table and len(table[0].cells) == 1 and len(table) > 1 and len(table[1].cells) > 1:
        title, table = table[0].cells[0], table[1:]
    return [Grid(table[0], tuple(table[1:]), title)] if table else []


def _without_comments(lines: Sequence[str]) -> list[str]:
    """Return lines with comments blank, but for a heading that a comment sign begins: numbers alone follow it."""
    heading = _commented_heading(lines)
    plain = []
    for number, line in enumerate(lines):
        is_comment = line.lstrip().startswith("#")
        if number == heading:
            plain.append(line)
        else:
            plain.append("" if is_comment else line)
    return plain


def _commented_heading(lines: Sequence[str]) -> int | None:
    """Return the index of the last comment above the first line, if that line has numbers alone; None otherwise."""
    last = None
    for number, line in enumerate(lines):
        if line.lstrip().startswith("#"):
            last = number
        elif line.strip():
            return last if NUMBERS.fullmatch(line) else None
    return None
