"""Tables between pipes: Markdown with or without pipes at the ends, grid tables of reStructuredText, psql and Org. Pure."""

import re
from collections.abc import Iterator, Sequence

from envknee.after.csv.grid import MOST_TABLES, Grid, Line, bounded, title_of

RULE = re.compile(r"[|:\-+=\s]*[\-=][|:\-+=\s]*")
"""A line between rows: `|---|---:|`, `--+--`, `+===+===+`."""

ESCAPED = re.compile(r"(?<!\\)\|")


def read(lines: Sequence[str], source: str) -> list[Grid]:
    """Return every block of lines with pipes."""
    grids = []
    for first, block in _blocks(lines):
        table = bounded(block, source)
        if len(table) >= 2:
            header, *rows = table
            grids.append(Grid(header, tuple(_padded(row, len(header.cells)) for row in rows), title_of(lines, first)))
        if len(grids) == MOST_TABLES:
            break
    return grids


def _blocks(lines: Sequence[str]) -> Iterator[tuple[int, list[Line]]]:
    """Yield the index of the first line of each block, and its lines."""
    first, block = 0, list[Line]()
    for index, text in enumerate([*lines, ""]):
        stripped = text.strip()
        is_rule = RULE.fullmatch(stripped) is not None and ("|" in stripped or "+" in stripped)
        if not is_rule and "|" not in stripped:
            if block:
                yield first, block
            block = []
            continue
        if not block:
            first = index
        block.append(Line(index + 1, () if is_rule else _cells(stripped)))


def _cells(line: str) -> tuple[str, ...]:
    inner = line[1:] if line.startswith("|") else line
    inner = inner[:-1] if inner.endswith("|") and not inner.endswith("\\|") else inner
    return tuple(cell.replace("\\|", "|") for cell in ESCAPED.split(inner))


def _padded(row: Line, columns: int) -> Line:
    """Return a row with as many cells as the header: Markdown lets a row end early."""
    return Line(row.number, row.cells + ("",) * (columns - len(row.cells)))
