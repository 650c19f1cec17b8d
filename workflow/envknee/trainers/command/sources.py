"""Reads the log of a foreign command as events with their own times.

Input: growing files, or lines as they are printed. Output: `Event`s in the order in which they were written. Reading never waits. A line
without its end is read later, once it is whole.
"""

import csv
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from envknee.study.command import Rows


@dataclass(frozen=True)
class Event:
    """An entry of the log."""

    unix_time_s: float
    values: Mapping[str, float]
    """Numbers by the log's own names. They may be NaN or infinite."""
    step: float | None = None
    """The step in the log's own unit; None if the log does not say."""
    is_whole: bool = False
    """Whether the event holds its whole row."""
    begins_row: bool = False


@dataclass
class TensorBoard:
    """TensorBoard's event files; each event has the wall time of its writing."""

    run_dir: Path
    pattern: str
    _loaders: dict[Path, Any] = field(default_factory=dict)

    def poll(self, now_unix_s: float) -> Iterator[Event]:
        """Yield an event for each new scalar."""
        from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

        for path in sorted(self.run_dir.glob(self.pattern)):
            if path not in self._loaders:
                self._loaders[path] = EventFileLoader(str(path))
            for event in self._loaders[path].Load():
                for value in event.summary.value:
                    number = _scalar(value)
                    if number is not None:
                        yield Event(event.wall_time, {value.tag: number}, event.step)


def _scalar(value: Any) -> float | None:
    """Return the number in a summary's value, a tensor as the loader migrates them all; None for text, images and histograms."""
    from tensorboard.util import tensor_util

    if value.WhichOneof("value") != "tensor" or value.metadata.plugin_data.plugin_name not in ("scalars", ""):
        return None
    array = tensor_util.make_ndarray(value.tensor)
    return float(array) if array.ndim == 0 and array.dtype.kind in "fiu" else None


@dataclass
class Lines:
    """A file of JSON lines, or a CSV file with a header."""

    run_dir: Path
    rows: Rows
    unreadable: str | None = None
    """The first line that could not be parsed."""
    _read: dict[Path, int] = field(default_factory=dict)
    """Bytes read of each file, in whole lines."""
    _header: dict[Path, list[str]] = field(default_factory=dict)

    def poll(self, now_unix_s: float) -> Iterator[Event]:
        """Yield an event for each new whole line."""
        for path in sorted(self.run_dir.glob(self.rows.path)):
            with path.open("rb") as file:
                file.seek(self._read.get(path, 0))
                new = file.read()
            whole = new[: new.rfind(b"\n") + 1]
            self._read[path] = self._read.get(path, 0) + len(whole)
            for line in whole.decode("utf-8", errors="replace").splitlines():
                values = self._values(path, line.strip()) if line.strip() else None
                if values is not None:
                    time_s = values.get(self.rows.time_name, now_unix_s) if self.rows.time_name else now_unix_s
                    step = values.get(self.rows.step_name)
                    yield Event(time_s, values, step, is_whole=True, begins_row=True)

    def _values(self, path: Path, line: str) -> dict[str, float] | None:
        try:
            if self.rows.source == "jsonl":
                values = _flat(json.loads(line))
            else:
                cells = next(csv.reader([line]))
                if path not in self._header:
                    self._header[path] = [cell.strip() for cell in cells]
                    return None
                values = {name: _number(cell) for name, cell in zip(self._header[path], cells, strict=False)}
        except (ValueError, csv.Error):
            self.unreadable = self.unreadable or line
            return None
        return {name: value for name, value in values.items() if value is not None}


@dataclass
class Printed:
    """The command's output, parsed by regular expressions with named groups."""

    patterns: Sequence[re.Pattern[str]]
    _lines: list[tuple[float, str]] = field(default_factory=list)

    def take(self, unix_time_s: float, line: str) -> None:
        """Add a line that was printed at this time."""
        self._lines.append((unix_time_s, line))

    def poll(self, now_unix_s: float) -> Iterator[Event]:
        """Yield an event for each match in the new lines."""
        lines, self._lines = self._lines, []
        for unix_time_s, line in lines:
            for number, pattern in enumerate(self.patterns):
                if match := pattern.search(line):
                    values = {
                        name: value for name, text in match.groupdict().items() if (value := _number(text)) is not None
                    }
                    time_s = values.pop("time", unix_time_s)
                    yield Event(
                        time_s, values, values.pop("step", None), len(self.patterns) == 1, begins_row=number == 0
                    )


def of(rows: Rows, run_dir: Path) -> TensorBoard | Lines | Printed:
    """Return the log that a study names, to be read while it grows."""
    if rows.source == "tensorboard":
        return TensorBoard(run_dir, rows.path)
    if rows.source == "regex":
        return Printed([re.compile(pattern) for pattern in rows.patterns])
    return Lines(run_dir, rows)


def _flat(parsed: Any, before: str = "") -> dict[str, float | None]:
    """Return the numbers of a JSON object by name, with nested ones as `outer/inner`."""
    if not isinstance(parsed, dict):
        raise ValueError("a JSON line is expected to be an object")
    numbers: dict[str, float | None] = {}
    for name, value in parsed.items():
        if isinstance(value, dict):
            numbers |= _flat(value, f"{before}{name}/")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            numbers[f"{before}{name}"] = float(value)
    return numbers


def _number(text: str | None) -> float | None:
    try:
        return float((text or "").replace(",", "").strip())
    except ValueError:
        return None
