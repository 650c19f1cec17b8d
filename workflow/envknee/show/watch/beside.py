"""The process beside a sweep: shows the live view on a terminal, and refreshes report.html. It writes no other file.

Trials are timed meanwhile. So `envknee.run.live` gives it the lowest priority. Twice a second it asks the file system whether something
changed, and reads and draws only then, in at most a twentieth of the time. It decides anew, and writes the report, when a trial begins to
set up. It ends when its standard input does.

    python -m envknee.show.watch.beside results/<study>                          the report alone
    python -m envknee.show.watch.beside results/<study> --log FILE --from BYTE   and the view; FILE has Snakemake's lines
"""

import argparse
import select
import sys
import time
from collections.abc import Set
from dataclasses import replace
from pathlib import Path

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from envknee.run.live import OF_A_TRIAL
from envknee.run.tail import Tail
from envknee.show.report import page_so_far
from envknee.show.watch.follow import Watch
from envknee.show.watch.state import Seen, State
from envknee.show.watch.view import fitting_view, view_of
from envknee.study.errors import printable, run_command
from envknee.study.files import write_atomically
from envknee.study.paths import StudyFolder

POLL_S = 0.5
"""Seconds between two questions whether something changed: a trial of a block sets up in 2 s."""

SLOW_S = 10.0
"""Seconds after which it looks even if nothing seems to have changed. After so long without a trial, none begins soon."""

REST = 20.0
"""After a look of t seconds there is none for this many times t."""

STAYS = "envknee: "
"""How lines of the log begin that stay on the terminal, above the view."""


def is_time(seen: Seen, ran_before: Set[int], now_s: float) -> bool:
    """Tell whether to work out what new records say: as a trial begins to set up that did not run before, or if none runs. Pure.

    Not as soon as a record is there: the launcher of the next trial first looks whether other programs are busy, and would wait.
    """
    begins = any(trial.request.number not in ran_before for trial in seen.running)
    is_idle = not seen.running and now_s - seen.newest_record_s >= SLOW_S
    return begins or is_idle


class Beside:
    """Follows a sweep for its view and its report."""

    def __init__(self, folder: StudyFolder) -> None:
        """Begin with what is there. The study's file has to exist."""
        self._folder = folder
        self._watch = Watch(folder, self._is_time)
        self._planned_ns = folder.study.stat().st_mtime_ns
        self._stamp: tuple[int, ...] = ()
        self._looked_s = 0.0
        self._rests_until_s = 0.0
        self._ran: Set[int] = frozenset()

    @property
    def has_another_plan(self) -> bool:
        """Whether the study's file was changed: a sweep may plan more repeats than an earlier one."""
        return self._folder.study.stat().st_mtime_ns != self._planned_ns

    def has_news(self) -> bool:
        """Tell whether a look may find something new, and it is time for one."""
        if time.time() < self._rests_until_s:
            return False
        before, self._stamp = self._stamp, self._watch.reader.stamp()
        return self._stamp != before or time.time() - self._looked_s >= SLOW_S

    def look(self, is_over: bool) -> State:
        """Return the state. Refresh the report if something new was decided and trials are left; the sweep itself writes the last one."""
        before = self._watch.verdict
        began_s = self._looked_s = time.time()
        state, _ = self._watch.look(is_over)
        self._ran = {trial.request.number for trial in state.running}
        verdict, records = self._watch.verdict, list(self._watch.decided_from.values())
        if verdict is not None and verdict is not before and not is_over and self._has_trials_left(state):
            page = page_so_far(self._folder, self._watch.study, verdict, records)
            # A page may take seconds. After the last trial the sweep writes the whole one, which this must not replace.
            if self._has_trials_left(state):
                write_atomically(self._folder.report, page)
        self._rests_until_s = time.time() + REST * (time.time() - began_s)
        # While Snakemake runs, silence is no end: a first trial compiles kernels for minutes.
        return state if state.is_whole or is_over else replace(state, end=None)

    def _has_trials_left(self, state: State) -> bool:
        """Tell whether the sweep has trials left at this moment: once it has none, it writes the report itself."""
        return len(self._folder.trial_files("record.json")) < state.planned

    def _is_time(self, seen: Seen) -> bool:
        return is_time(seen, self._ran, time.time())


class Screen:
    """The live view, with what envknee says above it, and below it the newest line of Snakemake's log while no trial runs."""

    def __init__(self, live: Live, log: Tail) -> None:
        """Show nothing yet."""
        self._live, self._log = live, log
        self._state: State | None = None
        self._newest = ""

    def show(self, state: State | None, is_over: bool) -> None:
        """Show a new state, or with None the last one if the log has new lines."""
        lines = self._log.lines()
        for line in lines:
            stays = line.startswith(STAYS)
            if stays:
                self._live.console.print(printable(line))
            if line.strip():
                self._newest = "" if stays or OF_A_TRIAL.match(line) else line
        if state is None and not lines:
            return
        self._state = state or self._state
        newest = Text(printable(self._newest), style="dim", no_wrap=True, overflow="ellipsis")
        if self._state is None:
            self._live.update(newest, refresh=True)
        elif is_over:  # the last picture may be taller than the terminal
            self._live.update(view_of(self._state), refresh=True)
        else:
            view = fitting_view(self._state, self._live.console)
            is_between = self._newest and not self._state.running
            self._live.update(Group(view, newest) if is_between else view, refresh=True)


def follow(folder: StudyFolder, screen: Screen | None) -> None:
    """Follow a sweep until standard input ends."""
    beside, is_over = None, False
    while not is_over:
        is_over = bool(select.select([sys.stdin], [], [], POLL_S)[0])
        state = None
        if folder.study.exists():  # a first sweep writes it as it begins
            if beside is None or beside.has_another_plan:
                beside = Beside(folder)
            if beside.has_news() or is_over:
                state = beside.look(is_over)
        if screen is not None:
            screen.show(state, is_over)


def main() -> None:
    """Show a sweep on the terminal while it runs, and refresh its report."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("folder", type=Path, help="the folder of a study")
    parser.add_argument("--log", type=Path, help="Snakemake's log; without it there is no view")
    parser.add_argument(
        "--from", type=int, default=0, dest="place", metavar="BYTE", help="where this sweep's lines begin"
    )
    given = parser.parse_args()
    folder = StudyFolder(given.folder)
    if given.log is None:
        follow(folder, None)
        return
    console = Console(markup=False, highlight=False, emoji=False)
    with Live(console=console, auto_refresh=False) as live:
        follow(folder, Screen(live, Tail(given.log, given.place)))


if __name__ == "__main__":
    run_command(main)
