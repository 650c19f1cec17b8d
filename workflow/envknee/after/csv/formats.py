"""Common forms of tables: Markdown, tabs, Isaac Lab's training bundles, and other names of columns. Pure.

Input: the text of a file. Output: its rows as cells, with their lines for messages. For a header: the column of each heading, the factor
of its unit, and each heading that goes by another name. In Markdown and tables with tabs, a number may be bold, with
separators of thousands, a ~ before it and a remark in parentheses after it. In any table, a cell may name its unit, as in `3.5 GB` and
`200k`.
"""

import csv
import itertools
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from envknee.study.errors import UserError
from envknee.verdict.schema.table import ColumnRead

ALIASES: Mapping[str, tuple[str, ...]] = {
    "num_envs": (
        "envs", "n_envs", "nenvs", "num envs", "environments", "num_environments", "number of envs", "number of environments",
        "# envs", "#envs", "parallel envs", "parallel environments", "batch of envs",
    ),
    "fps": (
        "total_fps", "fps_total", "total fps", "fps total", "mean_fps", "mean fps", "train fps", "env-steps/s", "env steps/s",
        "env steps/sec", "env.step/fps", "env fps", "frames/s", "frames per second", "sps", "steps per second", "steps/s", "steps/sec",
        "throughput",
    ),
    "vram_gb": (
        "vram", "gpu memory", "gpu_memory", "gpu mem", "gpu_mem", "memory", "peak memory", "peak vram", "vram peak", "peak_vram",
    ),
}  # fmt: skip
"""Column -> other names, in lower case and without a unit. If a table has several of them, the first one listed here is read."""

FACTORS: Mapping[str, Mapping[str, Decimal]] = {
    "num_envs": {"": Decimal(1), "k": Decimal(1000)},
    "fps": {
        "": Decimal(1), "1/s": Decimal(1), "steps/s": Decimal(1), "frames/s": Decimal(1), "hz": Decimal(1),
        "k": Decimal(1000), "m": Decimal(10**6), "million": Decimal(10**6),
    },
    "vram_gb": {
        "gb": Decimal(1), "mb": Decimal("1e-3"), "gib": Decimal(2**30).scaleb(-9), "mib": Decimal(2**20).scaleb(-9),
    },
}  # fmt: skip
"""Column -> unit in the header -> factor to the column's own unit."""

UNIT = re.compile(r"^(?P<name>.*?)\s*[(\[](?P<unit>[^)\]]*)[)\]]\s*$")
CELL = re.compile(r"(?P<number>[+-]?(?:\d+\.?\d*|\.\d+))\s*(?P<unit>[A-Za-z]+)")
THOUSANDS = re.compile(r"(?<=\d)[,\s](?=\d{3}(?!\d))")
REMARK = re.compile(r"\s*[(（].*$")
SUFFIX = re.compile(r"^(?P<name>.*?)[_ ](?P<unit>gib|mib|gb|mb)$")


MOST_ROWS, MOST_COLUMNS, MOST_CHARACTERS = 5_000, 500, 1_000
"""Most lines of a table, cells of a line, and characters of a cell. Tables that people measure have a hundred lines."""


def rows_of(text: str, source: str) -> list[tuple[int, list[str]]]:
    """Return line number and stripped cells of every line that is neither blank nor a comment.

    Raises:
        UserError: when it is JSON, but no training bundles, or is not CSV, or has more rows, columns or characters than a table may have.
    """
    # A comment becomes a blank line, so that its quotes are ignored and later lines keep their numbers.
    lines = ["" if line.lstrip().startswith("#") else line for line in text.splitlines()]
    first = next(filter(str.strip, lines), "")
    plain: Callable[[str], str] = str.strip
    if text.lstrip("\ufeff \n\t").startswith(("{", "[")):
        rows = enumerate(_of_bundles(text, source), 1)
    elif first.lstrip().startswith("|"):
        rows, plain = enumerate(map(_of_markdown, lines), 1), _plain
    elif "\t" in first:
        rows, plain = enumerate((line.split("\t") for line in lines), 1), _plain
    else:
        # Spreadsheets of many countries separate by semicolons.
        rows = _of_csv(lines, ";" if ";" in first and "," not in first else ",", source)
    table: list[tuple[int, list[str]]] = []
    for line, cells in rows:
        _refuse_huge(line, cells, len(table), source)
        stripped = [plain(cell).strip() for cell in cells]
        if any(stripped):
            table.append((line, stripped))
    return table


def _refuse_huge(line: int, cells: Sequence[str], rows_before: int, source: str) -> None:
    """Make sure that a line is one that a person can have measured: larger ones would take minutes."""
    what = None
    if rows_before > MOST_ROWS:
        what = f"more than {MOST_ROWS:,} rows"
    elif len(cells) > MOST_COLUMNS:
        what = f"{len(cells):,} columns, more than {MOST_COLUMNS:,}"
    elif (longest := max(map(len, cells), default=0)) > MOST_CHARACTERS:
        what = f"a cell of {longest:,} characters, more than {MOST_CHARACTERS:,}"
    if what is not None:
        raise UserError(
            f"{source}, line {line}: the table has {what}. Keep the rows and columns of the measurement alone."
        )


def understand(header: Sequence[str], first: Sequence[str]) -> tuple[list[str], dict[str, Decimal], list[ColumnRead]]:
    """Return the columns that headings stand for. A column's own name has priority over its other names.

    `first` is the first row below the header, whose cells may name a unit that the heading does not.

    Returns:
        column names, or other headings in lower case; by column, the factor of its unit, if it goes by another name; and each such
        column.
    """
    names, factors, read = [given.lower() for given in header], dict[str, Decimal](), list[ColumnRead]()
    for column in [column for column in ALIASES if column not in names]:
        by_rank = [
            (*rank, place)
            for place, (given, cell) in enumerate(itertools.zip_longest(header, first[: len(header)], fillvalue=""))
            if (rank := _rank(given, cell, column))
        ]
        if by_rank:
            _, factor, place = min(by_rank)
            names[place], factors[column] = column, factor
            read.append(ColumnRead(heading=header[place], column=column, factor=float(factor)))
    return names, factors, read


def scaled(cell: str, column: str, factor: Decimal) -> str:
    """Return a cell in its column's own unit. A unit in the cell has priority over the header's.

    A cell that is no number is returned unchanged, for the error message.
    """
    units = FACTORS.get(column, {})
    if (own := CELL.fullmatch(cell)) and own["unit"].lower() in units:
        cell, factor = own["number"], units[own["unit"].lower()]
    try:
        return cell if factor == 1 else format(Decimal(cell) * factor, "f")
    except ArithmeticError:
        return cell


def _rank(given: str, cell: str, column: str) -> tuple[int, Decimal] | None:
    """Return how well a heading names `column` (0 is best), and the factor of its unit; None if it does not.

    If the column needs a unit, a heading without one counts if the first `cell` has a unit.
    """
    plain = given.lower().strip()
    match = UNIT.match(plain) or SUFFIX.match(plain)
    name, unit = (match["name"].strip(), match["unit"].strip()) if match else (plain, "")
    others = (column, column.removesuffix("_gb"), *ALIASES[column])
    if not unit and "" not in FACTORS[column] and scaled(cell, column, Decimal(1)) != cell:
        return (others.index(name), Decimal(1)) if name in others else None
    return (others.index(name), FACTORS[column][unit]) if name in others and unit in FACTORS[column] else None


def _of_csv(lines: Sequence[str], separator: str, source: str) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(lines, delimiter=separator, strict=True)
    try:
        for cells in reader:
            yield reader.line_num, cells
    except csv.Error as error:
        raise UserError(
            f"{source}, line {reader.line_num}: not CSV: {error}. Close every quote, or leave quotes out."
        ) from error


def _of_markdown(line: str) -> Sequence[str]:
    stripped = line.strip()
    if not stripped.startswith("|") or re.fullmatch(r"[|:\- ]+", stripped):
        return ()
    return stripped.strip("|").split("|")


def _plain(cell: str) -> str:
    """Return a cell without bold, ~, separators of thousands, and a remark after a number."""
    plain = re.sub(r"[*`]", "", cell).strip()
    bare = REMARK.sub("", plain).lstrip("~≈ ")
    return THOUSANDS.sub("", bare) if bare[:1].isdigit() or bare.lower() == "oom" else plain


def _of_bundles(text: str, source: str) -> list[list[str]]:
    """Return the rows of one or several of Isaac Lab's training bundles (isaaclab.benchmark), with repeats numbered in order."""
    try:
        plain = json.loads(text)
        bundles: list[dict[str, Any]] = plain if isinstance(plain, list) else [plain]
        rows = [(int(bundle["run"]["num_envs"]), float(bundle["runtime"]["total_fps"]["mean"])) for bundle in bundles]
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        why = f"{error!r} is missing or wrong"
        if isinstance(error, OverflowError):
            why = "an infinite number, or one of hundreds of digits, stands in it"
        elif isinstance(error, RecursionError):
            why = "it is nested too deeply"
        raise UserError(
            f"{source} is JSON, and no training bundle of Isaac Lab ({why}). Expected one, or a list of them,"
            " with run.num_envs and runtime.total_fps.mean; or a table."
        ) from error
    seen: Counter[int] = Counter()
    cells = [["num_envs", "repeat", "fps"]]
    for num_envs, fps in rows:
        cells.append([str(num_envs), str(seen[num_envs]), repr(fps)])
        seen[num_envs] += 1
    return cells
