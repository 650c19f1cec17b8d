"""What `ask` needs of earlier trials, in one file with a line a trial, so that asking need not read every file again.

`.asked.journal` in a results folder: first a line that says of which study the others are; then for each request its point and why it was
skipped, and for each record the memory that the trial took. Each line begins with its checksum, and has the sizes, times and inodes of
the files that it was made from. While these files are as they were, the line stands for them; for any other trial the files are read
and checked anew. So a file that was changed, replaced or removed is noticed, and the journal may be deleted at any time.
"""

import json
import os
import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

from pydantic import TypeAdapter

import envknee
from envknee.ask.history import Asked, Footprint
from envknee.base.point import Point
from envknee.record.read import load_record
from envknee.record.reasons import SkipReason
from envknee.record.schema import Record, Request
from envknee.study.files import canonical_json, read_model, sha256_of, write_atomically
from envknee.study.model import Study
from envknee.study.paths import StudyFolder, TrialFolder, trial_name

FORMAT = 1
"""Raised when lines get another meaning, or `ask.mismatch` another answer for the same study."""

SETTLED_S = 2.0
"""A file that changed less than this before it was read is read again next time: a second change within one tick of the file system's
clock would leave its times as they are."""

NO_FILE = "none"
"""State of a file that does not exist. Of one that does: size, time of the last change in ns (`st_ctime`, which no program can set) and
inode, as `506:1795828424062914463:2442164`."""

FILES = TrialFolder(Path())
REQUEST = FILES.request.name
RESULTS = tuple(file.name for file in (FILES.record, FILES.metrics, FILES.outcome, FILES.cost))
"""Files that a record is checked against, beside the request; the record itself first."""

SKIP = TypeAdapter[SkipReason | str | None](SkipReason | str | None)


def read_request(trial: TrialFolder) -> Request:
    """Read an earlier request.

    Raises:
        UserError: when it is missing or truncated.
    """
    remedy = "Requests are asked in order, each knowing all before it: ask for this one first, or restore the file."
    return read_model(trial.request, Request, remedy)


class Line(NamedTuple):
    """A line of the journal."""

    of: Literal["request", "record"]
    number: int
    files: str
    """States of the files that it was made from."""
    tells: Any
    """What it says of them."""


class Journal:
    """The journal of one results folder. New lines are written when it is left."""

    def __init__(self, study: Study, folder: StudyFolder) -> None:
        self._folder = folder
        self._trials = os.fspath(folder.trials)
        self._head = {"format": FORMAT, "envknee": envknee.__version__, "study_sha256": _digest(study)}
        self._lines = _read(folder.journal, self._head)
        self._is_begun = bool(self._lines)
        self._new: list[Line] = []
        # Files are looked at once, so that all answers of a process follow from the same ones.
        self._states_of_requests: dict[int, str] = {}
        self._states_of_results: dict[int, list[str]] = {}
        self._requests: dict[int, Request] = {}
        self._records: dict[int, Record] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Write the new lines. A journal that cannot be written costs time and nothing else."""
        if not self._new:
            return
        text = "".join(_written(line) for line in self._new)
        with suppress(OSError):
            if self._is_begun:
                with self._folder.journal.open("a", encoding="utf-8") as stream:
                    stream.write(text)
            else:
                write_atomically(self._folder.journal, _written(self._head) + text)

    def asked(self, number: int, check: Callable[[Request], None]) -> Asked:
        """Return what most answers need of a request. `check` raises if it is not one of this study.

        Raises:
            UserError: when the request is missing or truncated, and as `check`.
        """
        files = self._request_state(number)
        line = self._lines.get(("request", number))
        if line is None or line.files != files:
            request = self.request(number)
            check(request)
            line = self._note(Line("request", number, files, _told_of(request)))
        arm, kind, repeat, point, skip = line.tells
        return Asked(number, arm, kind, repeat, Point(*point), None if skip is None else SKIP.validate_python(skip))

    def footprint(self, number: int) -> Footprint:
        """Return the memory that a trial took.

        Raises:
            UserError: as `load_record`.
        """
        files = " ".join([self._request_state(number), *self._result_states(number)])
        line = self._lines.get(("record", number))
        if line is None or line.files != files:
            record = self._records[number] = load_record(self._folder.trial(number))
            line = self._note(Line("record", number, files, Footprint.of(record).model_dump(mode="json")))
        return Footprint.model_validate(line.tells)

    def request(self, number: int) -> Request:
        """Return a whole request."""
        if number not in self._requests:
            self._requests[number] = read_request(self._folder.trial(number))
        return self._requests[number]

    def record(self, number: int) -> Record:
        """Return a whole record, as `load_record` does."""
        if number not in self._records:
            self._records[number] = load_record(self._folder.trial(number))
        return self._records[number]

    def _note(self, line: Line) -> Line:
        """Keep a new line, and write it unless one of its files changed just now."""
        self._lines[line.of, line.number] = line
        newest_ns = max(int(state.split(":")[1]) for state in line.files.split() if state != NO_FILE)
        if time.time_ns() - newest_ns > SETTLED_S * 1e9:
            self._new.append(line)
        return line

    def has_record(self, number: int) -> bool:
        """Tell whether a trial has a record, whatever is in it."""
        return self._result_states(number)[0] != NO_FILE

    def _request_state(self, number: int) -> str:
        if number not in self._states_of_requests:
            self._states_of_requests[number] = _state_of(f"{self._trials}/{trial_name(number)}/{REQUEST}")
        return self._states_of_requests[number]

    def _result_states(self, number: int) -> list[str]:
        if number not in self._states_of_results:
            trial = f"{self._trials}/{trial_name(number)}/"
            self._states_of_results[number] = [_state_of(trial + name) for name in RESULTS]
        return self._states_of_results[number]


def _state_of(path: str) -> str:
    try:
        found = os.stat(path)  # noqa: PTH116  # a Path takes three times as long, and there are 50,000
    except FileNotFoundError:
        return NO_FILE
    return f"{found.st_size}:{found.st_ctime_ns}:{found.st_ino}"


def _told_of(request: Request) -> list[Any]:
    asked = Asked.of(request)
    point = [asked.point.num_envs, asked.point.horizon, asked.point.batch_size]
    return [asked.arm, asked.kind, asked.repeat, point, SKIP.dump_python(asked.skip, mode="json")]


def _digest(study: Study) -> str:
    """Return the sha256 of everything in a study that requests follow from."""
    return sha256_of(canonical_json(study.model_dump(mode="json", exclude={"decide", "tracking"})))


def _written(content: Any) -> str:
    text = json.dumps(content, separators=(",", ":"))
    return f"{zlib.crc32(text.encode()):08x} {text}\n"


def _read(path: Path, head: dict[str, Any]) -> dict[tuple[str, int], Line]:
    """Return the lines of a journal of this study; none of another one. A line that is not whole is left out."""
    if not path.exists():
        return {}
    texts = [text for line in path.read_bytes().split(b"\n") if (text := _whole(line))]
    contents: list[Any] = json.loads(b"[%s]" % b",".join(texts))
    if contents[:1] != [head]:
        return {}
    lines = (Line(*content) for content in contents[1:])
    return {(line.of, line.number): line for line in lines}


def _whole(line: bytes) -> bytes:
    """Return the text of a line; nothing if the line is not as it was written."""
    checksum, _, text = line.partition(b" ")
    return text if checksum == b"%08x" % zlib.crc32(text) else b""
