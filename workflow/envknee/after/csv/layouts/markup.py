"""Tables in HTML, of a page or within Markdown. Pure.

Tags are found by patterns in one pass, because html.parser of Python 3.11 takes a minute for 60 kB of `<a `: its time grows with the
square. A cell that spans rows or columns counts in each of them, and a heading of several rows becomes one.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import unescape
from itertools import zip_longest

from envknee.after.csv.grid import MOST_ROWS, Grid, Line, tables, title_of
from envknee.study.errors import UserError

TAG = re.compile(r"<(?P<ends>/?)(?P<name>table|caption|tr|t[hd])\b(?P<attributes>[^<>]*)>", re.IGNORECASE)
SPAN = re.compile(r"\b(?P<name>col|row)span\s*=\s*[\"']?(?P<cells>\d{1,4})", re.IGNORECASE)
BREAK = re.compile(r"<br\b[^<>]*>", re.IGNORECASE)
OTHER_TAG = re.compile(r"<(?!/?sup\b)/?[a-z][^<>]*>", re.IGNORECASE)
FOOTNOTE = re.compile(r"(?<!10)<sup\b[^<>]*>[^<>\-−]*</sup>", re.IGNORECASE)
SUPERSCRIPT = re.compile(r"<(?P<ends>/?)sup\b[^<>]*>", re.IGNORECASE)

MOST_SPANNED = 50_000
"""Most cells of a file that spans add: a short line of HTML could ask for millions."""

ABOVE = 2_000
"""Characters above a table among which its title is looked for."""


def read(lines: Sequence[str], source: str) -> list[Grid]:
    """Return every table of HTML.

    Raises:
        UserError: when one is larger than a person can have measured.
    """
    return tables(_blocks(_without_comments("\n".join(lines)), source), source)


@dataclass
class _Table:
    """A table that is being read."""

    title: str
    rows: list[Line] = field(default_factory=list)
    line: int = 0
    """Where the first cell of the open row begins."""
    row: list[str] = field(default_factory=list)
    """The cells of the open row."""
    below: dict[int, tuple[str, int]] = field(default_factory=dict)
    """Column -> a cell from above, and how many of the next rows it spans."""
    rows_of_heading: int = 1

    def add(self, text: str, columns: int, rows: int, line: int) -> None:
        """Add a cell that spans so many columns and rows, and begins on a line of the file."""
        self.line = self.line if self.row else line
        self._fill()
        for _ in range(columns):
            if rows > 1:
                self.below[len(self.row)] = (text, rows - 1)
            self.row.append(text)

    def end_row(self) -> None:
        """Close the open row. One row more than a table may have is kept, so that the table is refused."""
        if self.row:
            self._fill()
        if any(self.row) and len(self.rows) < MOST_ROWS + 2:
            self.rows.append(Line(self.line, tuple(self.row)))
        self.row = []

    def _fill(self) -> None:
        """Add the next cells that span from above."""
        while (place := len(self.row)) in self.below:
            text, left = self.below.pop(place)
            if left > 1:
                self.below[place] = (text, left - 1)
            self.row.append(text)

    def block(self) -> tuple[str, list[Line]]:
        """Return the title, and the rows with those of the heading as one."""
        head, rows = self.rows[: self.rows_of_heading], self.rows[self.rows_of_heading :]
        columns = zip_longest(*(line.cells for line in head), fillvalue="")
        names = tuple(" ".join(dict.fromkeys(filter(None, column))) for column in columns)
        return self.title, [Line(line.number, names) for line in head[:1]] + rows


def _blocks(text: str, source: str) -> Iterator[tuple[str, list[Line]]]:
    """Yield the title and the rows of each table. Tags that end a cell, a row or a table may be missing."""
    open_tables: list[_Table] = []
    spanned = 0
    for tag, line, before, after in _tags(text):
        name, ends = tag["name"].lower(), bool(tag["ends"])
        if name == "table" and not ends:
            open_tables.append(_Table(_title(before)))
        if not open_tables:
            continue
        table = open_tables[-1]
        if name == "tr" or (name == "table" and ends):
            table.end_row()
        if name == "table" and ends:
            yield open_tables.pop().block()
        if name == "caption" and not ends:
            table.title = _shown(after)
        if name in ("td", "th") and not ends:
            spans = {span["name"].lower(): int(span["cells"]) for span in SPAN.finditer(tag["attributes"])}
            columns, rows = max(1, spans.get("col", 1)), max(1, spans.get("row", 1))
            spanned += columns * rows - 1
            if spanned > MOST_SPANNED:
                raise UserError(
                    f"{source}, line {line}: cells span more than {MOST_SPANNED:,} others. Keep the rows and columns of the"
                    " measurement alone."
                )
            if name == "th" and not table.rows and not table.row:
                table.rows_of_heading = rows
            table.add(_shown(after), columns, rows, line)
    for table in open_tables:
        table.end_row()
        yield table.block()


def _tags(text: str) -> Iterator[tuple[re.Match[str], int, str, str]]:
    """Yield each tag of a table with its line, and the text before and after it, up to other such tags."""
    tags = list(TAG.finditer(text))
    ends, starts = [0, *(tag.end() for tag in tags)], [*(tag.start() for tag in tags), len(text)]
    line = 1
    for index, tag in enumerate(tags):
        before, after = text[ends[index] : starts[index]], text[ends[index + 1] : starts[index + 1]]
        line += before.count("\n")
        yield tag, line, before, after
        line += tag[0].count("\n")


def _title(before: str) -> str:
    """Return the last text above a table."""
    return title_of([_shown(text) for text in before[-ABOVE:].splitlines()])


def _shown(markup: str) -> str:
    """Return text as a browser shows it, without numbers of footnotes."""
    text = FOOTNOTE.sub("", OTHER_TAG.sub("", BREAK.sub(" ", markup)))
    powers = SUPERSCRIPT.sub(lambda tag: "" if tag["ends"] else "^", text)
    return " ".join(unescape(powers).split())


def _without_comments(text: str) -> str:
    """Return HTML without its comments, but with their line feeds, so that lines keep their numbers."""
    first, *others = text.split("<!--")
    parts = [part.partition("-->") for part in others]
    return first + "".join("\n" * comment.count("\n") + after for comment, _, after in parts)
