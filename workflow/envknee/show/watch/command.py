"""A live view of a sweep, here or on another machine that writes into a shared folder. It only reads files.

envknee watch results/<study>           follow it in the terminal; in a pipe, a line for each trial that ends
envknee watch results/<study> --once    print the state once
"""

import argparse
import time
from pathlib import Path

from rich.console import Console
from rich.live import Live

from envknee.record.packed import study_folder
from envknee.show.watch.follow import Watch
from envknee.show.watch.view import fitting_view, view_of

POLL_S = 2.0
"""Seconds between two looks."""


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
    with Live(fitting_view(state, console), console=console, auto_refresh=False) as live:
        while state.end is None:
            time.sleep(POLL_S)
            state, _ = watch.look()
            live.update(fitting_view(state, console), refresh=True)
        live.update(view_of(state), refresh=True)  # the last picture may be taller than the terminal


def _follow_lines(watch: Watch) -> None:
    while True:
        state, lines = watch.look()
        for line in lines:
            print(line, flush=True)
        if state.end is not None:
            print(state.end, flush=True)
            return
        time.sleep(POLL_S)
