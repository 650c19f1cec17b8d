"""A user's own measurements, from any simulator: the text of a file to checked rows. Pure."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any

from pydantic import Field

from envknee.after.csv.formats import rows_of, scaled, understand
from envknee.record.schema import Frozen
from envknee.study.errors import UserError, closest, nearest
from envknee.verdict.schema.table import ColumnNotRead, ColumnRead

OUT_OF_MEMORY = "oom"
"""Value of an fps cell if the point did not fit the memory: a result, not a gap."""

NOTHING = ("", "-", "–", "—", "n/a")
"""Cells without a value."""

LARGEST = 1e15
COUNT: dict[str, Any] = {"ge": 1, "le": 10**12}
AMOUNT: dict[str, Any] = {"ge": 1e-9, "le": LARGEST}
"""Bounds of whole and of other numbers. Beyond them is a typing error, which would overflow later."""

NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
"""A number. Python's own float() also accepts 1_000."""


class TableRow(Frozen):
    """One measurement. Its fields but `line` are the columns; one without a default is required, cells of one with None may be empty."""

    line: int
    """Its line in the file, for messages."""
    num_envs: int = Field(**COUNT, description="environments that run in parallel (on each GPU)")
    fps: float | None = Field(
        **AMOUNT, description=f"frames per second; `{OUT_OF_MEMORY}` where the memory did not suffice"
    )
    """None: out of memory."""
    repeat: int = Field(0, ge=0, le=COUNT["le"], description="which repeat, or seed, of that point: 0, 1, 2, ...")
    vram_gb: float | None = Field(None, **AMOUNT, description="peak of the GPU's used memory, GB (1e9 bytes)")
    horizon: int = Field(1, **COUNT, description="environment steps per iteration")
    """Without the column, an iteration is one step of all environments: t = N / FPS. FPS, asymptote and half-saturation do not depend
    on the horizon; the law's seconds are then per step."""
    batch_size: int | None = Field(
        None, **COUNT, description="transitions per optimizer step; empty: it follows num_envs"
    )
    seconds_to_target: float | None = Field(
        None, **AMOUNT, description="of training until the target reward was reached"
    )
    """None: not reached within `budget_s`; without a budget, not measured."""
    budget_s: float | None = Field(None, **AMOUNT, description="seconds after which such a training was ended")


COLUMNS = {name: field for name, field in TableRow.model_fields.items() if name != "line"}


def step_of(values: Iterable[float]) -> float:
    """Return the largest of ..., 1, 5, 10, 50, 100, ... that divides every value: the coarsest rounding that fits them.

    0 without values, or if no step of at least 1e-6 divides them all.
    """
    numbers = [Decimal(repr(value)) for value in values]
    steps = [Decimal(digit).scaleb(place) for place in range(15, -7, -1) for digit in (5, 1)]
    return next((float(step) for step in steps if numbers and all(number % step == 0 for number in numbers)), 0.0)


@dataclass(frozen=True)
class Table:
    """The content of a file."""

    columns: frozenset[str]
    """Names of its columns, of those in `COLUMNS`."""
    rows: tuple[TableRow, ...]
    """Sorted by num_envs, then repeat; at least one."""
    columns_read: tuple[ColumnRead, ...]
    """Columns that go by another name or unit."""
    columns_not_read: tuple[ColumnNotRead, ...]

    @cached_property
    def fps_step(self) -> float:
        """The step to which all FPS in the file seem to be rounded."""
        return step_of(row.fps for row in self.rows if row.fps is not None)


def parse(text: str, source: str) -> Table:
    """Return the table in `text`: CSV, or a form that `formats` reads.

    Raises:
        UserError: when the text is no such table; names `source`, line, column, value, what was expected and what to do.
    """
    lines = rows_of(text, source)
    if len(lines) < 2:
        raise UserError(
            f"{source} holds no measurement. Expected a header such as num_envs,fps and below it a row for each, such as 1024,39000."
        )
    (header_line, header), *below = lines
    names, factors, read = understand(header, below[0][1])
    not_read = _not_read(header, names, f"{source}, line {header_line}")
    rows = [_row(cells, names, factors, line, source) for line, cells in below]
    _refuse_duplicates(rows, source)
    ordered = sorted(rows, key=lambda row: (row.num_envs, row.horizon, row.batch_size or 0, row.repeat))
    return Table(frozenset(COLUMNS) & frozenset(names), tuple(ordered), tuple(read), tuple(not_read))


def _not_read(header: Sequence[str], names: Sequence[str], where: str) -> list[ColumnNotRead]:
    """Check the columns of a header, and return each column that is not read.

    Case does not matter; columns without a name are left out.
    """
    for name, column in COLUMNS.items():
        if names.count(name) > 1:
            raise UserError(f"{where}: column {name!r} stands there {names.count(name)} times. Keep one of them.")
        if column.is_required() and name not in names:
            raise UserError(
                f"{where}: no column {name!r} ({column.description}) among {', '.join(map(repr, header))}"
                f"{nearest(name, [given for given in header if given.lower() not in COLUMNS])}. Rename the column, or add it."
            )
    if "budget_s" in names and "seconds_to_target" not in names:
        raise UserError(
            f"{where}: column 'budget_s' needs a column 'seconds_to_target' ({COLUMNS['seconds_to_target'].description};"
            " empty where the budget was spent first). Add it, or leave budget_s out."
        )
    return [
        ColumnNotRead(heading=given, nearest=closest(name, set(COLUMNS) - set(names)))
        for given, name in zip(header, names, strict=True)
        if name and name not in COLUMNS
    ]


def _row(
    cells: Sequence[str], names: Sequence[str], factors: Mapping[str, Decimal], line: int, source: str
) -> TableRow:
    where = f"{source}, line {line}"
    if len(cells) != len(names):
        raise UserError(
            f"{where}: {len(cells)} cells, and the header has {len(names)}."
            " Write one cell per column, empty where nothing was measured, and no comma within a number."
        )
    cells = ["" if cell.lower() in NOTHING else cell for cell in cells]
    given = [(name, cell) for name, cell in zip(names, cells, strict=True) if name in COLUMNS]
    named = {name: scaled(cell, name, factors.get(name, Decimal(1))) for name, cell in given}
    # Some tables say it in another column, with a dash for the FPS.
    candidates = cells if not named["fps"] else [named["fps"]]
    no_memory = any(cell.lower() == OUT_OF_MEMORY for cell in candidates)
    if no_memory:
        del named["fps"]
        if named.get("vram_gb", "").lower() == OUT_OF_MEMORY:
            named["vram_gb"] = ""
    values = {name: _number(text, name, where) for name, text in named.items()}
    row = TableRow.model_validate({"line": line, "fps": None, **values})
    _refuse_contradictions(row, where)
    return row


def _number(text: str, name: str, where: str) -> float | None:
    """Return the number in a cell, or None for an empty one that may be empty."""
    column = COLUMNS[name]
    least, largest = column.metadata[0].ge, column.metadata[1].le
    whole, may_be_empty = isinstance(least, int), column.default is None
    value = float(text) if NUMBER.fullmatch(text) else math.nan
    if not text and may_be_empty:
        return None
    if least <= value <= largest and not (whole and value % 1):
        return value
    raise UserError(
        f"{where}: column {name!r} is {repr(text) if text else 'empty'}; expected a {'whole ' * whole}number from {least:g} to"
        f" {largest:g}, {column.description}. Write it in digits, with a point before decimals and without units or separators of"
        f" thousands{', or leave the cell empty if it was not measured' if may_be_empty and name != 'fps' else ''}."
    )


def _refuse_contradictions(row: TableRow, where: str) -> None:
    if row.fps is None and row.seconds_to_target is not None:
        raise UserError(
            f"{where}: fps is {OUT_OF_MEMORY} and seconds_to_target {row.seconds_to_target:g}: a training that ran out of"
            " memory reaches nothing. Empty one of the two cells, or give the FPS."
        )
    if row.seconds_to_target is not None and row.budget_s is not None and row.seconds_to_target > row.budget_s:
        raise UserError(
            f"{where}: seconds_to_target {row.seconds_to_target:g} is above budget_s {row.budget_s:g}."
            " Leave seconds_to_target empty where the budget was spent first, or mend the budget."
        )


def _refuse_duplicates(rows: Sequence[TableRow], source: str) -> None:
    seen: dict[tuple[object, ...], int] = {}
    for row in rows:
        first = seen.setdefault((row.num_envs, row.horizon, row.batch_size, row.repeat), row.line)
        if first != row.line:
            point = row.model_dump(include={"num_envs", "horizon", "batch_size"}, exclude_unset=True, exclude_none=True)
            what = ", ".join(f"{name} {value}" for name, value in point.items())
            advice = (
                f"repeat {row.repeat}. Number repeats of a point 0, 1, 2, ..., or remove one of the rows."
                if "repeat" in row.model_fields_set
                else "no column 'repeat'. If these are repeats, add that column and number them 0, 1, 2, ...;"
                " else remove one of the rows."
            )
            raise UserError(f"{source}, line {row.line}: the same point as line {first}: {what}, {advice}")
