"""What measuring costs: the same training without a meter and through trials, side by side.

Input: a study file and a point. Output: DIR/overhead.json, and a table in the terminal.

    python -m envknee.overhead config/studies/one-gpu.yaml --num-envs 2048 --horizon 32

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
from collections.abc import Mapping
from pathlib import Path

from envknee.ask import ask
from envknee.machine import environment, processes
from envknee.record.build import spread
from envknee.record.read import read_rows
from envknee.record.schema import Environment, Request, Row, Spread
from envknee.run import launch
from envknee.study.errors import UserError, run_command
from envknee.study.files import canonical_json, write_atomically
from envknee.study.load import read_study
from envknee.study.model import Study
from envknee.study.paths import TrialFolder
from envknee.study.space import Point, Slot, is_legal, legal_points
from envknee.verdict.series import Series
from rich.console import Console
from rich.table import Table

STOCK, BARE, TRIAL, UNRESOLVED = "isaaclab train", "bare loop", "trial", "trial with phases: off"

BARE_LOOP = Path(__file__).with_name("bare_loop.py")

SECONDS = re.compile(r"iteration (\S+)")
"""What that prints after an iteration."""

HEADER = re.compile(r"Learning iteration (\d+)/")
"""How RSL-RL 5.5.1 begins the log of an iteration, at its end."""


def iterations_of_stock(request: Request, device: str, log: Path) -> list[float]:
    """Run Isaac Lab's own command and return the wall seconds of its timed iterations.

    Raises:
        UserError: when it ends badly; names its log.
    """
    from envknee.trainers.rsl_rl import command_line  # late: it imports Isaac Lab

    command = command_line(request, device)
    variables = processes.environment_of(request)
    stamps: list[float] = []
    with (
        log.open("w", encoding="utf-8") as kept,
        subprocess.Popen(
            command, cwd=log.parent, env=variables, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as process,
    ):
        assert process.stdout is not None, "a pipe was asked for"
        for line in process.stdout:
            kept.write(line)
            if HEADER.search(line):
                stamps.append(time.perf_counter())
    expected = request.warmup_iterations + (request.iterations or 0)
    if process.returncode or len(stamps) != expected:
        raise UserError(
            f"`isaaclab train` ended with status {process.returncode} after {len(stamps)} of {expected} iterations."
            f" See {log}"
        )
    seconds = [end - begin for begin, end in zip(stamps, stamps[1:], strict=False)]
    return seconds[request.warmup_iterations - 1 :]


def iterations_of_bare_loop(request: Request, folder: Path) -> list[float]:
    """Run RSL-RL's loop without a meter and return the wall seconds of its timed iterations.

    Raises:
        UserError: when it ends badly; names its log.
    """
    folder.mkdir()
    path, log = folder / "request.json", folder / "bare.log"
    write_atomically(path, canonical_json(request))
    command = [sys.executable, str(BARE_LOOP), str(path)]
    with log.open("w", encoding="utf-8") as kept:
        done = subprocess.run(
            command, env=processes.environment_of(request), stdout=kept, stderr=subprocess.STDOUT, check=False
        )
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    seconds = [float(match[1]) for line in lines if (match := SECONDS.fullmatch(line))]
    expected = request.warmup_iterations + (request.iterations or 0)
    if len(seconds) != expected:
        raise UserError(
            f"the bare loop ended with status {done.returncode} after {len(seconds)} of {expected} iterations. See {log}"
        )
    return seconds[request.warmup_iterations :]


def rows_of_trial(request: Request, trial: TrialFolder) -> list[Row]:
    """Run a trial and return its timed iterations.

    Raises:
        UserError: when it ends with another status than ok.
    """
    trial.root.mkdir(parents=True)
    write_atomically(trial.request, canonical_json(request))
    record = launch.launch(trial)
    if record.outcome.status != "ok":
        raise UserError(f"the trial ended with {record.outcome.status}: {record.outcome.reason}. See {trial.log}")
    return [row for row in read_rows(trial) if not row.warmup]


def wall_s(row: Row) -> float:
    """Return the seconds of an iteration on the host's clock."""
    assert row.iteration_s is not None, "this version's rows have it"
    return row.iteration_s


def request_at(study: Study, arm: str, point: Point, warmup: int, iterations: int) -> Request:
    """Return the request of a throughput trial at any point, in the study or not.

    Raises:
        UserError: when the study has no such arm or no throughput trials, or the batch does not divide the rollout.
    """
    if arm not in study.arms:
        raise UserError(f"the study has no arm {arm!r}; it has {', '.join(study.arms)}")
    if study.throughput is None:
        raise UserError(f"study {study.study} has no throughput trials. Name one that has")
    if study.arms[arm].trainer != "rsl_rl":
        raise UserError(
            f"arm {arm!r} has trainer: {study.arms[arm].trainer}, and what `isaaclab train` takes is read from RSL-RL's log."
            " Name another --arm"
        )
    if study.arms[arm].world_size > 1:
        raise UserError(
            f"arm {arm!r} trains on {study.arms[arm].world_size} ranks; one is compared. Name another --arm"
        )
    if not is_legal(point):
        raise UserError(f"batch size {point.batch_size} does not divide {point.num_envs} x {point.horizon} transitions")
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
    } | {
        "phases: sampled / off": [on / off for on, off in zip(fps[TRIAL], fps[UNRESOLVED], strict=True)],
    }
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

    is_isaac_labs = request.observations == "stock" and request.frontend == "torch"
    without = STOCK if is_isaac_labs else BARE
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
                rows = rows_of_trial(
                    request.model_copy(update={"phases": phases}), TrialFolder(folder / f"{name}-{pair}")
                )
                seconds = [wall_s(row) for row in rows]
            fps[side].append(frames / statistics.median(seconds))
        spreads = write_result(folder, request, machine, fps)  # an interrupted comparison keeps its pairs
        print(f"pair {pair + 1} of {arguments.pairs}: ratio {fps[TRIAL][-1] / fps[without][-1]:.3f}", flush=True)

    series = Series(arm, point.horizon, point.batch_size)
    where = f"{machine.device.name}: {point.num_envs:,} environments, {series}"
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
