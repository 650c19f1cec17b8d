"""Progress of a sweep: a line of the running trial, which is updated in place, and a line of each trial that ends.

Input: the study's folder. Output: lines on a terminal, whose words are those of `words.progress`.
"""

import os
import re
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from envknee.record.schema import Record, Request, Row
from envknee.run.time_left import time_left
from envknee.study import space
from envknee.study.errors import UserError
from envknee.study.files import read_model
from envknee.study.model import Study
from envknee.study.paths import StudyFolder, TrialFolder
from envknee.trainers.command import bounded
from envknee.trainers.command.ends import says_compiling
from envknee.verdict.schema.plan import KindTime
from envknee.words.progress import finished_line, running_words, starting_words, trial_words

SAID_AFTER_S = (30.0, 60.0, 120.0)
"""Where no line can be updated in place, a trial that still starts says so after these seconds, and then every `SAID_AFTER_S[-1]`."""

TAIL_BYTES = 8192
"""End of a trial's log in which its newest lines are looked for."""


class Shown:
    """What a running trial does, on standard error: a line that is updated in place, or without a terminal a line now and then."""

    def __init__(self, trial: TrialFolder, request: Request) -> None:
        """Show one trial."""
        self._trial, self._request = trial, request
        self._said = 0

    def look(self, elapsed_s: float) -> None:
        """Show what the trial does after so many seconds."""
        if sys.stderr.isatty():
            text = f"  ▸ {trial_words(self._request)}: {self._words(elapsed_s)}"
            width = os.get_terminal_size(sys.stderr.fileno()).columns
            print(f"\r\033[K{text[: width - 1]}", end="", file=sys.stderr, flush=True)
        elif elapsed_s >= self._due_s():
            self._said += 1
            if _newest_row(self._trial) is None:
                print(f"  {trial_words(self._request)}: {self._words(elapsed_s)}", file=sys.stderr, flush=True)

    def _due_s(self) -> float:
        """Return when the next line is due."""
        more = self._said - len(SAID_AFTER_S)
        return SAID_AFTER_S[self._said] if more < 0 else SAID_AFTER_S[-1] * (more + 2)

    def _words(self, elapsed_s: float) -> str:
        row = _newest_row(self._trial)
        if row is not None:
            return running_words(self._request, row, elapsed_s)
        newest = _newest_lines(self._trial)
        return starting_words(elapsed_s, says_compiling(newest), newest[-1] if newest else None)


def _newest_lines(trial: TrialFolder) -> list[str]:
    """Return the newest lines of a trial's log that are not empty, without what its launcher printed."""
    try:
        with trial.log.open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - TAIL_BYTES))
            text = log.read().decode("utf-8", errors="replace")
    except OSError:
        return []
    lines = re.split(r"[\r\n]", text)
    return [bounded.shown(line.strip()) for line in lines if line.strip() and not line.startswith("envknee runs:")]


def clear() -> None:
    """Remove the line that `Shown` updates."""
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr, flush=True)


def _newest_row(trial: TrialFolder) -> Row | None:
    """Return the newest whole row of a running trial, or None."""
    if not trial.metrics.exists():
        return None
    *_, newest, _unfinished = ["", *trial.metrics.read_text(encoding="utf-8").split("\n")]
    return Row.model_validate_json(newest) if newest else None


class Follower:
    """Prints the preparation's lines and a line for each trial that ends: on a cluster, jobs print into their own logs."""

    POLL_S = 5.0

    def __init__(self, folder: StudyFolder, study: Study, say: Callable[[str], None]) -> None:
        """Note the trials that have ended already; `say` prints a line."""
        self.folder = folder
        self.study = study
        self.slots = space.plan(study)
        self.say = say
        self._records: dict[int, Record] = {}
        self._seen = self._finished()
        self._prepared = self._preparing()
        self._before = frozenset(self._seen)
        self._began_s = time.monotonic()
        self._looking = threading.Lock()

    def start(self) -> None:
        """Look every few seconds, in a thread that ends with the process."""
        threading.Thread(target=self._keep_looking, name="progress", daemon=True).start()

    def look(self) -> None:
        """Print what is new since the last look."""
        with self._looking:
            before, self._prepared = self._prepared, self._preparing()
            for said in self._prepared[len(before) if self._prepared[: len(before)] == before else 0 :]:
                self.say(said)
            for path in sorted(self._finished() - self._seen):
                record = read_model(path, Record, "Run the sweep again.")
                self._seen.add(path)
                self._records[record.request.number] = record
                self.say(finished_line(record, len(self._seen), len(self.slots), self._left()))

    def _left(self) -> list[KindTime]:
        """Return how long trials of each kind still take, side by side as many as have run so since the first look."""
        for path in self._before:
            number = int(path.parent.name)
            if number not in self._records:
                self._records[number] = read_model(path, Record, "Run the sweep again.")
        seconds = {number: record.outcome.total_s for number, record in self._records.items()}
        skipped = {number for number, record in self._records.items() if record.outcome.status == "skipped"}
        before = {int(path.parent.name) for path in self._before}
        busy_s = sum(seconds[number] for number in seconds.keys() - before)
        elapsed_s = max(time.monotonic() - self._began_s, self.POLL_S)
        return time_left(self.study, self.slots, seconds, skipped, side_by_side=max(1.0, busy_s / elapsed_s))

    def _keep_looking(self) -> None:
        while True:
            time.sleep(self.POLL_S)
            with suppress(UserError, OSError):  # the file system may be away for a moment; the next look tells
                self.look()

    def _preparing(self) -> list[str]:
        """Return the whole lines that the preparation has printed."""
        log = self.folder.root / "logs" / "prepare.log"
        text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
        return text.splitlines() if text.endswith("\n") else text.splitlines()[:-1]

    def _finished(self) -> set[Path]:
        return set(self.folder.trial_files("record.json"))
