"""Which column of a table is which, and which of several columns of FPS counts. Pure.

In: a grid, and the columns that a user chose. Out: the place of every column that is read, and the headings that are not.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from envknee.after.csv import cells
from envknee.after.csv.aliases import ALIASES, UNITS
from envknee.after.csv.grid import Grid
from envknee.after.csv.headings import Meaning, canonical, is_setting, meaning, meanings
from envknee.study.errors import UserError, nearest

FPS_KINDS = ("fps", "fps_per_gpu", "fps_per_env", "iterations_per_second", "seconds_per_iteration", "seconds_per_step")
"""Columns that FPS follow from, the most direct first."""

PRODUCT_OFF = 0.06
"""Most by which rounding may put FPS of an environment times environments off the total."""


@dataclass(frozen=True)
class FpsColumn:
    """A column of FPS, or one that FPS follow from."""

    place: int
    heading: str
    kind: str
    """Of `FPS_KINDS`."""
    factor: Decimal


@dataclass(frozen=True)
class Columns:
    """What the columns of a grid are."""

    places: dict[str, int]
    """Column -> its place; without FPS."""
    factors: dict[str, Decimal]
    fps: tuple[FpsColumn, ...]
    """Several where a table has FPS of several settings side by side."""
    others: dict[str, int]
    """Headings that are no column -> their places."""
    fps_left_out: tuple[str, ...] = ()
    """Headings of further FPS, which --fps would choose."""
    per_env: str | None = None
    """The heading of FPS of one environment, where the total stands in another column."""


def columns_of(grid: Grid, where: str, chosen_fps: Sequence[str]) -> Columns:
    """Return what the columns of a grid are.

    Raises:
        UserError: when environments or FPS are missing, or stand there twice.
    """
    header = grid.header.cells
    firsts = [_first(grid, place) for place in range(len(header))]
    places: dict[str, int] = {}
    factors: dict[str, Decimal] = {}
    taken: dict[int, str] = {}
    for column in ALIASES:
        if column in FPS_KINDS:
            continue
        found = [
            (one, place)
            for place, heading in enumerate(header)
            if place not in taken and (one := meaning(heading, firsts[place], column)) is not None
        ]
        found = [
            (one, place) for one, place in found if column == "status" or not _is_rather_setting(header[place], one)
        ]
        if not found:
            continue
        best, place = min(found, key=lambda pair: (pair[0].rank, pair[1]))
        _refuse_twice(column, [header[other] for one, other in found if one.rank == best.rank], where)
        places[column], factors[column], taken[place] = place, best.factor, column
    fps, left_out = _fps_columns(header, firsts, taken, chosen_fps, where)
    per_env: FpsColumn | None = None
    if len(fps) == 1 and not chosen_fps and "num_envs" in places:
        total = _total_of(grid, places["num_envs"], fps[0])
        if total is not None:
            per_env, fps = fps[0], (total,)
            left_out = tuple(heading for heading in left_out if heading != total.heading)
    _refuse_missing(header, places, fps, where)
    used = {*taken, *(one.place for one in (*fps, *([] if per_env is None else [per_env])))}
    others = {heading: place for place, heading in enumerate(header) if place not in used and heading.strip()}
    return Columns(places, factors, fps, others, left_out, None if per_env is None else per_env.heading)


def _first(grid: Grid, place: int) -> str:
    """Return the first cell of a column that has a number, or else the first row's."""
    column = [row.cells[place] for row in grid.rows if place < len(row.cells)]
    return next((cell for cell in column if cells.numbers(cell)[0].is_number), column[0] if column else "")


def _is_rather_setting(heading: str, one: Meaning) -> bool:
    """Tell whether a heading such as `run` or `batch` names its column less well than a setting."""
    return one.rank > 0 and is_setting(heading) and one.column not in ("num_envs", "gpus")


def _fps_columns(
    header: Sequence[str], firsts: Sequence[str], taken: dict[int, str], chosen: Sequence[str], where: str
) -> tuple[tuple[FpsColumn, ...], tuple[str, ...]]:
    """Return the columns of FPS that count, and the headings of those that do not."""
    found: list[tuple[Meaning, int]] = []
    for place, heading in enumerate(header):
        of_fps = [one for one in meanings(heading, firsts[place]) if one.column in FPS_KINDS]
        if of_fps and place not in taken:
            found.append((of_fps[0], place))
    if chosen:
        return _chosen(header, firsts, found, chosen, where), ()
    if not found:
        return _by_cells(header, firsts, taken), ()
    best = min(found, key=lambda pair: _order(pair[0]))
    equal = [pair for pair in found if _order(pair[0])[:2] == _order(best[0])[:2]]
    if not best[0].qualifier:
        equal = [pair for pair in equal if pair[0].rank == best[0].rank]
        _refuse_twice("fps", [header[place] for _, place in equal], where)
    columns = tuple(FpsColumn(place, header[place], one.column, one.factor) for one, place in equal)
    return columns, tuple(header[place] for one, place in found if (one, place) not in equal and one.column == "fps")


def _by_cells(header: Sequence[str], firsts: Sequence[str], taken: dict[int, str]) -> tuple[FpsColumn, ...]:
    """Return the columns whose first cell has a rate for a unit, as in `11.4M steps/s`, where no heading names FPS."""
    units = {
        place: canonical(number.unit)
        for place, cell in enumerate(firsts)
        if place not in taken and (number := cells.numbers(cell)[0]).is_number
    }
    if not any("/s" in unit or "fps" in unit.split() for unit in units.values() if unit in UNITS["fps"]):
        return ()
    # Often the first column alone has the whole unit, and the others `k` or `M`.
    return tuple(
        FpsColumn(place, header[place], "fps", Decimal(1))
        for place, unit in units.items()
        if unit and unit in UNITS["fps"]
    )


def _order(one: Meaning) -> tuple[bool, int, int]:
    """Return how directly a heading gives FPS: less is more."""
    return (bool(one.qualifier) and one.column == "fps", FPS_KINDS.index(one.column), one.rank)


def _chosen(
    header: Sequence[str],
    firsts: Sequence[str],
    found: Sequence[tuple[Meaning, int]],
    chosen: Sequence[str],
    where: str,
) -> tuple[FpsColumn, ...]:
    """Return the columns that --fps names."""
    known = {place: one for one, place in found}
    columns = []
    for name in chosen:
        places = [place for place, heading in enumerate(header) if name in (heading, heading.strip())]
        places = places or [place for place, heading in enumerate(header) if canonical(heading) == canonical(name)]
        if not places:
            raise UserError(
                f"{where}: --fps is {name!r}, no column of {', '.join(map(repr, header))}{nearest(name, header)}. Give the heading of"
                " a column."
            )
        one = known.get(places[0])
        kind, factor = ("fps", Decimal(1)) if one is None else (one.column, one.factor)
        columns.append(FpsColumn(places[0], header[places[0]], kind, factor))
    return tuple(columns)


def _total_of(grid: Grid, envs: int, fps: FpsColumn) -> FpsColumn | None:
    """Return the column that is FPS times environments in every row, if FPS turn out to be those of one environment."""
    if fps.kind not in ("fps", "fps_per_env"):
        return None
    for place, heading in enumerate(grid.header.cells):
        if place not in (envs, fps.place) and _is_product(grid, envs, fps.place, place):
            one = meaning(heading, grid.rows[0].cells[place], "fps")
            return FpsColumn(place, heading, "fps", Decimal(1) if one is None else one.factor)
    return None


def _is_product(grid: Grid, envs: int, fps: int, total: int) -> bool:
    rows = 0
    for row in grid.rows:
        if max(envs, fps, total) >= len(row.cells):
            return False
        values = [_value(row.cells[place]) for place in (envs, fps, total)]
        if any(value is None for value in values):
            continue
        size, each, whole = (value or 0.0 for value in values)
        if size > 1.0:
            rows += 1
            if whole <= 0.0 or abs(size * each / whole - 1.0) > PRODUCT_OFF:
                return False
    return rows >= 2


def _value(cell: str) -> float | None:
    (first, *_) = cells.numbers(cell)
    return float(first.text) if first.is_number else None


def _refuse_twice(column: str, headings: Sequence[str], where: str) -> None:
    if len(headings) > 1 and len(set(headings)) < len(headings):
        raise UserError(f"{where}: column {headings[0]!r} stands there {len(headings)} times. Keep one of them.")
    if len(headings) > 1 and column != "fps":
        raise UserError(
            f"{where}: {' and '.join(map(repr, headings))} both stand for {column!r}. Rename the one that counts to {column!r}."
        )


def _refuse_missing(header: Sequence[str], places: dict[str, int], fps: Sequence[FpsColumn], where: str) -> None:
    wanted = {
        "num_envs": "environments that run in parallel",
        "fps": "frames per second, or s/iter, it/s",
    }
    if header and all(cells.numbers(cell)[0].is_number for cell in header if cell):
        raise UserError(
            f"{where}: the first line has numbers alone, {', '.join(map(repr, header))[:200]}. Write a header above it, such as num_envs"
            " and fps, with a name for each column."
        )
    missing = [name for name in wanted if not (fps if name == "fps" else {"num_envs", "total_envs"} & places.keys())]
    for name in missing:
        free = [given for place, given in enumerate(header) if place not in places.values()]
        raise UserError(
            f"{where}: no column {name!r} ({wanted[name]}) among {', '.join(map(repr, header))[:500]}{nearest(name, free)}."
            f" Rename the column, or add it{', or choose one with --fps COLUMN' if name == 'fps' else ''}."
        )
    if "budget_s" in places and "seconds_to_target" not in places:
        raise UserError(
            f"{where}: column 'budget_s' needs a column 'seconds_to_target' (of training until the target reward was reached;"
            " empty where the budget was spent first). Add it, or leave budget_s out."
        )
