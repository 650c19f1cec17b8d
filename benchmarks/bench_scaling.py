"""How the workflow itself scales with the number of trials, without simulating anything. Anyone can run it; docs/scaling.md has figures.

    python benchmarks/bench_scaling.py                       100, 500 and 2,000 trials on this machine
    python benchmarks/bench_scaling.py --trials 100          fewer
    python benchmarks/bench_scaling.py --slurm 60            60 jobs through a SLURM that this script starts and stops

Trials are made up (requests as `ask` gives them, four rows each), so that what is timed is asking, scheduling, deciding, drawing:
everything but the measuring. With --slurm each job finds its trial measured and writes its record: what is left is the way there.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests/helpers"), str(ROOT / "workflow")]

import slurm_cluster
import yaml
from envknee.ask import ask
from envknee.record.schema import Record, Request
from envknee.study.load import read_study
from envknee.study.model import Study
from envknee.study.paths import StudyFolder
from records import Trial, a_trial, write_study
from workspaces import Workspace

SIZES = [16, 32, 64, 128]


def a_study(name: str, trials: int, window: int) -> dict[str, Any]:
    """Return a study of so many trials: four points, the rest are repeats."""
    sweep = {"num_envs": SIZES, "horizon": 8, "batch_size": 128, "repeats": trials // len(SIZES), "iterations": 3}
    return {"study": name, "window": window, "throughput": sweep}


def fps_of(request: Request) -> float:
    """Return made-up FPS that saturate, with some noise."""
    return 10_000.0 * request.num_envs / (request.num_envs + 64) * (1 + request.number % 7 / 100)


def plain_trial(request: Request) -> Trial:
    """Return what a trial gave."""
    return a_trial(request.num_envs, number=request.number, fps=fps_of(request))


def made_up(study: Study, trials: int, measured: Callable[[Request], Trial] = plain_trial) -> list[Trial]:
    """Return trials as a sweep would ask for them; `measured` makes up rows and outcome."""
    records: dict[int, Record] = {}
    made: list[Trial] = []
    for number in range(trials):
        request = ask.ask(study, number, [trial.request for trial in made], records)
        made.append(replace(measured(request), request=request))
        records[number] = made[-1].record
    return made


def timed(run: Callable[..., "subprocess.CompletedProcess[str]"], *words: Any) -> float:
    """Return how long a command took, which must end well."""
    began = time.perf_counter()
    done = run(*words, timeout_s=3600)
    if done.returncode:
        raise SystemExit(f"{done.args} failed:\n{done.stdout}")
    return time.perf_counter() - began


def dry_run(workspace: Workspace, path: Path) -> tuple[float, float]:
    """Return how long Snakemake's plan takes, and its peak memory in GB: of this one process, not of those before it."""
    began = time.perf_counter()
    command = workspace.command(path, "-n", "--quiet", "all")
    process = subprocess.Popen(command, env=workspace.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{command} failed")
    return time.perf_counter() - began, used.ru_maxrss / 1e6


def here(trials: int, folder: Path) -> list[str]:
    """Time a study of so many trials on this machine; return a row of the table."""
    workspace = Workspace(folder)
    path = folder / "bench.yaml"
    plain = a_study("bench", trials, window=8)
    path.write_text(yaml.safe_dump(plain), encoding="utf-8")
    study = read_study(path)
    dry_run_s, peak_gb = dry_run(workspace, path)
    results = write_study(workspace.results("bench").root, study, made_up(study, trials))
    results.trial(trials - 1).request.unlink()
    last = ["--study-file", str(results.study), "--folder", str(results.root), "--number", str(trials - 1)]
    root = str(results.root)
    stages = (
        ("ask", *last[:-1], "0"), ("ask", *last), ("verdict", root), ("figures", root),
        ("publish", root, "--config", str(path)),
    )  # fmt: skip
    times = [dry_run_s, *(timed(workspace.module, *words) for words in stages)]
    return [f"{trials:,}", *(f"{seconds:.1f}" for seconds in times), f"{peak_gb:.2f}"]


def through_slurm(trials: int, folder: Path) -> list[str]:
    """Run so many jobs through a real SLURM on this machine; return what that took, in sentences."""
    from slurm_site import SITE, Site

    cluster = slurm_cluster.Cluster(folder / "slurm")
    try:
        cluster.start()
        workspace = folder / "clone"
        workspace.mkdir()
        site = Site(workspace, cluster)
        site.edit_site(**SITE | {"max_gpus": "8"})
        path = workspace / "bench.yaml"
        path.write_text(yaml.safe_dump(a_study("bench", trials, window=16)), encoding="utf-8")
        study = read_study(path)
        results = write_study(site.results("bench").root, study, made_up(study, trials))
        for record in results.trials.glob("*/record.json"):
            record.unlink()
        for request in results.trials.glob("*/request.json"):
            os.utime(request, (0, 0))
        results.resolved.write_text("stock: {}\n", encoding="utf-8")
        before = os.times()
        wall_s = timed(site.sweep, path)
        head_s = sum(os.times()[2:4]) - sum(before[2:4])
        return [
            f"{trials} jobs in {wall_s:.0f} s: {60 * trials / wall_s:.0f} a minute, {wall_s / trials:.1f} s each",
            f"at the head {head_s / trials:.1f} CPU seconds per trial (asking included; jobs run beside it on the same cores)",
        ]
    finally:
        cluster.stop()


def load_of(results: StudyFolder) -> str:
    """Return files and bytes per trial of a study that was really measured."""
    trials = [path.parent for path in results.trials.glob("*/record.json")]
    files = [path for trial in trials for path in trial.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files)
    log = sum(path.stat().st_size for path in files if path.name == "trial.log")
    count = len(trials)
    return f"{len(files) / count:.0f} files and {size / count / 1e3:.0f} kB per trial, {log / count / 1e3:.0f} kB of them its log"


def main() -> None:
    """Print how the workflow scales with the number of trials."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument(
        "--trials", type=int, nargs="+", default=[100, 500, 2000], help="multiples of 4 (default: %(default)s)"
    )
    parser.add_argument(
        "--slurm", type=int, metavar="TRIALS", help="so many jobs through a SLURM started here, and nothing else"
    )
    parser.add_argument(
        "--load", type=Path, metavar="FOLDER", help="files and bytes per trial of a measured study, and nothing else"
    )
    given = parser.parse_args()
    if given.load:
        print(load_of(StudyFolder(given.load)))
        return
    with tempfile.TemporaryDirectory() as folder:
        if given.slurm:
            print("\n".join(through_slurm(given.slurm, Path(folder))))
            return
        stages = ("dry run", "first request", "last request", "verdict", "figures", "MLflow")
        header = ["trials", *(f"{stage} (s)" for stage in stages), "dry run (GB)"]
        rows = [header, ["---:"] * len(header)]
        for trials in given.trials:
            (Path(folder) / str(trials)).mkdir()
            rows.append(here(trials, Path(folder) / str(trials)))
            print(f"{trials} trials: done", file=sys.stderr, flush=True)
        print("\n".join(f"| {' | '.join(row)} |" for row in rows))


if __name__ == "__main__":
    main()
