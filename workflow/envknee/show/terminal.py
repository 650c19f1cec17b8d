"""The verdict of a study in the terminal: answer, evidence and next step in a few lines, or all details.

Input: verdict.json (for --where, study.json and the names of records). Output: text, without colours when piped.

    envknee summary results/<study>             at most 12 lines of 100 characters
    envknee summary results/<study> --all       every sentence of the verdict
    envknee summary results/<study> --where     one line: progress of the study, and the path of its results
"""

import argparse
import io
import textwrap
from collections.abc import Iterable
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from envknee.decide.read import load_study
from envknee.decide.verdict_file import read_verdict
from envknee.record.packed import study_folder
from envknee.study import space
from envknee.study.errors import printable
from envknee.study.paths import StudyFolder
from envknee.verdict.schema.study import Verdict
from envknee.words import tables
from envknee.words.answer import Answer, answer, answered_series, answers_table
from envknee.words.cards import cards_table
from envknee.words.gpu_peaks import gpu_peaks_table
from envknee.words.sentences import sentences
from envknee.words.series import series_words
from envknee.words.statements import statement
from envknee.words.study import crashed_lines, hardware_of, progress, task_and_hardware

MOST_LINES, MOST_WIDTH = 12, 100
"""Size of the answer."""


def print_answer(verdict: Verdict, folder: StudyFolder, console: Console) -> None:
    """Print the answer for each arm in at most `MOST_LINES` lines, which are cut where they would wrap."""
    width = min(console.width, MOST_WIDTH) if console.is_terminal else MOST_WIDTH
    series = answered_series(verdict)
    known = [verdict.drill, verdict.study, f"{verdict.trials_measured} of {verdict.trials_planned} trials"]
    known += [*hardware_of(verdict), None if series is None else series_words(series)]
    sections = [section for section in (verdict.remedies, verdict.rules) if section is not None]
    advice = [line for section in sections for line in _wrapped(f"advice   {statement(section)}", width, 2)]
    # Other lines: title, column heads, a rule, report, more.
    room = MOST_LINES - 5 - len(advice) - len(verdict.crashed)
    fastest = [f"scaling  {own.arm}: {statement(own.fastest)}" for own in verdict.scaling if own.fastest is not None]
    # An arm and the number of the others come first.
    gains = [line for said in fastest for line in _wrapped(said, width, 2)][: room - 2]
    most = room - len(gains)
    shown = verdict.arms if len(verdict.arms) <= most else verdict.arms[: most - 1]
    table = answers_table(verdict, shown)
    if len(verdict.arms) == 1:  # a single arm needs no name
        table = tables.Table("", table.columns[1:], [row[1:] for row in table.rows])
    lines = [" · ".join(part for part in known if part), *_unwrapped(table, width)]
    if len(shown) < len(verdict.arms):
        lines.append(f"and {len(verdict.arms) - len(shown)} more arms")
    lines += [*gains, *advice]
    lines += _why(
        {arm.arm: answer(arm, verdict.rules) for arm in shown},
        MOST_LINES - 2 - len(lines) - len(verdict.crashed),
        width,
    )
    lines = [line if len(line) <= width else f"{line[: width - 2].rstrip()} …" for line in map(printable, lines)]
    written = "" if folder.report.exists() else "  (not written yet)"
    crashed = [printable(f"crashed  {said}")[:width] for said in crashed_lines(verdict)]
    for line in (
        *lines,
        f"report   {folder.report}{written}",
        f"more     envknee summary --all {folder.root}",
        *crashed,
    ):
        console.print(line, soft_wrap=True)


def _unwrapped(table: tables.Table, width: int) -> list[str]:
    """Return a table as lines, which are cut where they would wrap."""
    stream = io.StringIO()
    Console(file=stream, width=width, markup=False, highlight=False, emoji=False).print(_table(table, wrap=False))
    return [line.rstrip() for line in stream.getvalue().splitlines() if line.strip()]


def _why(answers: dict[str, Answer], room: int, width: int) -> list[str]:
    """Return evidence and next steps in `room` lines: first one line for each arm, then more."""

    def told(word: str, arm: str, text: str) -> str:
        return f"{word:<8} {arm}: {text}" if len(answers) > 1 else f"{word:<8} {text}"

    first = [told("why", arm, said) for arm, own in answers.items() for said in own.evidence[:1]]
    later = [told("why", arm, said) for arm, own in answers.items() for said in own.evidence[1:]]
    steps = [told("next", arm, own.next_step) for arm, own in answers.items() if own.next_step]
    steps = steps[: max(room - len(first), 0)]
    lines = [*first, *later][: room - len(steps)]
    for place, step in enumerate(steps):
        free = (room - len(lines)) // (len(steps) - place)
        lines += _wrapped(step, width, free)
    return lines


def _wrapped(text: str, width: int, most: int) -> list[str]:
    return textwrap.wrap(
        printable(text), width, subsequent_indent=" " * 9, max_lines=most, placeholder=" …", break_on_hyphens=False
    )


def print_summary(verdict: Verdict, folder: StudyFolder, console: Console) -> None:
    """Print the answers, the environments that fit other cards, each GPU's memory, and every sentence of a verdict."""
    for line in (task_and_hardware(verdict), progress(verdict)):
        console.print(printable(line))
    for table in (answers_table(verdict, verdict.arms), cards_table(verdict), gpu_peaks_table(verdict)):
        if table.rows:
            console.print(f"\n{printable(table.title)}")
            console.print(_table(table))
    for heading, lines in sentences(verdict):
        console.print(f"\n{printable(heading)}")
        print_lines(lines, console)
    console.print()
    for name, path in (("report", folder.report), ("verdict", folder.verdict), ("trials", folder.records_csv)):
        # A path must not be broken into lines: users copy it.
        console.print(f"{name:<8} {path}{'' if path.exists() else '  (not written yet)'}", soft_wrap=True)


def print_lines(lines: Iterable[tuple[str, str]], console: Console) -> None:
    """Print (name, text) pairs, with the texts wrapped beside their names."""
    for name, text in lines:
        width = max(console.width - 14, 26)
        wrapped = textwrap.wrap(printable(text), width, break_on_hyphens=False, break_long_words=False)
        console.print(f"  {printable(name):<11} " + ("\n" + " " * 14).join(wrapped), soft_wrap=True)


def where(folder: StudyFolder) -> str:
    """Return one line: the number of trials with a record, skipped ones too, and the path of the results."""
    if not folder.study.exists():  # after a dry-run
        return f"nothing is measured yet; results will be in {folder.root}"
    study = load_study(folder)
    measured, planned = len(folder.trial_files("record.json")), len(space.plan(study))
    report = f"report {folder.report}" if folder.report.exists() else f"no report yet in {folder.root}"
    return f"study {study.study}: {measured} of {planned} trials done; {report}, `make ui` shows every run"


def _table(content: tables.Table, wrap: bool = True) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in content.columns:
        table.add_column(column, overflow="fold" if wrap else "ellipsis", no_wrap=not wrap)
    for row in content.rows:
        table.add_row(*map(printable, row))
    return table


def main() -> None:
    """Print the verdict of a study."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("folder", type=Path, help="the folder of a study, such as results/cartpole-cpu")
    parser.add_argument("--all", action="store_true", help="print every sentence of the verdict")
    parser.add_argument(
        "--where", action="store_true", help="print one line: how far the study is, and where its results are"
    )
    arguments = parser.parse_args()
    folder = study_folder(arguments.folder)
    if arguments.where:
        print(where(folder))
    else:
        show = print_summary if arguments.all else print_answer
        show(read_verdict(folder), folder, Console(markup=False, highlight=False, emoji=False))
