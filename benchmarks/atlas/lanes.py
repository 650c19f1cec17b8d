"""Runs searches, one at a time on each GPU: a lane is a GPU, or the CPU.

Input: names of tasks, in order. Output: for each a folder of its own (trials, log, search.json), and what is kept of it. Each search
has its own folder, because Snakemake locks the one that it runs in.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from envknee.run import deadline
from envknee.study.errors import printable
from envknee.study.paths import StudyFolder

from benchmarks.atlas import kept, sittings, words
from benchmarks.atlas.listed import Atlas
from benchmarks.atlas.sittings import Ended, Search, Sitting

LEAST_S = 60.0
"""No search begins with less time than this: start-up alone takes half of it."""

OWN_LINE = "envknee: "
"""How lines of envknee begin: of Snakemake's around them none says why a search failed."""

STOP_S = 60.0
"""After this long a search that was asked to stop is killed: `knee` ends its trial first."""


class Options(NamedTuple):
    """What all searches share."""

    work: Path
    """The folder of searches, one in it for each task."""
    kept: Path
    """Where results are kept."""
    starts: Mapping[str, Sequence[str]]
    """By program, the words that start it on this machine; others start as the list says."""
    time_s: float
    """Seconds for each sitting of a search."""
    ends: float
    """The moment of the monotonic clock by which all searches are to end; infinity without one."""


def pending(atlas: Atlas, names: Iterable[str], work: Path) -> list[str]:
    """Return the tasks without an answer, in order, but for those of programs that are left out."""
    left_out = atlas.left_out()
    return [name for name in names if name not in left_out and search_of(atlas, name, work).ended != "answered"]


def search_of(atlas: Atlas, name: str, work: Path) -> Search:
    """Return what is noted of a task's search."""
    return sittings.read_search(work / name, name, words.typed(atlas.program_of(name), atlas.tasks[name]))


def time_for(options: Options, now: float) -> float | None:
    """Return the seconds that a search may take which begins at `now`; None if too few are left. Pure."""
    left = min(options.time_s, options.ends - now)
    return left if left >= min(LEAST_S, options.time_s) else None


class Lanes:
    """Searches that run at once, and how they are stopped."""

    def __init__(self, atlas: Atlas, options: Options, say: Callable[[str], None]) -> None:
        self._atlas, self._options, self._say = atlas, options, say
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._stopped = threading.Event()

    def run(self, names: Sequence[str], gpus: Sequence[str]) -> None:
        """Run the searches of tasks, the next one on the GPU that is free first; without GPUs, one after the other on the CPU."""
        waiting = deque(names)
        lanes: list[str | None] = list(gpus) or [None]
        with ThreadPoolExecutor(len(lanes)) as pool:
            for ended in [pool.submit(self._lane, waiting, gpu) for gpu in lanes]:
                ended.result()

    def stop(self) -> None:
        """Ask every search to end after the trial that runs, and begin none."""
        self._stopped.set()
        with self._lock:
            for process in self._running:
                process.send_signal(signal.SIGTERM)

    def _lane(self, waiting: deque[str], gpu: str | None) -> None:
        while not self._stopped.is_set():
            with self._lock:
                if not waiting:
                    return
                name = waiting.popleft()
            seconds = time_for(self._options, time.monotonic())
            if seconds is None:
                self._say(f"{name}: not begun, too little time is left")
                continue
            self._search(name, gpu, seconds)

    def _search(self, name: str, gpu: str | None, seconds: float) -> None:
        """Run one sitting of a search, note it, and keep what it measured."""
        folder, began = self._options.work / name, time.monotonic()
        search = search_of(self._atlas, name, self._options.work)
        folder.mkdir(parents=True, exist_ok=True)
        self._say(f"{name}: begins on {'the CPU' if gpu is None else f'GPU {gpu}'}, with {seconds:.0f} s")
        log = log_of(folder)
        earlier_bytes = log.stat().st_size if log.exists() else 0
        status = self._knee(name, gpu, seconds)
        study = StudyFolder(folder / "results" / name)
        ended = how_it_ended(study, status)
        sitting = Sitting(seconds=time.monotonic() - began, gpu=gpu, ended=ended)
        reason = None
        if ended == "failed":
            reason = reason_in(log.read_bytes()[earlier_bytes:].decode(errors="replace"))
        search = search.with_sitting(sitting, reason)
        sittings.write_search(folder, search)
        try:
            kept.keep(study, search, self._options.kept)
        except kept.NotKept as error:
            self._say(f"{name}: not kept. {error}")
        self._say(f"{name}: {ended} after {sitting.seconds:.0f} s")

    def _knee(self, name: str, gpu: str | None, seconds: float) -> int:
        """Run `envknee knee` in the task's folder, with all that it prints in its log, and return its exit status."""
        atlas, folder = self._atlas, self._options.work / name
        program = atlas.program_of(name)
        start = self._options.starts.get(atlas.tasks[name].program, program.start)
        arguments = words.knee(name, program, atlas.tasks[name], start, seconds, gpu is not None)
        variables = dict(os.environ) | ({} if gpu is None else {"CUDA_VISIBLE_DEVICES": gpu})
        with log_of(folder).open("ab") as log:
            with self._lock:
                process = subprocess.Popen(
                    [sys.executable, "-m", "envknee", *arguments], cwd=folder, env=variables, stdin=subprocess.DEVNULL,
                    stdout=log, stderr=subprocess.STDOUT,
                )  # fmt: skip
                self._running.add(process)
            try:
                return self._wait(process)
            finally:
                with self._lock:
                    self._running.discard(process)

    def _wait(self, process: subprocess.Popen[bytes]) -> int:
        while True:
            try:
                return process.wait(timeout=1.0)
            except subprocess.TimeoutExpired:
                if self._stopped.is_set():
                    break
        try:
            return process.wait(timeout=STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()


def log_of(folder: Path) -> Path:
    """Return the file with all that `knee` printed for a task."""
    return folder / "knee.log"


def how_it_ended(study: StudyFolder, status: int) -> Ended:
    """Return how a sitting ended that left this folder, from the exit status of `knee`."""
    if deadline.noted(study) is not None:
        return "time over"
    return "failed" if status else "answered"


def reason_in(printed: str) -> str:
    """Return what `knee` said last of those lines that are envknee's own, and else the last line. Pure."""
    lines = [line for text in printed.splitlines() if (line := printable(text).strip())]
    own = [line.removeprefix(OWN_LINE) for line in lines if line.startswith(OWN_LINE)]
    return (own or lines or ["it printed nothing"])[-1]
