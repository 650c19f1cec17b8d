"""Seconds a trial of a section that asks as it goes: with a process for each trial, and with a worker.

Input: a study file with a sampler that searches. Output: a table in the terminal. Each round measures the same number of trials on both
sides, one after the other; which comes first changes from round to round, so that a machine that slows down favours neither.

    python -m envknee worker-time config/studies/one-gpu.yaml --trials 8 --rounds 3

Without a worker each trial is asked for and measured by processes of its own, as Snakemake's jobs do (Snakemake's own second or two a job
is not in it).
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from envknee.base.fields import KINDS, Kind
from envknee.record.read import load_records
from envknee.study.errors import UserError, run_command
from envknee.study.files import canonical_json, write_atomically
from envknee.study.load import parse_study, read_study
from envknee.study.model import Study
from envknee.study.paths import StudyFolder
from envknee.study.value_types import ASK_VERSION
from rich.console import Console
from rich.table import Table

SIDES = ALONE, WORKER = "a process a trial", "a worker"


class Took(NamedTuple):
    """Seconds of the trials of one side in one round."""

    each_s: float
    """Wall-clock time from the first request to the last record, over all trials."""
    besides_s: float
    """The part of it in which nothing was simulated or learned."""


def limited(study: Study, kind: Kind, trials: int, worker: bool) -> Study:
    """Return a study of one arm that asks for so many trials of a kind.

    Raises:
        UserError: when it has no such section, or its sampler does not search.
    """
    sweep = study.sections.get(kind)
    if sweep is None:
        raise UserError(f"study '{study.study}' has no {kind} section. Name the other kind with --kind")
    if sweep.sampler not in ("tpe", "gp", "profile"):
        raise UserError(
            f"{kind}.sampler {sweep.sampler} does not search. Take a study with sampler: tpe, gp or profile"
        )
    count = {"trials": trials, "points": None} if sweep.is_joint else {"points": trials, "trials": None}
    section = sweep.model_dump(mode="json") | count | {"repeats": 1, "more_repeats": 0, "confirm": None, "block": 1}
    section |= {"workers": 1 if worker else None, "until_decided": None, "time_limit_s": None}
    first = min(study.arms)
    plain: dict[str, Any] = study.model_dump(mode="json") | dict.fromkeys(KINDS)
    return parse_study(plain | {kind: section, "arms": {first: plain["arms"][first]}, "ask_version": ASK_VERSION})


def run(study: Study, folder: StudyFolder, worker: bool) -> Took:
    """Measure a study's trials on one side.

    Raises:
        UserError: when a command ends badly.
    """
    folder.root.mkdir(parents=True)
    write_atomically(folder.study, canonical_json(study))
    trials = next(iter(study.sections.values()))
    count = trials.search_trials if trials.is_joint else trials.points or 0
    began_s = time.monotonic()
    if worker:
        _envknee("work", folder.root, 0)
    else:
        for number in range(count):
            _envknee("ask", "--study-file", folder.study, "--folder", folder.root, "--number", number)
            _envknee("launch", folder.trial(number).root)
    took_s = time.monotonic() - began_s
    records = load_records(folder)
    return Took(took_s / len(records), (took_s - sum(record.train_s for record in records)) / len(records))


def _envknee(*words: object) -> None:
    done = subprocess.run([sys.executable, "-m", "envknee", *map(str, words)], check=False)
    if done.returncode:
        raise UserError(
            f"`envknee {' '.join(map(str, words))}` ended with status {done.returncode}; its last words are above"
        )


def table_of(rounds: Sequence[dict[str, Took]], trials: int) -> Table:
    """Return the median of all rounds, and each of them."""
    table = Table(title=f"Seconds a trial, {trials} trials a side")
    for heading in ("", "median", "of it: start, asking, records", "rounds"):
        table.add_column(heading)
    for side in SIDES:
        each = [took[side].each_s for took in rounds]
        besides = [took[side].besides_s for took in rounds]
        shown = f"{statistics.median(each):.1f}", f"{statistics.median(besides):.1f}"
        table.add_row(side, *shown, " ".join(f"{value:.1f}" for value in each))
    return table


def main() -> None:
    """Measure trials with a process each, and with a worker, in turns."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("study", type=Path, help="a study file whose section searches (sampler: tpe, gp or profile)")
    parser.add_argument("--kind", choices=KINDS, default="throughput", help="which section (default: %(default)s)")
    parser.add_argument("--trials", type=int, default=8, help="trials of each side in a round (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="how often (default: %(default)s)")
    given = parser.parse_args()
    study = read_study(given.study)
    rounds = list[dict[str, Took]]()
    with tempfile.TemporaryDirectory(prefix="envknee-workers-") as folder:
        for number in range(given.rounds):
            took: dict[str, Took] = {}
            for side in SIDES if number % 2 == 0 else SIDES[::-1]:
                this = limited(study, given.kind, given.trials, worker=side == WORKER)
                took[side] = run(this, StudyFolder(Path(folder) / f"{number}-{SIDES.index(side)}"), side == WORKER)
            rounds.append(took)
    Console().print(table_of(rounds, given.trials))


if __name__ == "__main__":
    run_command(main)
