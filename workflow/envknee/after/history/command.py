"""`envknee history A B C ...`: where a task became faster or slower, and a gate for the last versions.

Input: what was measured of each version, in their order: a results folder or an archive, FOLDER:ARM or FOLDER@COMMIT. Output: a table and
the changes in the terminal; with --figure a figure, with --html a page, with --json or --output everything as JSON. With --gate the exit
status is that of a gate; with --bisect it is the one that `git bisect run` takes.
"""

import argparse
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from envknee.after.history.study import history_of
from envknee.after.history.versions import read_versions
from envknee.study.errors import EXIT_UNDECIDED, EXIT_WORSE, UserError, tell
from envknee.study.files import canonical_json, check_page_place, write_atomically
from envknee.verdict.schema.history import History, MachineHistory
from envknee.words import history as words

EXIT_STATUS = {"pass": 0, "fail": EXIT_WORSE, "inconclusive": EXIT_UNDECIDED}

GOOD, BAD, SKIP, STOP = 0, 1, 125, 255
"""What `git bisect run` takes: 125 is a commit that cannot be judged, and 128 or more ends the search."""

BISECT_STATUS = {"pass": GOOD, "fail": BAD, "inconclusive": SKIP}


def print_history(history: History, console: Console) -> None:
    """Print each machine's versions and changes, the error, and the gate's answer."""

    def say(line: str) -> None:
        console.print(line, highlight=False, soft_wrap=True)

    say(words.heading(history))
    for machine in history.machines:
        say(words.machine_line(machine))
        console.print(_table(machine))
        say(words.caption(machine))
        for own in machine.measures:
            for line in words.measure_lines(own):
                say(line)
    say(words.error_line(history))
    if history.gate is not None:
        for line in words.gate_lines(history):
            style = "bold red" if history.gate.answer == "fail" else None
            console.print(line, style=style, highlight=False, soft_wrap=True)


def _table(machine: MachineHistory) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, collapse_padding=True)
    for place, column in enumerate(words.columns(machine)):
        table.add_column(column, justify="right" if place else "left", no_wrap=place > 0, overflow="fold")
    for row in words.rows(machine):
        table.add_row(*row)
    return table


def arguments() -> argparse.Namespace:
    """Return what was typed."""
    parser = argparse.ArgumentParser(
        description="Say where a task became faster or slower over versions, per machine. Without --gate the exit status is 0.",
        epilog="example: envknee history results/v1 results/v2 results/v3 --gate",
    )
    parser.add_argument(
        "versions", nargs="+", metavar="VERSION",
        help="what was measured of a version, in their order: a folder of results, an archive, FOLDER:ARM or FOLDER@COMMIT",
    )  # fmt: skip
    parser.add_argument(
        "--gate", nargs="?", type=int, const=1, metavar="N",
        help="judge the last N versions (default: 1) by those before: exit 0 pass, 3 worse, 4 inconclusive",
    )  # fmt: skip
    parser.add_argument(
        "--bisect", action="store_true",
        help="judge the last version for `git bisect run`: exit 0 good, 1 bad, 125 inconclusive, 255 a mistake",
    )  # fmt: skip
    parser.add_argument("--margin", type=float, default=0.05, help="loss that is still accepted (default: %(default)s)")
    parser.add_argument("--confidence", type=float, default=0.95, help="of all changes together (default: %(default)s)")
    parser.add_argument("--figure", type=Path, metavar="FILE", help="draw the measures over the versions: .svg or .png")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write one self-contained page, too")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write everything to this JSON file, too")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    given = parser.parse_args()
    for name, lowest in (("margin", 0.0), ("confidence", 0.5)):
        if not lowest <= (value := getattr(given, name)) < 1.0:
            parser.error(f"--{name} must be at least {lowest:g} and below 1 (0.05 is 5%), and {value:g} was given")
    if given.bisect and given.gate is not None:
        parser.error("--bisect is a gate for the last version: leave --gate out")
    return given


def judged(given: argparse.Namespace) -> History:
    """Return the history, printed and written as asked.

    Raises:
        UserError: when the versions cannot be compared, or a file cannot be written.
    """
    if given.figure is not None:
        from envknee.after.history import figure  # drawing takes 0.5 s to import

        figure.check_place(given.figure)
    if given.html is not None:
        check_page_place(given.html)
    last = 1 if given.bisect else given.gate
    history = history_of(read_versions(given.versions), given.confidence, given.margin, last)
    text = canonical_json(history)
    if given.json:
        print(text, end="")
    else:
        print_history(history, Console(markup=False, emoji=False))
    if given.output is not None:
        write_atomically(given.output, text)
    if given.figure is not None:
        from envknee.after.history import figure

        figure.write_figure(history, given.figure)
    if given.html is not None:
        from envknee.after.history.page import page

        write_atomically(given.html, page(history))
    return history


def main() -> int:
    """Say where a task became faster or slower over versions."""
    given = arguments()
    try:
        history = judged(given)
    except UserError as error:
        if not given.bisect:
            raise
        tell(error)
        return STOP
    if history.gate is None:
        return 0
    return (BISECT_STATUS if given.bisect else EXIT_STATUS)[history.gate.answer]
