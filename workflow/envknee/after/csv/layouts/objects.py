"""Tables in JSON: a list of records, also below keys, a record a line, columns as lists, and Isaac Lab's training bundles. Pure."""

import itertools
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from envknee.after.csv.grid import MOST_ROWS, MOST_TABLES, Grid, Line, bounded
from envknee.study.errors import UserError

DEEPEST = 8
"""Most keys above a list of records, and within a record."""

Records = Sequence[Mapping[str, Any]]


def is_json(text: str) -> bool:
    """Tell whether a text begins as JSON does."""
    return text.lstrip("\ufeff \r\n\t").startswith(("{", "["))


def read(text: str, source: str) -> list[Grid]:
    """Return every list of records in a text.

    Raises:
        UserError: when it is not JSON, holds no records, or numbers that no measurement has.
    """
    try:
        grids = [_grid(title, records, source) for title, records in itertools.islice(_parsed(text), MOST_TABLES)]
    except UserError:
        raise
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise _refusal(source, _why(error)) from error
    if not any(grid.rows for grid in grids):
        raise _refusal(source, "no list of records is in it")
    return grids


def _why(error: Exception) -> str:
    if isinstance(error, OverflowError):
        return "an infinite number, or one of hundreds of digits, stands in it"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, json.JSONDecodeError):
        return f"line {error.lineno} is missing or wrong: {error.msg}"
    return f"{str(error)[:200]!r} is missing or wrong"


def _refusal(source: str, why: str) -> UserError:
    return UserError(
        f"{source} is JSON, and no training bundle of Isaac Lab or list of records ({why}). Expected records such as"
        ' [{"num_envs": 1024, "fps": 39000}], one a line or in a list; or bundles with run.num_envs and runtime.total_fps.mean.'
    )


def _parsed(text: str) -> Iterator[tuple[str, Records]]:
    """Yield the title and records of each table."""
    try:
        parsed = json.loads(text)
    except json.JSONDecodeError:
        lines = [line for line in text.lstrip("\ufeff").splitlines() if line.strip()]
        if len(lines) < 2 or not all(line.lstrip().startswith("{") for line in lines):
            raise
        parsed = [json.loads(line) for line in lines[: MOST_ROWS + 2]]
    bundles = parsed if isinstance(parsed, list) else [parsed]
    if bundles and all(_is_bundle(bundle) for bundle in bundles):
        yield "", _of_bundles(bundles)
    else:
        yield from _tables(parsed, ())


def _tables(value: Any, path: tuple[str, ...]) -> Iterator[tuple[str, Records]]:
    """Yield every table within a value, named by the keys above it."""
    if len(path) > DEEPEST:
        return
    title = ".".join(key for key in path if key not in ("results", "data", "records", "rows"))
    if isinstance(value, list):
        if value and all(isinstance(item, dict) for item in value):
            yield title, value
        return
    if not isinstance(value, dict):
        return
    if records := _columns(value) or _by_size(value) or _alone(value):
        yield title, records
        return
    for key, inner in value.items():
        yield from _tables(inner, (*path, key))


def _columns(value: Mapping[str, Any]) -> Records:
    """Return the records of lists of one length, such as {"num_envs": [1, 2], "fps": [3, 4]}."""
    lists = {key: item for key, item in value.items() if isinstance(item, list) and not _has_objects(item)}
    if len(lists) < 2 or len({len(item) for item in lists.values()}) != 1:
        return []
    return [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]


def _by_size(value: Mapping[str, Any]) -> Records:
    """Return the records of {"1024": 50000, "2048": 90000}, or of {"1024": {"fps": 50000}}."""
    if len(value) < 2 or not all(key.strip().isdigit() for key in value):
        return []
    return [{"num_envs": key, **(item if isinstance(item, dict) else {"fps": item})} for key, item in value.items()]


def _alone(value: Mapping[str, Any]) -> Records:
    """Return a record that is not within a list."""
    plain = [item for item in value.values() if isinstance(item, int | float) and not isinstance(item, bool)]
    return [value] if len(plain) >= 2 and not any(_has_objects(item) for item in value.values()) else []


def _has_objects(value: Any) -> bool:
    return isinstance(value, list | dict) and any(isinstance(item, dict | list) for item in value)


def _grid(title: str, records: Records, source: str) -> Grid:
    """Return records as a grid, with a column for every name that one of them has."""
    flat = [dict(_flat(record, "", 0)) for record in records[: MOST_ROWS + 2]]
    names = list(dict.fromkeys(name for record in flat for name in record))
    rows = (Line(number, tuple(record.get(name, "") for name in names)) for number, record in enumerate(flat, 1))
    return Grid(Line(1, tuple(names)), tuple(bounded(rows, source)), title, counts="record")


def _flat(record: Mapping[str, Any], before: str, depth: int) -> Iterator[tuple[str, str]]:
    if depth > DEEPEST:
        raise RecursionError
    for name, value in record.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{name}.", depth + 1)
        else:
            yield f"{before}{name}", _cell(value)


def _cell(value: Any) -> str:
    """Return a value as the text of a cell; a list of numbers as repeats."""
    if value is None:
        return ""
    if isinstance(value, float) and math.isinf(value):
        raise OverflowError
    if isinstance(value, list):
        return " / ".join(map(_cell, value)) if not _has_objects(value) else ""
    return str(value) if isinstance(value, str) else json.dumps(value)


def _is_bundle(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("run"), dict) and isinstance(value.get("runtime"), dict)


def _of_bundles(bundles: Sequence[Mapping[str, Any]]) -> Records:
    """Return a record for each of Isaac Lab's training bundles (isaaclab.benchmark), with repeats numbered in order."""
    seen: Counter[int] = Counter()
    records = []
    for bundle in bundles:
        run = bundle["run"]
        num_envs, fps = int(run["num_envs"]), float(bundle["runtime"]["total_fps"]["mean"])
        if run.get("status", "completed") != "completed":
            records.append({"num_envs": num_envs, "fps": None, "repeat": seen[num_envs], "status": run["status"]})
        else:
            records.append({"num_envs": num_envs, "fps": fps, "repeat": seen[num_envs], "status": "completed"})
        seen[num_envs] += 1
    return records
