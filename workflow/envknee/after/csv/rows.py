"""The rows of a table: cells to checked measurements. Pure.

In: a grid, and what its columns are. Out: a `Reading` for every measurement; rows that say that they are none are told.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from pydantic import Field

from envknee.after.csv import cells
from envknee.after.csv.aliases import UNITS
from envknee.after.csv.cells import Number
from envknee.after.csv.columns import Columns, FpsColumn
from envknee.after.csv.grid import Grid, Line
from envknee.after.csv.headings import canonical
from envknee.record.schema import Frozen
from envknee.study.errors import UserError
from envknee.verdict.schema.table import Remark

OUT_OF_MEMORY = "oom"
"""Value of an fps cell if the point did not fit the memory: a result, not a gap."""

FAILED = re.compile(
    r"\b(?:false|fail\w*|crash\w*|killed|segfault|error|interrupted|timed? ?out|did not (?:run|finish)|unstable|dnf|❌)\b|❌",
    re.I,
)
"""A cell of a row that is no measurement."""

LARGEST = 1e15
COUNT: dict[str, Any] = {"ge": 1, "le": 10**12}
AMOUNT: dict[str, Any] = {"ge": 1e-9, "le": LARGEST}
"""Bounds of whole and of other numbers. Beyond them is a typing error, which would overflow later."""


class TableRow(Frozen):
    """One measurement. Its first fields are columns; one without a default is required, cells of one with None may be empty."""

    line: int
    """Its line in the file, for messages."""
    num_envs: int = Field(**COUNT, description="environments that run in parallel (on each GPU)")
    fps: float | None = Field(
        **AMOUNT, description=f"frames per second; `{OUT_OF_MEMORY}` where the memory did not suffice"
    )
    """None: out of memory."""
    repeat: int = Field(0, ge=0, le=COUNT["le"], description="which repeat, or seed, of that point: 0, 1, 2, ...")
    vram_gb: float | None = Field(None, **AMOUNT, description="peak of the GPU's used memory, GB (1e9 bytes)")
    ram_gb: float | None = Field(None, **AMOUNT, description="peak of the host's memory, GB")
    horizon: int = Field(1, **COUNT, description="environment steps per iteration")
    """Without the column, an iteration is one step of all environments: t = N / FPS. FPS, asymptote and half-saturation do not depend
    on the horizon; the law's seconds are then per step."""
    batch_size: int | None = Field(
        None, **COUNT, description="transitions per optimizer step; empty: it follows num_envs"
    )
    gpus: int = Field(1, ge=1, le=10**6, description="GPUs that train together; fps are of all of them")
    seconds_to_target: float | None = Field(
        None, **AMOUNT, description="of training until the target reward was reached"
    )
    """None: not reached within `budget_s`; without a budget, not measured."""
    budget_s: float | None = Field(None, **AMOUNT, description="seconds after which such a training was ended")
    labels: tuple[tuple[str, str], ...] = ()
    """Settings that other columns give: heading and value."""
    fps_digit: float = 0.0
    """What one in the last digit of the FPS is worth, where decimals or a unit show it."""
    fps_spread: float = 0.0
    """What stands behind a ± in the cell."""
    vram_is_bound: bool = False
    """Whether the cell gives a lower bound of the memory alone, as in `>11.5`."""


OWN_FIELDS = ("line", "labels", "fps_digit", "fps_spread", "vram_is_bound")
COLUMNS = {name: field for name, field in TableRow.model_fields.items() if name not in OWN_FIELDS}


@dataclass(frozen=True)
class Reading:
    """One measurement as its row gives it, before rows are compared."""

    values: Mapping[str, float | None]
    """Column -> number; without FPS. None for an empty cell."""
    fps: float | None
    """In the unit of `kind`; None: out of memory."""
    kind: str
    others: Mapping[str, str]
    """Further headings -> cells."""
    line: int
    where: str
    """How a message names the row."""
    share: float = 0.0
    """One in the last digit of the FPS, as a share of them."""
    spread: float = 0.0
    """What stands behind a ±, as a share of the FPS."""
    vram_is_bound: bool = False
    settings: frozenset[str] = frozenset()
    """Those of `others` that part series by the layout."""

    def of_table(self, title: str) -> "Reading":
        """Return the reading with the title of its table as a setting."""
        return replace(self, others={"table": title, **self.others}, settings=self.settings | {"table"})


def read_rows(grid: Grid, columns: Columns, source: str) -> tuple[list[Reading], list[Remark]]:
    """Return the measurements of a grid, and remarks on rows that are none."""
    decimal_comma = _has_decimal_commas(grid, columns)
    readings: list[Reading] = []
    not_measured: list[Line] = []
    section: dict[str, str] = {}
    for line in grid.rows:
        where = grid.at(source, line.number)
        if len(line.cells) != len(grid.header.cells):
            raise UserError(
                f"{where}: {len(line.cells)} cells, and the header has {len(grid.header.cells)}."
                " Write one cell per column, empty where nothing was measured, and no comma within a number."
            )
        if (heading := _section(line)) is not None:
            section = {"section": heading}
            continue
        measured = [
            replace(one, settings=one.settings | set(grid.settings))
            for one in _readings(line, columns, where, decimal_comma, section)
        ]
        if not measured and _says_failed([cells.plain(cell) for cell in line.cells], columns):
            not_measured.append(line)
        readings += measured
    remarks = []
    if not_measured:
        remarks.append(
            Remark(kind="no_measurement", lines=tuple(line.number for line in not_measured), other=grid.counts)
        )
    return readings, remarks


def _has_decimal_commas(grid: Grid, columns: Columns) -> bool:
    """Tell whether commas are decimal: numbers show it, or all numbers of environments have points between thousands."""
    place = columns.places.get("num_envs", columns.places.get("total_envs", 0))
    sizes = [cells.plain(line.cells[place]) for line in grid.rows if place < len(line.cells)]
    numeric = {columns.places[name] for name in columns.places if name != "status"} | {one.place for one in columns.fps}
    shown = (cell for line in grid.rows for index, cell in enumerate(line.cells) if index in numeric)
    grouped = [size for size in sizes if cells.POINTS.fullmatch(size)]
    ungrouped = [size for size in sizes if len(size) > 3 and size not in grouped]
    return cells.shows_decimal_commas(shown) or (
        bool(grouped) and not ungrouped and not all(size.endswith("000") for size in grouped)
    )


def _section(line: Line) -> str | None:
    """Return the text of a row that has one cell of words, and is a heading within the table; None for other rows."""
    words = [cell for cell in map(cells.plain, line.cells) if cell]
    if len(line.cells) > 2 and len(words) == 1 and cells.plain(line.cells[0]) and not any(map(str.isdigit, words[0])):
        return words[0]
    return None


def _readings(
    line: Line, columns: Columns, where: str, decimal_comma: bool, section: Mapping[str, str]
) -> list[Reading]:
    """Return the measurements of a row: one for each column of FPS, and for each repeat in a cell."""
    values, is_bound = dict[str, float | None](), False
    texts = [cells.plain(cell) for cell in line.cells]
    no_memory = [cells.says_out_of_memory(text) for text in texts]
    for column, place in columns.places.items():
        if column == "status" or column not in (*COLUMNS, "total_envs"):
            continue
        numbers = cells.numbers(line.cells[place], decimal_comma)
        number, scaled = numbers[0], [_scaled(one, column, columns.factors[column], texts[place]) for one in numbers]
        text = scaled[0]
        if column in ("vram_gb", "ram_gb"):
            text = "" if no_memory[place] else _largest(scaled)
        if column == "repeat" and text and not number.is_number:
            text = "".join(re.findall(r"\d+", text)[-1:]) or text
        values[column] = _number(text, column, where)
        is_bound = is_bound or (column == "vram_gb" and number.bound == ">")
    others = dict(section) | {heading: texts[place] for heading, place in columns.others.items()}
    readings = []
    for fps in columns.fps:
        named = dict(others) | ({"FPS column": fps.heading} if len(columns.fps) > 1 else {})
        for repeat, (value, share, spread) in enumerate(
            _fps(line, fps, texts, no_memory, columns, where, decimal_comma)
        ):
            own = dict(values)
            if repeat:
                own["repeat"] = 1000 * (own.get("repeat") or 0) + repeat
            readings.append(
                Reading(
                    own,
                    value,
                    fps.kind,
                    named,
                    line.number,
                    where,
                    share,
                    spread,
                    is_bound,
                    frozenset(section) | (named.keys() - others),
                )
            )
    return readings


def _fps(
    line: Line,
    fps: FpsColumn,
    texts: Sequence[str],
    no_memory: Sequence[bool],
    columns: Columns,
    where: str,
    decimal_comma: bool,
) -> list[tuple[float | None, float, float]]:
    """Return each repeat of a cell: its value (None: out of memory), the share of its last digit, and the share of its spread.

    No repeat where the row says that it is no measurement.
    """
    text = texts[fps.place]
    beside = [texts[one.place] for one in columns.fps if one is not fps]
    if not text and any(beside):
        return []
    if no_memory[fps.place] or (not text and any(no_memory)):
        return [(None, 0.0, 0.0)]
    if _says_failed(texts, columns):
        return []
    found = []
    for number in cells.numbers(line.cells[fps.place], decimal_comma):
        scaled = _scaled(number, fps.kind, fps.factor, text)
        value = _number(scaled, "fps", where)
        shows_digits = "." in number.text or scaled != number.text or fps.kind != "fps"
        share = number.last_digit / float(number.text) if shows_digits and number.is_number else 0.0
        spread = abs(float(number.spread) / float(number.text)) if number.spread and number.is_number else 0.0
        found.append((value, share, spread))
    return found


def _says_failed(texts: Sequence[str], columns: Columns) -> bool:
    """Tell whether a row says that it is no measurement: by its status, in place of FPS, or anywhere if it has none."""
    of_fps = [texts[one.place] for one in columns.fps]
    status = texts[columns.places["status"]] if "status" in columns.places else ""
    return any(map(FAILED.search, (*of_fps, status))) or (not any(of_fps) and any(map(FAILED.search, texts)))


def _largest(texts: Sequence[str]) -> str:
    """Return the largest number of the repeats in a cell; a text that is no number first, for the error message."""
    no_number = [text for text in texts if not cells.PLAIN.fullmatch(text)]
    return no_number[0] if no_number else max(texts, key=float)


def _scaled(number: Number, column: str, factor: Decimal, text: str) -> str:
    """Return a number in its column's own unit. A unit in the cell has priority over the header's.

    A cell that is no number is returned as it stands, for the error message.
    """
    if not number.is_number:
        return number.text
    units = UNITS.get(column, {})
    if not number.unit:
        return cells.times(number.text, factor)
    unit = canonical(number.unit) if "/" in number.unit else number.unit.lower()
    if unit in units:
        return cells.times(number.text, units[unit])
    if column in ("gpus", "repeat") or (column == "num_envs" and unit.split(" ")[0] in units):
        return number.text
    return text


def _number(text: str, name: str, where: str) -> float | None:
    """Return the number in a cell, or None for an empty one that may be empty."""
    column = COLUMNS["num_envs" if name == "total_envs" else name]
    least, largest = column.metadata[0].ge, column.metadata[1].le
    whole, may_be_empty = isinstance(least, int), column.default is None
    value = float(text) if cells.PLAIN.fullmatch(text) else math.nan
    if not text and may_be_empty:
        return None
    if least <= value <= largest and not (whole and value % 1):
        return value
    raise UserError(
        f"{where}: column {name!r} is {repr(text) if text else 'empty'}; expected a {'whole ' * whole}number from {least:g} to"
        f" {largest:g}, {column.description}. Write it in digits, with a point before decimals and without units or separators of"
        f" thousands{', or leave the cell empty if it was not measured' if may_be_empty and name != 'fps' else ''}."
    )
