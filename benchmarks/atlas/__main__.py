"""`python -m benchmarks.atlas`: search the knee of the atlas's tasks, each with the program that it comes with.

    python -m benchmarks.atlas --list
    python -m benchmarks.atlas mjlab-cartpole --time 5m --start mjlab=/home/me/mjlab/bin/train
    python -m benchmarks.atlas --gpu 0 --gpu 1 --time 5m --within 25m        all tasks, two at once

A task with an answer is skipped, and one that was cut off goes on. A program that says left_out in the list is not run. Results stand in
results/atlas/<task>/, and what is kept of them in results-published/atlas/<task>/. Without --gpu, tasks run one after the other on the CPU.
"""

import argparse
import math
import signal
import time
from pathlib import Path

from envknee.run.knee import duration
from envknee.study.errors import run_command
from rich.console import Console
from rich.table import Table

from benchmarks.atlas import kept, words
from benchmarks.atlas.lanes import Lanes, Options, pending, search_of
from benchmarks.atlas.listed import LIST, Atlas, read_atlas


def show(atlas: Atlas, names: list[str], work: Path, console: Console) -> None:
    """Print the tasks with their programs, and how their searches ended."""
    table = Table("task", "program", "observations", "search", box=None)
    for name in names:
        task, program = atlas.tasks[name], atlas.program_of(name)
        table.add_row(name, f"{program.about} {program.version}", task.observations, _state(atlas, name, work))
    console.print(table)


def _state(atlas: Atlas, name: str, work: Path) -> str:
    """Return in a few words how the search of a task ended."""
    if name in atlas.left_out():
        return "left out"
    search = search_of(atlas, name, work)
    return "not begun" if search.ended is None else f"{search.ended}, {search.seconds:,.0f} s"


def main() -> int:
    """Search the knee of the atlas's tasks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", metavar="TASK", help="names in the list (default: all)")
    parser.add_argument("--list", action="store_true", help="print the tasks and how their searches ended, and stop")
    parser.add_argument(
        "--time", type=duration, default=duration("5m"), help="for each task, such as 90s or 5m (default: 5m)"
    )
    parser.add_argument("--within", type=duration, help="end all tasks by then, such as 25m (default: no limit)")
    parser.add_argument("--gpu", action="append", default=[], metavar="N", help="a GPU that runs tasks; again for more")
    parser.add_argument(
        "--start", action="append", default=[], metavar="PROGRAM=WORDS", help="what starts a program on this machine"
    )
    parser.add_argument("--tasks-file", type=Path, default=LIST, help="another list (default: the one of this folder)")
    parser.add_argument("--work", type=Path, default=Path("results/atlas"), help="default: %(default)s")
    parser.add_argument("--to", type=Path, default=kept.FOLDER, help="where results are kept (results-published/atlas)")
    given = parser.parse_args()
    atlas = read_atlas(given.tasks_file)
    names, work, console = atlas.named(given.tasks), given.work.resolve(), Console()
    starts = words.starts_of(given.start, atlas.programs)
    if given.list:
        show(atlas, names, work, console)
        return 0
    for name, reason in atlas.left_out().items():
        if name in names:
            _say(f"{name}: left out: {reason}")
    ends = math.inf if given.within is None else time.monotonic() + given.within.seconds
    lanes = Lanes(atlas, Options(work, given.to.resolve(), starts, given.time.seconds, ends), _say)
    signal.signal(signal.SIGTERM, lambda *_: lanes.stop())
    signal.signal(signal.SIGINT, lambda *_: lanes.stop())
    lanes.run(pending(atlas, names, work), given.gpu)
    show(atlas, names, work, console)
    return int(bool(pending(atlas, names, work)))


def _say(line: str) -> None:
    print(f"atlas: {line}", flush=True)


if __name__ == "__main__":
    run_command(main)
