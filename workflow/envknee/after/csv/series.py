"""Series: rows that differ in another column than num_envs are different series. Pure.

In: the measurements of all tables of a file. Out: rows with FPS of all GPUs, environments on each, and the settings that part series.
"""

import re
from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

from envknee.after.csv.headings import canonical, is_numbered_setting, is_setting, may_name_rows, names_hardware
from envknee.after.csv.rows import COLUMNS, OUT_OF_MEMORY, Reading, TableRow
from envknee.study.errors import UserError, nearest
from envknee.verdict.schema.table import Remark

COUNTED_GPUS = re.compile(r"(?P<gpus>\d{1,4})\s*[x×]\s*(?P<name>[A-Za-z].*)")
"""`4x A100`."""

LETTER = re.compile(r"[^\W\d_]")

DAY = re.compile(r"(\d{4}-\d{2}-\d{2})[T ].*")


@dataclass(frozen=True)
class Labelled:
    """Rows with the settings of their series."""

    rows: list[TableRow]
    settings: frozenset[str]
    """Headings that part series, or have one value in all rows."""
    dropped: frozenset[str]
    """Columns that say nothing of their own."""
    remarks: tuple[Remark, ...]


def chosen(readings: Sequence[Reading], where: Sequence[tuple[str, str]], source: str) -> list[Reading]:
    """Return the measurements with the values that a user chose.

    Raises:
        UserError: when no row has such a value.
    """
    kept = list(readings)
    for heading, value in where:
        names = dict.fromkeys(
            [*(name for one in readings for name in one.others), *(name for one in readings for name in one.values)]
        )
        name = next((own for own in names if canonical(own) == canonical(heading)), None)
        if name is None:
            raise UserError(
                f"{source}: --where names {heading!r}, no column of {', '.join(map(repr, names))}{nearest(heading, names)}."
            )
        values = dict.fromkeys(_shown(one, name) for one in kept)
        kept = [one for one in kept if _shown(one, name).casefold() == value.strip().casefold()]
        if not kept:
            raise UserError(
                f"{source}: --where {heading}={value}: no row has that. Column {name!r} has {', '.join(list(values)[:20])}."
            )
    return kept


def labelled(readings: Sequence[Reading], source: str) -> Labelled:
    """Return checked rows with the settings that part them into series.

    Raises:
        UserError: when two rows are the same point, or contradict themselves.
    """
    readings = [_with_counted_gpus(one) for one in readings]
    settings = _settings(readings)
    remarks: list[Remark] = []
    gpus = [round(one.values.get("gpus") or 1) for one in readings]
    sizes, totals = _sizes(readings, gpus, settings, source)
    if totals == "guessed":
        remarks.append(Remark(kind="total_envs"))
    dropped: set[str] = set()
    batches = [one.values.get("batch_size") for one in readings]
    if _follows(batches, sizes):
        batches = [None] * len(readings)
        dropped.add("batch_size")
        remarks.append(Remark(kind="batch_follows"))
    has_horizon = all(one.values.get("horizon") for one in readings)
    if not has_horizon and any(one.kind in ("seconds_per_iteration", "iterations_per_second") for one in readings):
        remarks.append(Remark(kind="relative"))
    rows = [
        _row(one, size, of, None if batch is None else round(batch), settings)
        for one, size, of, batch in zip(readings, sizes, gpus, batches, strict=True)
    ]
    unlike = [heading for heading in _differing(readings) if may_name_rows(heading) and heading not in settings]
    remarks += [Remark(kind="differs_everywhere", heading=heading) for heading in unlike]
    _refuse_duplicates(rows, source)
    return Labelled(rows, frozenset(settings) | frozenset(unlike), frozenset(dropped), tuple(remarks))


# --- Which headings part series


def _settings(readings: Sequence[Reading]) -> list[str]:
    """Return the headings whose values part series: by the layout, and then in the order of the table."""
    differing = _differing(readings)
    by_layout = {heading for one in readings for heading in one.settings}
    first = [heading for heading in differing if heading in by_layout]
    return first + [heading for heading in differing if heading not in by_layout and _parts(readings, heading)]


def _differing(readings: Sequence[Reading]) -> list[str]:
    headings = dict.fromkeys(heading for one in readings for heading in one.others)
    return [heading for heading in headings if len({_value(one, heading) for one in readings}) > 1]


def _parts(readings: Sequence[Reading], heading: str) -> bool:
    """Tell whether the values of a heading are settings, and no measurement or remark of their own row.

    A heading that names a setting is one, unless every row may have its own. Another heading is one if its values separate
    rows of the same size, and each of them has several sizes.
    """
    sizes = defaultdict[str, set[float | None]](set)
    for one in readings:
        sizes[_value(one, heading)].add(_size(one))
    every = len({_size(one) for one in readings})
    if may_name_rows(heading):
        return len(sizes) < len(readings) and any(len(own) > 1 for own in sizes.values())
    if is_setting(heading) and (is_numbered_setting(heading) or any(map(LETTER.search, sizes))):
        return True
    separates = sum(map(len, sizes.values())) > every
    return separates and len(sizes) <= len(readings) / 2 and all(len(own) > 1 for own in sizes.values())


def _value(one: Reading, heading: str) -> str:
    """Return the value of a setting; of a time of day, the day."""
    text = one.others.get(heading, "")
    return DAY.sub(r"\1", text)


def _size(one: Reading) -> float | None:
    return one.values.get("num_envs", one.values.get("total_envs"))


def _shown(one: Reading, name: str) -> str:
    """Return a value as `--where` gives it."""
    if name in one.others:
        return _value(one, name)
    number = one.values.get(name)
    return "" if number is None else f"{number:.15g}"


# --- GPUs and environments


def _with_counted_gpus(one: Reading) -> Reading:
    """Return a measurement with the number of GPUs that a cell such as `4x A100` gives."""
    for heading, text in one.others.items():
        match = COUNTED_GPUS.fullmatch(text)
        if match is not None and names_hardware(heading) and "gpus" not in one.values:
            others = {**one.others, heading: match["name"]}
            return replace(one, values={**one.values, "gpus": float(match["gpus"])}, others=others)
    return one


def _sizes(
    readings: Sequence[Reading], gpus: Sequence[int], settings: Sequence[str], source: str
) -> tuple[list[int], str]:
    """Return the environments on each GPU, and whether the table gives those of all: "given", "guessed" or "no"."""
    given = [one.values.get("num_envs") for one in readings]
    totals = [one.values.get("total_envs") for one in readings]
    if all(size is not None for size in given):
        if not _are_totals([round(size or 0) for size in given], gpus):
            return [round(size or 0) for size in given], "no"
        totals, how = given, "guessed"
    else:
        how = "given"
    sizes = []
    for one, total, of in zip(readings, totals, gpus, strict=True):
        if total is None or round(total) % of:
            raise UserError(
                f"{one.where}: {total or 0:,.0f} environments on {of} GPUs are no whole number on each. Give the environments on each"
                " GPU as num_envs."
            )
        sizes.append(round(total) // of)
    return sizes, how


def _are_totals(sizes: Sequence[int], gpus: Sequence[int]) -> bool:
    """Tell whether sizes are those of all GPUs: each number of GPUs then has the sizes of one GPU times that number."""
    by_gpus = defaultdict[int, set[int]](set)
    for size, of in zip(sizes, gpus, strict=True):
        by_gpus[of].add(size)
    if len(by_gpus) < 2 or len({frozenset(own) for own in by_gpus.values()}) == 1:
        return False
    if any(size % of for of, own in by_gpus.items() for size in own):
        return False
    return len({frozenset(size // of for size in own) for of, own in by_gpus.items()}) == 1


def _follows(batches: Sequence[float | None], sizes: Sequence[int]) -> bool:
    """Tell whether the batch grows as the environments do, so that it is no setting of its own."""
    known = [(batch, size) for batch, size in zip(batches, sizes, strict=True) if batch]
    shares = {round(batch / size, 6) for batch, size in known}
    return len(known) == len(batches) and len({size for _, size in known}) > 1 and len(shares) == 1


# --- Rows


def _row(one: Reading, size: int, gpus: int, batch: int | None, settings: Sequence[str]) -> TableRow:
    known = {name: value for name, value in one.values.items() if name in COLUMNS and value is not None}
    horizon = known.get("horizon", 1.0)
    fps = None if one.fps is None else _all_fps(one.fps, one.kind, size, gpus, horizon)
    labels = tuple((heading, _value(one, heading)) for heading in settings)
    known |= {"num_envs": size, "gpus": gpus, "batch_size": batch, "fps": fps, "line": one.line, "labels": labels}
    row = TableRow.model_validate(
        known
        | {
            "fps_digit": (fps or 0.0) * one.share,
            "fps_spread": (fps or 0.0) * one.spread,
            "vram_is_bound": one.vram_is_bound,
        }
    )
    _refuse_contradictions(row, one.where)
    return row


def _all_fps(value: float, kind: str, size: int, gpus: int, horizon: float) -> float:
    """Return the frames a second of all GPUs."""
    factors = {
        "fps_per_gpu": gpus, "fps_per_env": size * gpus, "iterations_per_second": size * gpus * horizon,
        "seconds_per_iteration": size * gpus * horizon, "seconds_per_step": size * gpus,
    }  # fmt: skip
    factor = factors.get(kind, 1)
    return factor / value if kind.startswith("seconds") else value * factor


def _point(row: TableRow) -> tuple[Hashable, ...]:
    return row.num_envs, row.horizon, row.batch_size, row.gpus, row.labels


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
    seen: dict[tuple[Hashable, ...], int] = {}
    for row in rows:
        first = seen.setdefault((*_point(row), row.repeat), row.line)
        if first != row.line:
            point = row.model_dump(include={"num_envs", "horizon", "batch_size"}, exclude_unset=True, exclude_none=True)
            what = ", ".join(
                [
                    *(f"{name} {value}" for name, value in point.items()),
                    *(f"{name} {value}" for name, value in row.labels),
                ]
            )
            advice = (
                f"repeat {row.repeat}. Number repeats of a point 0, 1, 2, ..."
                if "repeat" in row.model_fields_set
                else "no column 'repeat'. If these are repeats, add that column and number them 0, 1, 2, ..."
            )
            raise UserError(
                f"{source}, line {row.line}: the same point as line {first}: {what}, {advice}; if they differ in a setting, add a"
                " column that names it, such as gpu or task."
            )
