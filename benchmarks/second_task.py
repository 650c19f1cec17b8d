"""Lean frames beside mjlab's own on a task with contacts: FPS, memory and reward of whole trainings, in turns on one GPU.

    python -m benchmarks.second_task --python MJLAB/bin/python --pairs 5 --num-envs 1024 --iterations 60 --output second-task.json

Each training is a process of `examples/mjlab_lift_cube.py`, whose docstring says what the Python with mjlab needs. A pair has a seed of its
own, and the next pair begins with the other frames. A run that is broken off goes on where it was. Output: a JSON file, and a table: means
over pairs, and ratios with a 95% interval (Student's t of their logarithms). A pair whose versions differ is left out.
"""

import argparse
import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from envknee.machine import environment
from envknee.study.errors import UserError, run_command
from envknee.study.files import write_atomically
from rich.console import Console
from rich.table import Table

from benchmarks.two_versions import Agreement, fps_of, in_words, ratio_of

EXAMPLE = Path(__file__).parents[1] / "examples/mjlab_lift_cube.py"
FRAMES = ("mjlab", "lean")
WARM_UP = 2
"""Iterations that the example leaves out of FPS."""
NEWEST = 10
"""Iterations at the end whose mean reward is compared."""


def train(python: str, frames: str, num_envs: int, seed: int, iterations: int) -> dict[str, Any]:
    """Return what the example wrote of one training.

    Raises:
        UserError: when it failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "measured.json"
        sizes = ["--num-envs", str(num_envs), "--seed", str(seed), "--iterations", str(iterations)]
        command = [python, str(EXAMPLE), "--frames", frames, *sizes, "--output", str(path)]
        trained = subprocess.run(command, capture_output=True, text=True, check=False)
        if trained.returncode:
            raise UserError(f"{' '.join(command)} ended with {trained.returncode}: {trained.stderr[-2000:]}")
        return json.loads(path.read_text(encoding="utf-8"))


def reward_of(run: dict[str, Any]) -> float:
    """Return the mean reward of the newest episodes, over the last iterations; NaN if no episode has ended."""
    newest = [reward for reward in run["reward"][-NEWEST:] if reward is not None]
    return fmean(newest) if newest else math.nan


def pairs_of(runs: Sequence[dict[str, Any]], num_envs: int) -> list[list[dict[str, Any]]]:
    """Return the trainings of a size with either frames, in the order of `FRAMES` and of seeds.

    Seeds are left out that lack a training, or whose two trainings ran with different versions of a package.
    """
    of_size = {(run["frames"], run["seed"]): run for run in runs if run["num_envs"] == num_envs}
    pairs = [
        [of_size[frames, seed] for frames in FRAMES]
        for seed in sorted({seed for _, seed in of_size})
        if all((frames, seed) in of_size for frames in FRAMES)
    ]
    alike = [pair for pair in pairs if pair[0]["versions"] == pair[1]["versions"]]
    return [[pair[place] for pair in alike] for place in range(len(FRAMES))]


def fps_ratio_of(pairs: Sequence[Sequence[dict[str, Any]]]) -> Agreement:
    """Return FPS of lean frames over mjlab's own, from what `pairs_of` returns."""
    mjlab, lean = ([fps_of(run) for run in runs] for runs in pairs)
    return ratio_of(mjlab, lean)


def show(console: Console, runs: Sequence[dict[str, Any]]) -> None:
    """Print FPS, memory and reward of both by size."""
    table = Table("environments", "frames", "FPS", "ratio", "GB", "reward", "pairs", box=None)
    for num_envs in sorted({run["num_envs"] for run in runs}):
        pairs = pairs_of(runs, num_envs)
        if not pairs[0]:
            continue
        ratios = ("1", in_words(fps_ratio_of(pairs)))
        for frames, own, gained in zip(FRAMES, pairs, ratios, strict=True):
            fps, gigabytes, reward = (
                fmean(map(figure, own)) for figure in (fps_of, lambda run: run["used_gb"], reward_of)
            )
            table.add_row(
                f"{num_envs:,}", frames, f"{fps:,.0f}", gained, f"{gigabytes:.2f}", f"{reward:.2f}", str(len(own))
            )
    console.print(table)


def main() -> None:
    """Train the pairs that are missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="the Python that has mjlab (default: this one)")
    parser.add_argument("--num-envs", type=int, nargs="+", default=[1024])
    parser.add_argument("--iterations", type=int, default=60, help="of each training (default: 60)")
    parser.add_argument("--pairs", type=int, default=5, help="(default: 5)")
    parser.add_argument("--output", type=Path, default=Path("second-task.json"), help="(default: second-task.json)")
    arguments = parser.parse_args()
    if arguments.iterations <= WARM_UP:
        raise UserError(
            f"--iterations {arguments.iterations}: {WARM_UP + 1} or more were expected, because the first {WARM_UP} are not timed"
        )
    device = environment.choose_device(1)
    kept: dict[str, Any] = {"environment": environment.observe(str(device)).model_dump(mode="json"), "runs": []}
    if arguments.output.exists():
        kept["runs"] = json.loads(arguments.output.read_text(encoding="utf-8"))["runs"]
    console = Console()
    for seed in range(1, arguments.pairs + 1):
        for num_envs in arguments.num_envs:
            for frames in FRAMES if seed % 2 else reversed(FRAMES):
                if any(
                    (run["seed"], run["num_envs"], run["frames"]) == (seed, num_envs, frames) for run in kept["runs"]
                ):
                    continue
                run = train(arguments.python, frames, num_envs, seed, arguments.iterations)
                kept["runs"].append(run)
                write_atomically(arguments.output, json.dumps(kept, indent=1) + "\n")
                console.print(f"seed {seed}, {num_envs:,} environments, {frames}: {fps_of(run):,.0f} FPS")
    show(console, kept["runs"])


if __name__ == "__main__":
    run_command(main)
