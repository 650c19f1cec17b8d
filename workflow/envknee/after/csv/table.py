"""A user's own measurements, from any simulator: the text of a file to checked rows. Pure.

text -> grids (`layouts`) -> columns (`columns`) -> rows (`rows`) -> series (`series`) -> `Table`
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property

from envknee.after.csv import series
from envknee.after.csv.aliases import ALIASES
from envknee.after.csv.columns import Columns, columns_of
from envknee.after.csv.grid import Grid
from envknee.after.csv.headings import is_setting, names_environments
from envknee.after.csv.layouts import READERS, objects
from envknee.after.csv.layouts.delimited import NotDelimited
from envknee.after.csv.rows import COLUMNS, Reading, TableRow, read_rows
from envknee.after.csv.turned import upright, values_have_no_name
from envknee.study.errors import UserError, closest
from envknee.verdict.schema.table import ColumnNotRead, ColumnRead, Remark

MOST_CELLS_OF_HEADER = 60
"""A second header below the first line is looked for among rows with no more cells."""


@dataclass(frozen=True)
class Choice:
    """What a user chose of a table."""

    where: tuple[tuple[str, str], ...] = ()
    """Headings and values: other rows are left out."""
    fps: tuple[str, ...] = ()
    """Headings of the columns of FPS that count; () for the table's own."""


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
    remarks: tuple[Remark, ...] = ()
    """What of it was read in another way than it stands there."""

    @cached_property
    def fps_step(self) -> float:
        """The step to which all FPS in the file seem to be rounded."""
        return step_of(row.fps for row in self.rows if row.fps is not None)


def step_of(values: Iterable[float]) -> float:
    """Return the largest of ..., 1, 5, 10, 50, 100, ... that divides every value: the coarsest rounding that fits them.

    0 without values, or if no step of at least 1e-6 divides them all.
    """
    numbers = [Decimal(repr(value)) for value in values]
    steps = [Decimal(digit).scaleb(place) for place in range(15, -7, -1) for digit in (5, 1)]
    return next((float(step) for step in steps if numbers and all(number % step == 0 for number in numbers)), 0.0)


@dataclass
class _Found:
    """What the tables of a file gave so far."""

    readings: list[Reading] = field(default_factory=list)
    read: dict[str, ColumnRead] = field(default_factory=dict)
    not_read: dict[str, ColumnNotRead] = field(default_factory=dict)
    columns: set[str] = field(default_factory=set)
    remarks: list[Remark] = field(default_factory=list)


def parse(text: str, source: str, choice: Choice | None = None) -> Table:
    """Return the tables in `text` as one, in any layout that `layouts` reads.

    Raises:
        UserError: when the text has no such table; names `source`, line, column, value, what was expected and what to do.
    """
    choice = choice or Choice()
    grids = _grids(text, source)
    found, errors = _Found(), list[UserError]()
    for number, grid in enumerate(grids, 1):
        before = len(found.readings)
        try:
            _read(grid, source, choice, found)
        except UserError as error:
            errors.append(error)
            if len(grids) == 1 or names_environments(grid.header.cells):
                raise
        if len(grids) > 1:
            title = grid.title or f"table {number}"
            found.readings[before:] = [reading.of_table(title) for reading in found.readings[before:]]
    if not found.readings and errors:
        raise errors[0]
    return _table(found, source, choice)


def _grids(text: str, source: str) -> list[Grid]:
    """Return the tables of a text by the first layout that has one with environments, each with a row for each size."""
    lines = text.splitlines()
    if objects.is_json(text):
        try:
            return [grid for grid in objects.read(text, source) if grid.rows] or [_nothing(source)]
        except UserError:
            if not any(line.lstrip().startswith("|") for line in lines):
                raise
    first: list[Grid] = []
    mistake: NotDelimited | None = None
    for _, reader in READERS:
        try:
            grids = [part for grid in reader(lines, source) for part in _parts(grid)]
        except NotDelimited as error:
            mistake = mistake or error
            continue
        except UserError as error:
            raise mistake or error from error
        grids = [grid for grid in grids if grid.rows]
        if any(names_environments(upright(grid).header.cells) for grid in grids):
            return grids
        first = first or grids
    if mistake is not None:
        raise mistake
    return first or [_nothing(source)]


def _nothing(source: str) -> Grid:
    raise UserError(
        f"{source} holds no measurement. Expected a header such as num_envs,fps and below it a row for each, such as 1024,39000."
    )


def _parts(grid: Grid) -> list[Grid]:
    """Return the tables of a grid in which further headers stand; what stands above the first header is none."""
    lines = [grid.header, *grid.rows]
    heads = [
        place
        for place, line in enumerate(lines)
        if len(line.cells) <= MOST_CELLS_OF_HEADER
        and not any(cell.lstrip("*~ ")[:1].isdigit() for cell in line.cells)
        and names_environments(line.cells)
    ]
    if not heads or heads == [0]:
        return [grid]
    ends = [*heads[1:], len(lines)]
    return [
        Grid(lines[head], tuple(lines[head + 1 : end]), grid.title if head == 0 else "", (), grid.counts)
        for head, end in zip(heads, ends, strict=True)
    ]


def _read(grid: Grid, source: str, choice: Choice, found: _Found) -> None:
    """Add the rows of a grid to what was found."""
    table = upright(grid)
    where = table.at(source, table.header.number)
    columns = columns_of(table, where, choice.fps)
    readings, remarks = read_rows(table, columns, source)
    if values_have_no_name(grid, table):
        found.remarks.append(Remark(kind="values_are_fps"))
    if columns.per_env is not None:
        found.remarks.append(Remark(kind="per_env", heading=columns.per_env, other=columns.fps[0].heading))
    if columns.fps_left_out:
        found.remarks.append(Remark(kind="fps_left_out", heading=columns.fps[0].heading, others=columns.fps_left_out))
    found.remarks += remarks
    found.readings += readings
    found.columns |= {*columns.places, "fps"}
    for one in _columns_read(table, columns):
        found.read.setdefault(one.heading, one)
    for heading in columns.others:
        lacks = set() if is_setting(heading) else set(COLUMNS) - set(columns.places) - {"fps"}
        near = closest(heading.lower(), lacks)
        found.not_read.setdefault(heading, ColumnNotRead(heading=heading, nearest=near))


def _columns_read(grid: Grid, columns: Columns) -> list[ColumnRead]:
    """Return the columns that go by another name or unit."""
    header = grid.header.cells
    named = [
        ColumnRead(heading=header[place], column=column, factor=float(columns.factors[column]))
        for column, place in sorted(columns.places.items(), key=lambda item: list(ALIASES).index(item[0]))
        if header[place].lower() != column and column != "status"
    ]
    of_fps = [
        ColumnRead(heading=one.heading, column=one.kind, factor=float(one.factor))
        for one in columns.fps
        if one.heading.lower() != "fps"
    ]
    return named[:1] + of_fps + named[1:] if named and named[0].column == "num_envs" else of_fps + named


def _table(found: _Found, source: str, choice: Choice) -> Table:
    readings = series.chosen(found.readings, choice.where, source)
    if not readings:
        _nothing(source)
    labelled = series.labelled(readings, source)
    ordered = sorted(labelled.rows, key=lambda row: (row.num_envs, row.horizon, row.batch_size or 0, row.repeat))
    not_read = [one for heading, one in found.not_read.items() if heading not in labelled.settings]
    return Table(
        columns=(frozenset(COLUMNS) & frozenset(found.columns)) - labelled.dropped,
        rows=tuple(ordered),
        columns_read=tuple(found.read.values()),
        columns_not_read=tuple(not_read),
        remarks=(*dict.fromkeys(found.remarks), *labelled.remarks),
    )
