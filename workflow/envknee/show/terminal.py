"""The verdict of a study in the terminal: answer, evidence and next step in a few lines, or all details.

Input: verdict.json, study.json and records. Output: text, without colours, as wide as the terminal.

    envknee summary results/<study>             the answer, on one screen, and the command that decides what is open
    envknee summary results/<study> --all       every sentence of the verdict
    envknee summary results/<study> --json      the verdict, for a program
    envknee summary results/<study> --where     one line: progress of the study, and the path of its results
"""

import argparse
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Console

from envknee.ask.further import further_of
from envknee.decide.read import load_study
from envknee.decide.verdict_file import read_verdict
from envknee.record.packed import study_folder
from envknee.record.read import load_records
from envknee.record.schema import Outcome, Record
from envknee.run.card import study_card
from envknee.show import grid
from envknee.show.short import Sentence, answer_lines, card_lines
from envknee.study import space
from envknee.study.errors import printable
from envknee.study.files import canonical_json, read_model
from envknee.study.model import Study
from envknee.study.paths import StudyFolder
from envknee.verdict.card import card_of
from envknee.verdict.lead import in_order, lead_of
from envknee.verdict.schema.card import Card
from envknee.verdict.schema.study import Verdict
from envknee.words.answer import answer, answers_table
from envknee.words.cards import cards_table
from envknee.words.further import further_line
from envknee.words.gpu_peaks import gpu_peaks_table
from envknee.words.lead import lead_sentence
from envknee.words.sentences import sentences
from envknee.words.study import crashed_lines, done_words, progress, task_and_hardware

MOST_WIDTH, MOST_CHARACTERS = 100, 2000
"""Size of the answer: 20 lines of 100 characters, or 25 of 80. A longer card is printed whole."""


def most_lines(width: int) -> int:
    """Return how many lines of `width` characters the answer has at most."""
    return MOST_CHARACTERS // width


def print_answer(verdict: Verdict, folder: StudyFolder, console: Console, card: Card | None = None) -> None:
    """Print the card, and below it as much as `most_lines` have room for: each arm, the best first, and whole sentences.

    `card` is that of the study with its records; without it, that of the verdict alone.
    """
    verdict, width = in_order(verdict), min(console.width, MOST_WIDTH)
    card = card or card_of(verdict)
    last = _last_line(verdict, card, width)
    crashed = [line for said in crashed_lines(verdict) for line in Sentence("crashed", said).lines(width)]
    room = most_lines(width) - len(last) - len(crashed) - 2
    written = "" if folder.report.exists() else "  (not written yet)"
    for line in (
        *answer_lines(verdict, card, width, room),
        f"report   {folder.report}{written}",
        f"more     envknee summary --all {folder.root}",
        *crashed,
        *last,
    ):
        console.print(line, soft_wrap=True)


def _last_line(verdict: Verdict, card: Card, width: int) -> list[str]:
    """Return the answer in one sentence; that of a drill is no answer."""
    answers = {arm.arm: answer(arm, verdict.rules) for arm in verdict.arms}
    said = verdict.drill or lead_sentence(lead_of(verdict, card), answers)
    return textwrap.wrap(printable(said), width, break_on_hyphens=False)


def print_summary(verdict: Verdict, folder: StudyFolder, console: Console, card: Card | None = None) -> None:
    """Print the card, the answers, the environments that fit other cards, each GPU's memory, and every sentence of a verdict."""
    verdict = in_order(verdict)
    card = card or card_of(verdict)
    for said in (task_and_hardware(verdict), progress(verdict)):
        for line in textwrap.wrap(printable(said), console.width, break_on_hyphens=False):
            console.print(line, soft_wrap=True)
    console.print()
    for line in card_lines(card, console.width):
        console.print(line, soft_wrap=True)
    for table in (answers_table(verdict, verdict.arms), cards_table(verdict), gpu_peaks_table(verdict)):
        if table.rows:
            console.print(f"\n{printable(table.title)}")
            for line in grid.whole(table, console.width):
                console.print(line, soft_wrap=True)
    for heading, lines in sentences(verdict):
        console.print(f"\n{printable(heading)}")
        print_lines(lines, console)
    console.print()
    for name, path in (("report", folder.report), ("verdict", folder.verdict), ("trials", folder.records_csv)):
        # A path must not be broken into lines: users copy it.
        console.print(f"{name:<8} {path}{'' if path.exists() else '  (not written yet)'}", soft_wrap=True)
    for line in _last_line(verdict, card, console.width):
        console.print(line, soft_wrap=True)


def print_lines(lines: Iterable[tuple[str, str]], console: Console) -> None:
    """Print (name, text) pairs, with the texts wrapped beside their names."""
    for name, text in lines:
        width = max(console.width - 14, 26)
        parts = textwrap.wrap(printable(text), width, break_on_hyphens=False, break_long_words=False)
        console.print(f"  {printable(name):<11} " + ("\n" + " " * 14).join(parts), soft_wrap=True)


def where(folder: StudyFolder) -> str:
    """Return one line: the number of trials that are done, and of those that were not needed, and the path of the results."""
    if not folder.study.exists():  # after a dry-run
        return f"nothing is measured yet; results will be in {folder.root}"
    study = load_study(folder)
    ended = [path.parent for path in folder.trial_files("record.json")]
    not_needed = sum(_status(trial / "outcome.json") == "skipped" for trial in ended)
    planned, done = len(space.plan(study)) - not_needed, len(ended) - not_needed
    trials = done_words(done, max(0, planned - done), planned, not_needed)
    report = f"report {folder.report}" if folder.report.exists() else f"no report yet in {folder.root}"
    return f"study {study.study}: {trials}; {report}, `envknee publish --ui --config {folder.study}` shows every run"


def what_decides(verdict: Verdict, folder: StudyFolder, study: Study, records: Sequence[Record]) -> str | None:
    """Return the command that may decide what is open, with its time; None if nothing is, trials are missing, or it is published."""
    if folder.archive.exists() or verdict.trials_measured < verdict.trials_planned:
        return None
    return further_line(further_of(study, verdict, records), str(folder.study))


def _status(outcome: Path) -> str:
    return read_model(outcome, Outcome, f"Delete {outcome.parent} to measure this trial again.").status


def main() -> None:
    """Print the verdict of a study."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("folder", type=Path, help="the folder of a study, such as results/cartpole-cpu")
    parser.add_argument("--all", action="store_true", help="print every sentence of the verdict")
    parser.add_argument(
        "--where", action="store_true", help="print one line: how far the study is, and where its results are"
    )
    parser.add_argument("--json", action="store_true", help="print the verdict as JSON, as verdict.json has it")
    arguments = parser.parse_args()
    folder = study_folder(arguments.folder)
    if arguments.where:
        print(where(folder))
        return
    verdict = read_verdict(folder)
    if arguments.json:
        print(canonical_json(verdict), end="")
        return
    show = print_summary if arguments.all else print_answer
    console = Console(markup=False, highlight=False, emoji=False)
    if not folder.study.exists():
        show(verdict, folder, console)
        return
    study, records = load_study(folder), load_records(folder)
    show(verdict, folder, console, study_card(study, verdict, records))
    if line := what_decides(verdict, folder, study, records):
        print(f"decide   {printable(line)}")
