"""A live view of a sweep, here or on another machine that writes into a shared folder. It only reads files.

envknee watch results/<study>           follow it in the terminal; in a pipe, a line for each trial that ends
envknee watch results/<study> --once    print the state once
"""

import argparse
import time
from pathlib import Path

from rich.console import Console
from rich.live import Live

from envknee.decide.read import load_study
from envknee.record.packed import study_folder
from envknee.show.watch.reading import Reader
from envknee.show.watch.state import State, findings_of, state_of
from envknee.show.watch.view import view_of
from envknee.study.model import Study
from envknee.study.paths import StudyFolder
from envknee.words.progress import finished_line

POLL_S = 2.0
"""Seconds between two looks."""


class Watch:
    """Follows one study, and decides anew only when a trial has ended."""

    def __init__(self, folder: StudyFolder) -> None:
        """Read the study.

        Raises:
            UserError: when the folder holds none.
        """
        self._study: Study = load_study(folder)
        self._reader = Reader(folder)
        self._findings = list[str]()
        self._numbers = set[int]()

    def look(self) -> tuple[State, list[str]]:
        """Return the state, and a line for each trial that ended since the last look."""
        seen = self._reader.look()
        ended = [record for number, record in seen.records.items() if number not in self._numbers]
        if ended:
            self._findings = findings_of(self._study, seen.records)
        state = state_of(self._study, seen, self._findings)
        before = len(seen.records) - len(ended)
        lines = [finished_line(record, before + i, state.planned, []) for i, record in enumerate(ended, start=1)]
        self._numbers = set(seen.records)
        return state, lines


def main() -> None:
    """Show how a sweep fills up, what it decides so far, and how long it still takes."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("folder", type=Path, help="the folder of a study, such as results/cartpole-cpu")
    parser.add_argument("--once", action="store_true", help="print the state once, and end")
    given = parser.parse_args()
    watch = Watch(study_folder(given.folder))
    console = Console(markup=False, highlight=False, emoji=False)
    try:
        if given.once:
            console.print(view_of(watch.look()[0]))
        elif console.is_terminal:
            _follow_live(watch, console)
        else:
            _follow_lines(watch)
    except KeyboardInterrupt:  # the usual way to end a view
        pass


def _follow_live(watch: Watch, console: Console) -> None:
    state, _ = watch.look()
    with Live(view_of(state), console=console, auto_refresh=False, vertical_overflow="visible") as live:
        while state.end is None:
            time.sleep(POLL_S)
            state, _ = watch.look()
            live.update(view_of(state), refresh=True)


def _follow_lines(watch: Watch) -> None:
    while True:
        state, lines = watch.look()
        for line in lines:
            print(line, flush=True)
        if state.end is not None:
            print(state.end, flush=True)
            return
        time.sleep(POLL_S)
