"""Reads the log of a foreign command as events with their own times.

Input: growing files, or lines as they are printed. Output: `Event`s in the order in which they were written. Reading never waits. A line
without its end is read later, once it is whole. What cannot be read is noted and left out (see `bounded`).
"""

import contextlib
import csv
import re
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from envknee.study.command import Rows
from envknee.trainers.command import bounded
from envknee.trainers.command.bounded import Unreadable, WholeLines
from envknee.trainers.command.scan import Scan

MOST_WAITING = 10_000
"""Printed rows that wait to be read. With more, the program waits: its rows come faster than they can be written."""

MOST_BAD_RECORDS = 1_000
"""A file of TensorBoard with more records that cannot be read is not read any further."""


LOOKS = 3
"""How often files are looked for at once, if folders vanish meanwhile."""


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
    arrived_unix_s: float | None = None
    """When it was read, by a clock that is never set; None for a log of old."""


@dataclass
class Problems:
    """What of a log could not be read."""

    unreadable: str | None = None
    """The first line or record that could not be read, as a message quotes it."""
    count: int = 0

    def note(self, what: str, why: object) -> None:
        """Count a line or record that could not be read."""
        self.count += 1
        self.unreadable = self.unreadable or f"{bounded.shown(what)} ({bounded.shown(str(why))})"


def _timed(event: Event) -> Event:
    """Return an event with a time and a step that can be. Raises Unreadable otherwise."""
    bounded.time_s(event.unix_time_s)
    if event.step is not None:
        bounded.step(event.step)
    return event


@dataclass
class TensorBoard:
    """TensorBoard's event files; each event has the wall time of its writing."""

    run_dir: Path
    pattern: str
    problems: Problems = field(default_factory=Problems)
    _loaders: dict[Path, Any] = field(default_factory=dict)
    _bad_records: dict[Path, int] = field(default_factory=dict)

    def poll(self, now_unix_s: float) -> Iterator[Event]:
        """Yield an event for each new scalar."""
        for path in _files(self.run_dir, self.pattern):
            for event in self._events(path):
                for value in event.summary.value:
                    try:
                        number = _scalar(value)
                        if number is not None:
                            values = {value.tag: number}
                            yield _timed(Event(event.wall_time, values, event.step, arrived_unix_s=now_unix_s))
                    except Unreadable as error:
                        self.problems.note(f"{path.name}: {value.tag}", error)

    def _events(self, path: Path) -> Iterator[Any]:
        """Yield the new events of a file. A record that cannot be read is left out."""
        from google.protobuf.message import DecodeError
        from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
        from tensorboard.compat import tf

        while self._bad_records.get(path, 0) < MOST_BAD_RECORDS:
            try:
                if path not in self._loaders:
                    self._loaders[path] = EventFileLoader(str(path))
                yield from self._loaders[path].Load()
            except (tf.errors.NotFoundError, FileNotFoundError):
                self._loaders.pop(path, None)  # its folder was renamed meanwhile: the next look finds it
                return
            except (DecodeError, ValueError, TypeError, OverflowError, RecursionError, MemoryError) as error:
                self._bad_records[path] = self._bad_records.get(path, 0) + 1
                self.problems.note(path.name, f"a record that cannot be read: {type(error).__name__}")
            else:
                return


def _scalar(value: Any) -> float | None:
    """Return the number in a summary's value, a tensor as the loader migrates them all; None for text, images and histograms.

    Raises:
        Unreadable: for a tensor whose content does not fit its type and shape.
    """
    from tensorboard.util import tensor_util

    if value.WhichOneof("value") != "tensor" or value.metadata.plugin_data.plugin_name not in ("scalars", ""):
        return None
    if value.tensor.tensor_shape.dim:
        return None  # no scalar, and a shape may claim any size
    try:
        array = tensor_util.make_ndarray(value.tensor)
    except (ValueError, TypeError, OverflowError, MemoryError) as error:
        raise Unreadable(f"no tensor: {type(error).__name__}") from error
    return float(array) if array.dtype.kind in "fiu" else None


@dataclass
class Lines:
    """A file of JSON lines, or a CSV file with a header."""

    run_dir: Path
    rows: Rows
    problems: Problems = field(default_factory=Problems)
    _read: dict[Path, int] = field(default_factory=dict)
    """Bytes read of each file."""
    _whole: dict[Path, WholeLines] = field(default_factory=dict)
    _header: dict[Path, list[str]] = field(default_factory=dict)

    def poll(self, now_unix_s: float) -> Iterator[Event]:
        """Yield an event for each new whole line."""
        for path in _files(self.run_dir, self.rows.path):
            with contextlib.suppress(FileNotFoundError):  # its folder was renamed meanwhile: the next look finds it
                for line in self._new_lines(path):
                    try:
                        values = self._values(path, line)
                        if values is not None:
                            yield _timed(self._event(values, now_unix_s))
                    except Unreadable as error:
                        self.problems.note(line, error)

    def _event(self, values: Mapping[str, float], now_unix_s: float) -> Event:
        time_s = values.get(self.rows.time_name, now_unix_s) if self.rows.time_name else now_unix_s
        step = values.get(self.rows.step_name)
        return Event(time_s, values, step, is_whole=True, begins_row=True, arrived_unix_s=now_unix_s)

    def _new_lines(self, path: Path) -> Iterator[str]:
        """Yield the lines of a file that were completed since the last look, without those that are empty."""
        whole = self._whole.setdefault(path, WholeLines())
        with path.open("rb") as file:
            file.seek(self._read.get(path, 0))
            while chunk := file.read(bounded.MOST_LINE_BYTES):
                self._read[path] = file.tell()
                for line in whole.take(chunk).split("\n"):
                    if line.strip():
                        yield line.strip()

    def _values(self, path: Path, line: str) -> dict[str, float] | None:
        if self.rows.source == "jsonl":
            return bounded.json_numbers(line)
        try:
            cells = next(csv.reader([line]))
        except csv.Error as error:
            raise Unreadable(str(error)) from error
        if path not in self._header:
            self._header[path] = [cell.strip() for cell in cells]
            return None
        numbers = {name: bounded.number(cell) for name, cell in zip(self._header[path], cells, strict=False)}
        return {name: value for name, value in numbers.items() if value is not None}


@dataclass
class Printed:
    """The command's output, parsed by regular expressions with named groups.

    One thread reads what is printed (`take`), another one makes events of it (`poll`).
    """

    patterns: Sequence[re.Pattern[str]]
    problems: Problems = field(default_factory=Problems)
    _matching: deque[tuple[float, str]] = field(default_factory=deque)
    _room: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(MOST_WAITING))

    def __post_init__(self) -> None:
        """Sort the patterns for the search."""
        self._scan = Scan(self.patterns)

    def take(self, unix_time_s: float, lines: str) -> None:
        """Add lines that were printed at this time. Waits while too many rows are not read yet."""
        for line in self._scan.matching(lines):
            self._room.acquire()
            self._matching.append((unix_time_s, line))

    def poll(self, now_unix_s: float) -> Iterator[Event]:
        """Yield an event for each match in the new lines."""
        while self._matching:
            unix_time_s, line = self._matching.popleft()
            self._room.release()
            for number, pattern in enumerate(self.patterns):
                if match := pattern.search(line):
                    try:
                        yield _timed(self._event(match, unix_time_s, begins_row=number == 0))
                    except Unreadable as error:
                        self.problems.note(line, error)

    def _event(self, match: re.Match[str], arrived_unix_s: float, begins_row: bool) -> Event:
        numbers = {name: bounded.number(text) for name, text in match.groupdict().items()}
        values = {name: value for name, value in numbers.items() if value is not None}
        time_s, step = values.pop("time", arrived_unix_s), values.pop("step", None)
        return Event(time_s, values, step, len(self.patterns) == 1, begins_row, arrived_unix_s)


def _files(folder: Path, pattern: str) -> list[Path]:
    """Return the regular files that a pattern names: reading a pipe or a device might never end.

    Nothing where the program renames or deletes folders while they are listed, as checkpoints are (Python 3.11 raises an error then, 3.12
    does not): the next look finds them.
    """
    for _ in range(LOOKS):
        with contextlib.suppress(FileNotFoundError):
            return [path for path in sorted(folder.glob(pattern)) if path.is_file()]
    return []


def of(rows: Rows, run_dir: Path) -> TensorBoard | Lines | Printed:
    """Return the log that a study names, to be read while it grows."""
    if rows.source == "tensorboard":
        return TensorBoard(run_dir, rows.path)
    if rows.source == "regex":
        return Printed([re.compile(pattern) for pattern in rows.patterns])
    return Lines(run_dir, rows)
