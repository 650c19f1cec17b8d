"""What measuring costs: the same training without a meter and through trials, side by side.

Input: a study file and a point. Output: DIR/overhead.json, and a table in the terminal.

    python -m envknee overhead config/studies/one-gpu.yaml --num-envs 2048 --horizon 32

Without a meter it is Isaac Lab's own `isaaclab train` for an arm that this command has, and for one with `observations` or `frontend`
of envknee's the bare loop of RSL-RL with the same environment and learner (`benchmarks/bare_loop.py`).

Trials run with phases and without. All three run in turns, forwards and backwards, so that what else the machine does meets all
alike. The clock is the host's, around whole iterations, logging included: no side's own account of its speed is asked. Kernels are
compiled before the timed iterations, by whoever comes first.
"""

import argparse
import json
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from envknee.ask import ask
from envknee.base.point import Point
from envknee.machine import environment
from envknee.record.build import spread
from envknee.record.read import read_rows
from envknee.record.schema import Environment, Request, Spread
from envknee.run import launch, resources
from envknee.study.errors import UserError, run_command
from envknee.study.files import canonical_json, write_atomically
from envknee.study.load import read_study
from envknee.study.model import Study
from envknee.study.paths import TrialFolder
from envknee.study.space import Slot, legal_points
from envknee.verdict.series import Series
from envknee.words.series import series_words
from rich.console import Console
from rich.table import Table

from benchmarks.blocks import check

STOCK, BARE, TRIAL, UNRESOLVED = "isaaclab train", "bare loop", "trial", "trial with phases: off"

BARE_LOOP = Path(__file__).with_name("bare_loop.py")

SECONDS = re.compile(r"iteration (\S+)")
"""What that prints after an iteration."""

HEADER = re.compile(r"Learning iteration (\d+)/")
"""How RSL-RL 5.5.1 begins the log of an iteration, at its end."""


def told(
    name: str, command: Sequence[str], request: Request, log: Path, value_of: Callable[[str], float | None]
) -> list[float]:
    """Run what trains as `request` asks, and return the value that it has in its log for each iteration, as soon as it stands there.

    Raises:
        UserError: when it does not come to its end; names its log.
    """
    values: list[float] = []
    with (
        log.open("w", encoding="utf-8") as kept,
        subprocess.Popen(
            command, cwd=log.parent, env=resources.environment_of(request), text=True, errors="replace",
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        ) as process,
    ):  # fmt: skip
        assert process.stdout is not None, "a pipe was asked for"
        for line in process.stdout:
            kept.write(line)
            if (value := value_of(line)) is not None:
                values.append(value)
    expected = request.warmup_iterations + (request.iterations or 0)
    if len(values) != expected:
        ended = f"ended with status {process.returncode} after {len(values)} of {expected} iterations"
        raise UserError(f"{name} {ended}. See {log}")
    return values


def iterations_of_stock(request: Request, device: str, log: Path) -> list[float]:
    """Run Isaac Lab's own command and return the wall seconds of its timed iterations."""
    from envknee.trainers.rsl_rl import command_line  # late: it imports Isaac Lab

    stamps = told(
        "`isaaclab train`", command_line(request, device), request, log,
        lambda line: time.perf_counter() if HEADER.search(line) else None,
    )  # fmt: skip
    return [end - begin for begin, end in pairwise(stamps)][request.warmup_iterations - 1 :]


def iterations_of_bare_loop(request: Request, folder: Path) -> list[float]:
    """Run RSL-RL's loop without a meter and return the wall seconds of its timed iterations."""
    folder.mkdir()
    path = folder / "request.json"
    write_atomically(path, canonical_json(request))
    seconds = told(
        "the bare loop", [sys.executable, str(BARE_LOOP), str(path)], request, folder / "bare.log",
        lambda line: float(match[1]) if (match := SECONDS.fullmatch(line.rstrip())) else None,
    )  # fmt: skip
    return seconds[request.warmup_iterations :]


def iterations_of_trial(request: Request, trial: TrialFolder) -> list[float]:
    """Run a trial and return the wall seconds of its timed iterations.

    Raises:
        UserError: when it ends with another status than ok.
    """
    trial.root.mkdir(parents=True)
    write_atomically(trial.request, canonical_json(request))
    record = launch.launch(trial)
    if record.outcome.status != "ok":
        raise UserError(f"the trial ended with {record.outcome.status}: {record.outcome.reason}. See {trial.log}")
    return [row.iteration_s for row in read_rows(trial) if not row.warmup and row.iteration_s is not None]


def request_at(study: Study, arm: str, point: Point, warmup: int, iterations: int) -> Request:
    """Return the request of a throughput trial at any point, in the study or not.

    Raises:
        UserError: when the arm cannot be measured there (`check`), or is not RSL-RL's on one rank.
    """
    check(study, arm, [point])
    if study.arms[arm].trainer != "rsl_rl":
        raise UserError(
            f"arm {arm!r} has trainer: {study.arms[arm].trainer}, and what `isaaclab train` takes is read from RSL-RL's log."
            " Name another --arm"
        )
    if study.arms[arm].world_size > 1:
        ranks = study.arms[arm].world_size
        raise UserError(f"arm {arm!r} trains on {ranks} ranks; one is compared. Name another --arm")
    slot = Slot(number=0, arm=arm, kind="throughput", repeat=0)
    changes = {"warmup_iterations": warmup, "iterations": iterations, "phases": "sampled"}
    return ask.request_for(study, slot, point, refusal=None).model_copy(update=changes)


def write_result(
    folder: Path, request: Request, machine: Environment, fps: Mapping[str, list[float]]
) -> dict[str, Spread]:
    """Write overhead.json with what is measured so far, and return each ratio's spread."""
    ratios = {
        f"{TRIAL} / {name}": [trial / reference for trial, reference in zip(fps[TRIAL], fps[name], strict=True)]
        for name in (STOCK, BARE)
        if name in fps
    }
    ratios["phases: sampled / off"] = [on / off for on, off in zip(fps[TRIAL], fps[UNRESOLVED], strict=True)]
    spreads = {name: of_ratio for name, values in ratios.items() if (of_ratio := spread(values))}
    result = {
        "request": request.model_dump(mode="json"),
        "environment": machine.model_dump(mode="json"),
        "fps": fps,
        "ratios": ratios,
        "spreads": {name: of_ratio.model_dump() for name, of_ratio in spreads.items()},
    }
    write_atomically(folder / "overhead.json", json.dumps(result, indent=2) + "\n")
    return spreads


def main() -> None:
    """Measure what measuring costs."""
    parser = argparse.ArgumentParser(description="Run `isaaclab train` and trials in turns and compare their FPS.")
    parser.add_argument("study", type=Path, help="a study file: its task, overrides and arm are what runs")
    parser.add_argument("--arm", help="an arm of the study (default: the first)")
    parser.add_argument("--num-envs", type=int, help="default: the middle of the study's")
    parser.add_argument("--horizon", type=int, help="default: the middle of the study's")
    parser.add_argument("--pairs", type=int, default=5, help="how often each side runs (default: %(default)s)")
    parser.add_argument("--warmup", type=int, default=2, help="first iterations left out (default: %(default)s)")
    parser.add_argument("--iterations", type=int, default=8, help="timed iterations of each run (default: %(default)s)")
    parser.add_argument("--output", type=Path, default=Path("results/overhead"), help="default: %(default)s")
    arguments = parser.parse_args()
    if min(arguments.pairs, arguments.warmup, arguments.iterations) < 1:
        parser.error("--pairs, --warmup and --iterations must be at least 1")
    for name in ("num_envs", "horizon"):
        if (given := getattr(arguments, name)) is not None and given < 1:
            parser.error(f"--{name.replace('_', '-')} must be at least 1, and {given} was given")
    study = read_study(arguments.study)
    arm = arguments.arm or next(iter(study.arms))
    points = legal_points(study.throughput, study.world_sizes) if study.throughput else []
    middle = points[len(points) // 2] if points else Point(1, 1, None)
    point = Point(arguments.num_envs or middle.num_envs, arguments.horizon or middle.horizon, middle.batch_size)
    request = request_at(study, arm, point, arguments.warmup, arguments.iterations)
    device = environment.choose_device(request.gpus)
    machine = environment.observe(device)
    folder = arguments.output / time.strftime("%Y%m%dT%H%M%S")
    folder.mkdir(parents=True)
    frames = request.num_envs * request.horizon

    without = STOCK if (request.observations, request.frontend) == ("stock", "torch") else BARE
    sides = (without, TRIAL, UNRESOLVED)
    fps: dict[str, list[float]] = {side: [] for side in sides}
    spreads: dict[str, Spread] = {}
    for pair in range(arguments.pairs):
        for side in sides if pair % 2 == 0 else sides[::-1]:
            if side == STOCK:
                seconds = iterations_of_stock(request, device, folder.resolve() / f"isaaclab-train-{pair}.log")
            elif side == BARE:
                seconds = iterations_of_bare_loop(request, folder.resolve() / f"bare-{pair}")
            else:
                name, phases = ("trial", "sampled") if side == TRIAL else ("unresolved", "off")
                asked = request.model_copy(update={"phases": phases})
                seconds = iterations_of_trial(asked, TrialFolder(folder / f"{name}-{pair}"))
            fps[side].append(frames / statistics.median(seconds))
        spreads = write_result(folder, request, machine, fps)  # an interrupted comparison keeps its pairs
        print(f"pair {pair + 1} of {arguments.pairs}: ratio {fps[TRIAL][-1] / fps[without][-1]:.3f}", flush=True)

    series = Series(arm, point.horizon, point.batch_size)
    where = f"{machine.device.name}: {point.num_envs:,} environments, {series_words(series)}"
    table = Table("pair", *(f"{side}, FPS" for side in sides), "ratio", title=where)
    for pair, values in enumerate(zip(*(fps[side] for side in sides), strict=True), start=1):
        table.add_row(str(pair), *(f"{value:,.0f}" for value in values), f"{values[1] / values[0]:.3f}")
    Console().print(table)
    for name, of_ratio in spreads.items():
        print(
            f"{name}: median {of_ratio.median:.3f} (quartiles {of_ratio.lower_quartile:.3f} to {of_ratio.upper_quartile:.3f},"
            f" {of_ratio.iterations} pairs; 1 means that it costs nothing)"
        )
    print(folder / "overhead.json")


if __name__ == "__main__":
    run_command(main)
