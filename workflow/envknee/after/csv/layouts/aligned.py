"""Tables of plain text whose columns are parted by spaces, and simple tables of reStructuredText. Pure."""

import re
from collections.abc import Iterator, Sequence

from envknee.after.csv.grid import Grid, Line, tables, title_of

RULE = re.compile(r"\s*[=\-─━]{2,}([\s=\-─━]*)")
WIDE = re.compile(r"\s{2,}|\t")
DIGIT = re.compile(r"\d")


def read(lines: Sequence[str], source: str) -> list[Grid]:
    """Return every block of lines that have as many cells as the line above them."""
    return tables(_blocks(lines), source, least_columns=2)


def _blocks(lines: Sequence[str]) -> Iterator[tuple[str, list[Line]]]:
    """Yield the title of each block, and its lines. A blank line or a line of prose ends it."""
    start = ended = 0
    while start < len(lines):
        block = _block(lines, start)
        if len(block) >= 2:
            yield title_of(lines[ended:start]), block
            start = ended = block[-1].number
        else:
            start += 1


def _block(lines: Sequence[str], start: int) -> list[Line]:
    """Return the header at `start` and the rows below it; fewer than two lines where no table begins."""
    spans = _spans(lines[start - 1]) if start else []
    header = _commented(lines[start])
    block: list[Line] = []
    for index in range(start, len(lines)):
        text = header if index == start else lines[index]
        if RULE.fullmatch(text):
            spans = spans or _spans(text)
            block = (
                [Line(line.number, _sliced(lines[line.number - 1], spans)) for line in block]
                if len(spans) > 1
                else block
            )
            continue
        if not text.strip() or text.lstrip().startswith("```"):
            break
        columns = len(block[0].cells) if block else None
        cells = _sliced(text, spans) if len(spans) > 1 else _split(text, columns)
        if block and (len(cells) != len(block[0].cells) or not any(map(DIGIT.search, cells))):
            break
        block.append(Line(index + 1, cells))
    return block


def _split(text: str, columns: int | None) -> tuple[str, ...]:
    """Return the cells between two spaces; between single ones where that gives as many as the header has, or more than one."""
    stripped = text.strip()
    wide, narrow = tuple(WIDE.split(stripped)), tuple(stripped.split())
    if columns is None:
        return wide if len(wide) > 1 else narrow
    return wide if len(wide) == columns else narrow


def _spans(rule: str) -> list[tuple[int, int]]:
    """Return where the columns of a simple table begin and end, by its line of `=====  ====`."""
    if not RULE.fullmatch(rule):
        return []
    starts = [match.start() for match in re.finditer(r"[^\s]+", rule)]
    ends: list[int] = [*starts[1:], MOST_LINE]
    return list(zip(starts, ends, strict=True))


MOST_LINE = 10_000
"""Where the last column of a simple table ends."""


def _sliced(text: str, spans: Sequence[tuple[int, int]]) -> tuple[str, ...]:
    return tuple(text[start:end].strip() for start, end in spans)


def _commented(text: str) -> str:
    """Return a heading without the sign of a comment before it: `# num_envs  fps`, but not `# envs  fps`."""
    return re.sub(r"^\s*#\s+(?=\S*_)", "", text)
