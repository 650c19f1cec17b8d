"""The list-table and csv-table directives of reStructuredText. Pure."""

import re
from collections.abc import Sequence

from envknee.after.csv.grid import Grid, Line, bounded
from envknee.after.csv.layouts import delimited

DIRECTIVE = re.compile(r"\s*\.\.\s+(list-table|csv-table)::\s*(?P<title>.*)")
OPTION = re.compile(r"\s*:(?P<name>[\w-]+):\s*(?P<value>.*)")
ITEM = re.compile(r"\s*(?P<row>\*\s+)?-(?:\s+(?P<cell>.*))?")


def read(lines: Sequence[str], source: str) -> list[Grid]:
    """Return every table of these directives."""
    grids = []
    for index, text in enumerate(lines):
        found = DIRECTIVE.fullmatch(text)
        if found is None:
            continue
        body = _body(lines, index)
        table = _list(body) if found[1] == "list-table" else _csv(body, source)
        table = bounded(table, source)
        if len(table) >= 2:
            grids.append(Grid(table[0], tuple(table[1:]), found["title"].strip()))
    return grids


def _body(lines: Sequence[str], directive: int) -> list[Line]:
    """Return the indented lines below a directive, a cell each."""
    body = []
    for index in range(directive + 1, len(lines)):
        text = lines[index]
        if text.strip() and not text.startswith((" ", "\t")):
            break
        body.append(Line(index + 1, (text,)))
    return body


def _list(body: Sequence[Line]) -> list[Line]:
    rows: list[Line] = []
    for number, (text,) in body:
        item = ITEM.fullmatch(text)
        if item is None:
            continue
        cell = item["cell"] or ""
        if item["row"] or not rows:
            rows.append(Line(number, (cell,)))
        else:
            rows[-1] = Line(rows[-1].number, (*rows[-1].cells, cell))
    return rows


def _csv(body: Sequence[Line], source: str) -> list[Line]:
    rows: list[Line] = []
    for number, (text,) in body:
        option = OPTION.fullmatch(text)
        line = text.strip()
        if option is not None and option["name"] == "header":
            line = option["value"]
        elif option is not None:
            continue
        for grid in delimited.commas([line], source):
            rows.append(Line(number, grid.header.cells))
    return rows
