"""Progress of a sweep: a line of the running trial, which is updated in place, a line of each trial that ends, and the time left.

Input: the study's folder. Output: lines on a terminal, whose words are those of `words.progress`; `time_left_s` is pure.
"""

import itertools
import os
import statistics
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from envknee.record.schema import Record, Request, Row
from envknee.study.errors import UserError
from envknee.study.files import read_model
from envknee.study.model import Study
from envknee.study.paths import StudyFolder, TrialFolder
from envknee.study.space import Slot
from envknee.words.progress import finished_line, running_words, trial_words


def show(trial: TrialFolder, request: Request, elapsed_s: float) -> None:
    """Show what a running trial does in a line on standard error, which is updated in place. Only on a terminal."""
    if not sys.stderr.isatty():
        return
    text = f"  ▸ {trial_words(request)}: {running_words(request, _newest_row(trial), elapsed_s)}"
    width = os.get_terminal_size(sys.stderr.fileno()).columns
    print(f"\r\033[K{text[: width - 1]}", end="", file=sys.stderr, flush=True)


def clear() -> None:
    """Remove the line of `show`."""
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

    def __init__(self, folder: StudyFolder, planned: int, say: Callable[[str], None]) -> None:
        """Note the trials that have ended already; `say` prints a line."""
        self.folder = folder
        self.planned = planned
        self.say = say
        self._seen = self._finished()
        self._prepared = self._preparing()
        self._before = len(self._seen)
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
                done = len(self._seen)
                pace_s = (time.monotonic() - self._began_s) / (done - self._before)
                self.say(finished_line(record, done, self.planned, pace_s * (self.planned - done)))

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


def time_left_s(
    study: Study, slots: Sequence[Slot], seconds_by_number: Mapping[int, float], skipped: Collection[int] = ()
) -> float | None:
    """Return the expected seconds until the last trial ends, from the mean duration of trials of each kind.

    Args:
        study: whose sections may have a `time_limit_s`, by which repeats end, and `workers`, which measure side by side
        slots: the whole plan
        seconds_by_number: duration of each finished trial
        skipped: finished trials that were not needed, which others of their kind may not be either; if a whole repeat was skipped, later
            ones are expected to be skipped, too

    Returns:
        None without a measured trial. A kind without a measured trial gets the mean of the other one.
    """
    measured = seconds_by_number.keys() - {*skipped}
    if not measured:
        return None
    typical_s = statistics.fmean(seconds_by_number[number] for number in measured)
    total_s = 0.0
    for arm, (kind, sweep) in itertools.product(study.arms, study.sections.items()):
        of_kind = [slot for slot in slots if slot.kind == kind]
        ended_s = [seconds_by_number[slot.number] for slot in of_kind if slot.number in seconds_by_number]
        of_arm = [slot for slot in of_kind if slot.arm == arm]
        done = [slot for slot in of_arm if slot.number in seconds_by_number]
        newest = max((slot.repeat for slot in done), default=None)
        if done and not any(slot.repeat == newest and slot.number in measured for slot in done):
            continue
        left = [slot.repeat for slot in of_arm if slot.number not in seconds_by_number]
        mean_s = statistics.fmean(ended_s or [typical_s])
        first_s = mean_s * left.count(0)
        more_s = mean_s * sum(repeat >= sweep.repeats for repeat in left)  # `more_repeats`, which no time limit ends
        repeats_s = mean_s * len(left) - first_s - more_s
        if sweep.time_limit_s is not None:
            spent_s = sum(seconds_by_number[slot.number] for slot in done)
            repeats_s = min(repeats_s, max(0.0, sweep.time_limit_s - spent_s - first_s))
        total_s += (first_s + repeats_s + more_s) / (sweep.workers or study.slots)
    return total_s
