"""How long planning takes in a study of many trials: `envknee plan`, and asking for the last trial. Anyone can run it.

    python benchmarks/bench_planning.py                       10,000 trials
    python benchmarks/bench_planning.py --trials 1000         fewer
    python benchmarks/bench_planning.py --keep FOLDER         and leave the results folder there

All trials but the last are made up: requests as `ask` gives them, four rows each, records that follow from them. The last one is asked
for twice, as a command of its own. The first time without a journal (`envknee.ask.journal`), when each file is read and checked; then
with it, as in a sweep, where each request adds to the journal. CPU seconds show what a busy machine hides.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests/helpers"), str(ROOT / "workflow")]

from bench_scaling import a_study, plain_trial
from envknee.ask import ask
from envknee.ask.history import History
from envknee.ask.journal import SETTLED_S
from envknee.record.schema import Request
from envknee.study import space
from envknee.study.load import parse_study
from envknee.study.model import Study
from envknee.study.paths import StudyFolder
from envknee.study.value_types import ASK_VERSION
from records import write_study, write_trial


def build(study: Study, folder: Path) -> StudyFolder:
    """Write a study whose trials are all measured, but the last, which is not asked for.

    Nothing in it is refused or skipped, so that a request of a later repeat follows from those of the first.
    """
    results = write_study(folder, study, [])
    slots = space.plan(study)
    first: list[Request] = []
    for slot in slots[:-1]:
        request = ask.answer(study, slot, History.of(first, {}))
        if slot.repeat == 0:
            first.append(request)
        write_trial(results.trial(slot.number), replace(plain_trial(request), request=request))
    return results


def show(what: str, environment: dict[str, str], *words: object) -> None:
    """Print the seconds that an envknee command took, which must end well."""
    command = [sys.executable, "-m", "envknee", *map(str, words)]
    began = time.perf_counter()
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    wall_s = time.perf_counter() - began
    if status:
        raise SystemExit(f"{command} failed")
    print(f"{what:<36}{wall_s:>10.2f}{used.ru_utime + used.ru_stime:>10.2f}", flush=True)


def main() -> None:
    """Time planning in a study of many trials."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--trials", type=int, default=10_000, help="a multiple of 4 (default: %(default)s)")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="leave the results there")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        root = given.keep or Path(temporary)
        study = parse_study(a_study("bench", given.trials, window=8) | {"ask_version": ASK_VERSION})
        results = build(study, root / "bench")
        # As where envknee is installed, Python keeps compiled modules.
        environment = os.environ | {
            "PYTHONPATH": str(ROOT / "workflow"),
            "PYTHONPYCACHEPREFIX": f"{temporary}/compiled",
        }
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        last = ("ask", "--study-file", results.study, "--folder", results.root, "--number", given.trials - 1)
        answer = results.trial(given.trials - 1)
        print(f"{f'{given.trials:,} trials':<36}{'wall s':>10}{'CPU s':>10}")
        show("envknee plan", environment, "plan", results.study, "--results", root)
        show("asking the last, without a journal", environment, *last)
        before = answer.request.read_bytes()
        for _ in range(3):
            shutil.rmtree(answer.root)
            time.sleep(SETTLED_S)
            show("asking the last, with a journal", environment, *last)
        if answer.request.read_bytes() != before:
            raise SystemExit("the journal gave another request")


if __name__ == "__main__":
    main()
