"""Looks into the folder of a sweep that may run elsewhere: no locks, and files that changed meanwhile are read at the next look."""

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from envknee.record.schema import Record, Request
from envknee.run.attempts import Attempts
from envknee.show.watch.state import SILENT_S, Running, Seen
from envknee.study.errors import UserError
from envknee.study.files import read_model
from envknee.study.paths import StudyFolder, TrialFolder, number_of

HALF_WRITTEN_S = 30.0
"""A record that cannot be read is taken as one that is being written for so long."""


class Reader:
    """Reads a study's trials again and again, each record once as long as its folder does not change."""

    def __init__(self, folder: StudyFolder) -> None:
        """Read nothing yet."""
        self._folder = folder
        self._records: dict[int, tuple[int, Record]] = {}
        """Number -> when its folder changed (nanoseconds), and its record."""
        self._unfinished: list[Path] = []
        """Folders of trials without a record, at the last look."""

    def stamp(self) -> tuple[int, ...]:
        """Return when what may change was changed (nanoseconds): while that is the same, a look would find nothing new.

        It costs a system call for each trial that was asked for and has no record, and reads no file.
        """
        return tuple(map(_changed_ns, [self._folder.study, self._folder.trials, *self._unfinished]))

    def look(self) -> Seen:
        """Return what is there now.

        Raises:
            UserError: when the study's folder is gone, or a record cannot be read.
        """
        if not self._folder.study.exists():
            raise UserError(f"{self._folder.root} is gone: it was moved or deleted. Name the folder where it is now.")
        running, newest_s = list[Running](), _newest_of_s([self._folder.study, *self._folder.root.glob("logs/*")])
        found: dict[int, tuple[int, Record]] = {}
        unfinished: list[Path] = []
        for path in _trials(self._folder.trials):
            number = number_of(path)
            if number is None:
                continue
            with suppress(OSError):  # it may be renamed or deleted between two calls
                changed_ns = path.stat().st_mtime_ns
                newest_s = max(newest_s, changed_ns / 1e9)
                known = self._records.get(number)
                if known is None or known[0] != changed_ns:
                    known = _record(TrialFolder(path), changed_ns)
                if known is not None:
                    found[number] = known
                    continue
                unfinished.append(path)
                trial, alive_s = _running(TrialFolder(path)), _sign_of_life_s(TrialFolder(path))
                newest_s = max(newest_s, alive_s)
                if trial is not None and time.time() - alive_s < SILENT_S:  # else its attempt was lost
                    running.append(trial)
        self._records, self._unfinished = found, unfinished
        silent_s = max(0.0, time.time() - newest_s)  # the clock of a shared folder may be ahead
        newest_record_s = max((changed_ns for changed_ns, _ in found.values()), default=0) / 1e9
        records = {number: record for number, (_, record) in sorted(found.items())}
        return Seen(records, running, silent_s, newest_record_s)


def _trials(folder: Path) -> list[Path]:
    try:
        return sorted(Path(entry.path) for entry in os.scandir(folder))
    except FileNotFoundError:  # before the first trial
        return []


def _record(trial: TrialFolder, changed_ns: int) -> tuple[int, Record] | None:
    """Return a trial's record, or None while it has no whole one."""
    if not trial.record.exists():
        return None
    try:
        return changed_ns, read_model(trial.record, Record, "Run that trial again.")
    except UserError:
        if time.time() - trial.record.stat().st_mtime > HALF_WRITTEN_S:
            raise
        return None  # half copied by a shared folder, perhaps; the next look tells


def _running(trial: TrialFolder) -> Running | None:
    """Return a trial that has begun; None before its request is whole, or if no attempt at it was made."""
    if not trial.attempts.exists() and not trial.outcome.exists():
        return None
    try:
        request = read_model(trial.request, Request, "")
    except UserError:
        return None
    began_s = None
    with suppress(UserError):
        began_s = read_model(trial.attempts, Attempts, "").began_unix_s
    return Running(request, began_s)


def _sign_of_life_s(trial: TrialFolder) -> float:
    """Return when a running trial was last written to, in Unix seconds."""
    return _newest_of_s([trial.attempts, trial.metrics, trial.log])


def _changed_ns(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:  # not there yet, or deleted
        return 0


def _newest_of_s(paths: Iterable[Path]) -> float:
    """Return when the newest of these files was written, in Unix seconds; 0 if there is none."""
    newest_s = 0.0
    for path in paths:
        with suppress(OSError):
            newest_s = max(newest_s, path.stat().st_mtime)
    return newest_s
