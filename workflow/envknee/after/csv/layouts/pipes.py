"""Tables between pipes: Markdown with or without pipes at the ends, grid tables of reStructuredText, psql and Org. Pure."""

import re
from collections.abc import Iterator, Sequence

from envknee.after.csv.grid import Grid, Line, tables, title_of

RULE = re.compile(r"[|:\-+=\s]*[\-=][|:\-+=\s]*")
"""A line between rows: `|---|---:|`, `--+--`, `+===+===+`."""

ESCAPED = re.compile(r"(?<!\\)\|")


def read(lines: Sequence[str], source: str) -> list[Grid]:
    """Return every block of lines with pipes."""
    return tables(_blocks(lines), source)


def _blocks(lines: Sequence[str]) -> Iterator[tuple[str, list[Line]]]:
    """Yield the title of each block, and its lines."""
    first, ended, block = 0, 0, list[Line]()
    for index, text in enumerate([*lines, ""]):
        stripped = text.strip()
        is_rule = RULE.fullmatch(stripped) is not None and ("|" in stripped or "+" in stripped)
        if not is_rule and "|" not in stripped:
            if block:
                yield title_of(lines[ended:first]), block
                ended = index
            block = []
            continue
        if not block:
            first = index
        block.append(Line(index + 1, () if is_rule else _cells(stripped)))


def _cells(line: str) -> tuple[str, ...]:
    inner = line[1:] if line.startswith("|") else line
    inner = inner[:-1] if inner.endswith("|") and not inner.endswith("\\|") else inner
    return tuple(cell.replace("\\|", "|") for cell in ESCAPED.split(inner))
