"""Progress in one line: of a study (trials done of planned, the latest result, time left), or of the running trial.

Input: the study's folder. Output: text. Pure, except for `show` and `clear`, which write to a terminal, and the `Follower`, which reads
records as they appear.
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
from envknee.verdict.series import Ranks
from envknee.words.ranks import ranks_words


def parameters(request: Request) -> str:
    """Return a trial's parameters in a few words: `throughput stock · 64 envs x 2 GPUs · T16 · B256 · repeat 1`."""
    if request.skip is not None:
        return f"{request.kind} {request.arm} · repeat {request.repeat + 1}"
    batch = "B library" if request.batch_size is None else f"B{request.batch_size}"
    envs = f"{request.num_envs} envs" + (f" x {ranks_words(Ranks.of(request))}" if request.world_size > 1 else "")
    drill = " · DRILL" if request.inject else ""
    return f"{request.kind} {request.arm} · {envs} · T{request.horizon} · {batch} · repeat {request.repeat + 1}{drill}"


def live(request: Request, row: Row | None, elapsed_s: float) -> str:
    """Return what a running trial does: starting, or the iteration of its newest `row`."""
    if row is None:
        return f"starting, {elapsed_s:.0f} s"
    reward = "" if row.reward_mean is None else f", reward {row.reward_mean:.2f}"
    if request.iterations is not None:
        position = f"iteration {row.iteration + 1} of {request.untimed_iterations + request.iterations}"
    else:
        position = f"{row.wall_s:.0f} of {request.budget_s:.0f} s"
    fps = "" if row.fps_total is None else f", {row.fps_total:,.0f} FPS"
    return f"{position}{fps}{reward}"


def show(trial: TrialFolder, request: Request, elapsed_s: float) -> None:
    """Show what a running trial does in a line on standard error, which is updated in place. Only on a terminal."""
    if not sys.stderr.isatty():
        return
    text = f"  ▸ {parameters(request)}: {live(request, _newest_row(trial), elapsed_s)}"
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


def result(record: Record) -> str:
    """Return the result of a trial: `ok: 1,432 FPS, 0.90 GB, 9 s`."""
    if record.outcome.status == "skipped":
        return f"skipped: {record.outcome.reason}"
    parts = []
    if record.fps_total is not None:
        parts.append(f"{record.fps_total.median:,.0f} FPS")
    if record.seconds_to_target is not None:
        parts.append(f"target in {record.seconds_to_target:.1f} s")
    elif record.best_reward is not None:
        parts.append(f"best reward {record.best_reward:.2f}")
    if record.memory_peak_gb is not None:
        parts.append(f"{record.memory_peak_gb:.2f} GB")
    parts.append(f"{record.outcome.total_s:.0f} s")
    return f"{record.outcome.status}: {', '.join(parts)}"


def line(record: Record, done: int, planned: int, left_s: float | None, alike: int = 1) -> str:
    """Return the line for a finished trial: `[ 7/27] throughput stock · ... → ok: 1,432 FPS, 0.90 GB, 9 s; about 4 min left`.

    At most `planned` trials are measured, in `left_s` more seconds. `alike` successive trials, this one the last, were skipped for one
    reason.
    """
    left = "" if left_s is None or done >= planned else f"; {rough_time(left_s)}"
    trials = f" · {alike} trials" if alike > 1 else ""
    return f"[{done:>{len(str(planned))}}/{planned}] {parameters(record.request)}{trials} → {result(record)}{left}"


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
                self.say(line(record, done, self.planned, pace_s * (self.planned - done)))

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
        study: whose sections may have a `time_limit_s`, by which repeats end
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
        own = [slot for slot in of_kind if slot.arm == arm]
        done = [slot for slot in own if slot.number in seconds_by_number]
        newest = max((slot.repeat for slot in done), default=None)
        if done and not any(slot.repeat == newest and slot.number in measured for slot in done):
            continue
        left = [slot.repeat for slot in own if slot.number not in seconds_by_number]
        mean_s = statistics.fmean(ended_s or [typical_s])
        first_s = mean_s * left.count(0)
        more_s = mean_s * sum(repeat >= sweep.repeats for repeat in left)  # `more_repeats`, which no time limit ends
        repeats_s = mean_s * len(left) - first_s - more_s
        if sweep.time_limit_s is not None:
            spent_s = sum(seconds_by_number[slot.number] for slot in done)
            repeats_s = min(repeats_s, max(0.0, sweep.time_limit_s - spent_s - first_s))
        total_s += first_s + repeats_s + more_s
    return total_s / study.slots


def rough_time(seconds: float) -> str:
    """Return a duration with little precision: `about 4 min left`."""
    if seconds < 90:
        return f"about {round(seconds / 10) * 10:.0f} s left"
    if seconds < 5400:
        return f"about {seconds / 60:.0f} min left"
    return f"about {seconds / 3600:.1f} h left"
