"""Does the default study decide, and how long does it take? Whole sweeps from cold kernels, on an idle machine or beside a busy core.

    .venv/bin/python -m benchmarks.default_study --runs 10                      an idle machine
    .venv/bin/python -m benchmarks.default_study --runs 10 --busy-cores 1       beside a program that keeps one core busy

Output: a JSON file with a row for each run, and each run's verdict and records in a folder beside it; runs that it has are not repeated.
Nothing else may run meanwhile. Each run has a seed of its own, and seconds include everything from the command to the report: set-up,
kernels, trials.

*Decided* means: the threshold of num_envs for FPS is named or shown to lie above, and learning has a soonest setting with its interval and
the set of settings that are not shown slower.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from envknee.decide.verdict_file import read_verdict
from envknee.record.read import load_records
from envknee.study.files import write_atomically
from envknee.study.paths import StudyFolder
from envknee.verdict.disturbed import cores_of_others
from envknee.verdict.schema.joint import JointAnswer
from envknee.verdict.schema.study import Verdict

ROOT = Path(__file__).resolve().parents[1]
STUDY = ROOT / "config/config.yaml"


@contextmanager
def busy(cores: int) -> Iterator[None]:
    """Keep some cores busy with programs that do nothing else."""
    programs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(cores)]
    try:
        yield
    finally:
        for program in programs:
            program.kill()
            program.wait()


def swept(number: int, folder: Path) -> tuple[float, StudyFolder]:
    """Run the default study with seed `number` in `folder`, from cold kernels; return its seconds and its results."""
    study = yaml.safe_load(STUDY.read_text(encoding="utf-8")) | {"seed": number}
    study["study"] = f"default-{number}"
    path = folder / "study.yaml"
    path.write_text(yaml.safe_dump(study), encoding="utf-8")
    environment = os.environ | {"WARP_CACHE_PATH": str(folder / "kernels"), "CI": "1"}
    start = time.monotonic()
    subprocess.run(
        [sys.executable, "-m", "envknee", "sweep", str(path)],
        cwd=folder,
        env=environment,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return time.monotonic() - start, StudyFolder(folder / "results" / study["study"])


def row_of(number: int, busy_cores: int, seconds: float, folder: StudyFolder) -> dict[str, Any]:
    """Return what a run found."""
    records, verdict = load_records(folder), read_verdict(folder)
    fps, learning = (answer_of(verdict, kind) for kind in ("throughput", "learning"))
    (threshold,) = [own for own in fps.thresholds if own.axis == "num_envs"]
    soonest = None if learning.soonest is None else learning.confirmed[learning.soonest]
    environment = next(own.outcome.environment for own in records if own.outcome.environment is not None)
    others = [cores for record in records if (cores := cores_of_others(record)) is not None]
    return {
        "seed": number,
        "busy_cores": busy_cores,
        "seconds": round(seconds, 1),
        "trials": len(records),
        "cpu": environment.cpu_model,
        "versions": environment.packages,
        "commit": environment.git_commit,
        "cores_of_others": max(others, default=None),
        "fps_state": threshold.state,
        "fps_threshold": threshold.threshold,
        "soonest": soonest and [soonest.num_envs, soonest.horizon, soonest.batch_size],
        "soonest_s": soonest and [soonest.cost, soonest.cost_lower, soonest.cost_upper],
        "not_shown_slower": sum(own.may_be_best for own in learning.confirmed),
        "is_decided": threshold.state != "undecided" and soonest is not None and soonest.cost_lower is not None,
    }


def answer_of(verdict: Verdict, kind: str) -> JointAnswer:
    """Return the joint answer about a kind of trial; there must be one."""
    (answer,) = [answer for arm in verdict.arms for answer in arm.joint if answer.kind == kind]
    return answer


def main(given: Sequence[str] | None = None) -> None:
    """Run what is missing, and print each row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10, help="in all, with those that the file has (10)")
    parser.add_argument("--busy-cores", type=int, default=0, help="cores that another program keeps busy (0)")
    parser.add_argument("--output", type=Path, default=ROOT / "results/default-study.json")
    arguments = parser.parse_args(given)
    output: Path = arguments.output
    rows = json.loads(output.read_text(encoding="utf-8")) if output.exists() else []
    done = {row["seed"] for row in rows if row["busy_cores"] == arguments.busy_cores}
    for number in sorted({*range(1, arguments.runs + 1)} - done):
        with tempfile.TemporaryDirectory(prefix="envknee-default-") as folder, busy(arguments.busy_cores):
            seconds, results = swept(number, Path(folder))
            rows.append(row_of(number, arguments.busy_cores, seconds, results))
            kept = output.with_suffix("") / f"{number}-busy-{arguments.busy_cores}"
            kept.mkdir(parents=True, exist_ok=True)
            for path in (results.verdict, results.records_csv):
                shutil.copy(path, kept)
        output.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(output, json.dumps(rows, indent=1) + "\n")
        print(json.dumps(rows[-1]))


if __name__ == "__main__":
    main()
