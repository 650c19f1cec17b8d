"""Two versions of this project in turns on one GPU: the iterations of RSL-RL's bare loop, by number of environments.

    python -m benchmarks.two_versions 7095bbe=../before HEAD=. --request REQUEST.json --num-envs 256 1024 --output pairs.json

A version is a name, such as a commit, and a folder with that version's `workflow`. In each pair both measure every size in a process of
its own, and the next pair begins with the other. A run that is broken off goes on where it was. Output: a JSON file, and a table: FPS are
means over pairs, and so are ratios, with a 95% interval (Student's t of their logarithms).
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any, NamedTuple

from envknee.machine import environment
from envknee.record.schema import Request
from envknee.study.errors import UserError, run_command
from envknee.study.files import canonical_json, write_atomically
from rich.console import Console
from rich.table import Table

from benchmarks.bare_loop import request_of
from benchmarks.blocks import Agreement, agreement

LOOP = Path(__file__).with_name("bare_loop.py")


class Version(NamedTuple):
    """A version of the project."""

    name: str
    folder: Path


def version_of(text: str) -> Version:
    """Return the version that NAME=FOLDER names.

    Raises:
        UserError: when the folder has no `workflow/leanframes`.
    """
    name, _, folder = text.partition("=")
    if not (Path(folder) / "workflow/leanframes").is_dir():
        raise UserError(f"{text!r} was expected to be NAME=FOLDER, where FOLDER/workflow/leanframes is a folder")
    return Version(name, Path(folder).resolve())


def seconds_of(version: Version, requests: Sequence[Request], folder: Path) -> list[list[float]]:
    """Return the seconds of each iteration of each request, warm-up included, as a new process of a version measures them."""
    files = []
    for request in requests:
        files.append(folder / f"{request.num_envs}.json")
        write_atomically(files[-1], canonical_json(request))
    variables = {**os.environ, "PYTHONPATH": str(version.folder / "workflow")}
    loop = subprocess.run([sys.executable, LOOP, *files], env=variables, capture_output=True, text=True, check=False)
    if loop.returncode:
        raise UserError(f"the loop of {version.name} ended with {loop.returncode}: {loop.stderr[-2000:]}")
    found: list[list[float]] = []
    for line in loop.stdout.splitlines():
        word, _, value = line.partition(" ")
        if word == "request":
            found.append([])
        elif word == "iteration":
            found[-1].append(float(value))
    return found


def fps_of(run: dict[str, Any]) -> float:
    """Return the FPS of a run: environment steps of an iteration over the median of those after the warm-up."""
    return run["num_envs"] * run["horizon"] / median(run["iteration_s"][run["warmup_iterations"] :])


def by_pair(runs: Sequence[dict[str, Any]], version: str, num_envs: int) -> list[float]:
    """Return a version's FPS at a size, in the order of pairs."""
    own = [run for run in runs if (run["version"], run["num_envs"]) == (version, num_envs)]
    return [fps_of(run) for run in sorted(own, key=lambda run: run["pair"])]


def ratio_of(before: Sequence[float], now: Sequence[float]) -> Agreement:
    """Return the mean ratio of pairs, and its 95% interval; without one for a single pair (NaN)."""
    found = agreement(now, before, confidence=0.95)
    return found if len(now) > 1 else found._replace(lower=math.nan, upper=math.nan)


def in_words(found: Agreement) -> str:
    """Return a ratio with its interval: `1.94 (1.62 to 2.34)`."""
    return f"{found.ratio:.2f} ({found.lower:.2f} to {found.upper:.2f})"


def show(console: Console, kept: dict[str, Any]) -> None:
    """Print FPS of both versions and their ratio by size."""
    before, now = kept["versions"]
    table = Table("environments", f"FPS, {before}", f"FPS, {now}", "ratio", "pairs", box=None)
    for size in kept["num_envs"]:
        pairs = [by_pair(kept["runs"], version, size) for version in (before, now)]
        count = min(map(len, pairs))
        if count:
            pairs = [own[:count] for own in pairs]
            fps = [f"{fmean(own):,.0f}" for own in pairs]
            table.add_row(f"{size:,}", *fps, in_words(ratio_of(*pairs)), str(count))
    console.print(table)


def main() -> None:
    """Measure the pairs that are missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("versions", nargs=2, type=version_of, metavar="NAME=FOLDER", help="the earlier version first")
    parser.add_argument("--request", type=Path, required=True, help="the file of a request of either version")
    parser.add_argument("--num-envs", type=int, nargs="+", default=[256, 1024, 4096, 8192])
    parser.add_argument("--iterations", type=int, default=12, help="that are timed, after four of warm-up (12)")
    parser.add_argument("--pairs", type=int, default=5, help="(default: 5)")
    parser.add_argument("--output", type=Path, default=Path("two-versions.json"), help="(default: two-versions.json)")
    arguments = parser.parse_args()
    sizes = {"warmup_iterations": 4, "iterations": arguments.iterations}
    request = request_of(arguments.request).model_copy(update=sizes)
    requests = [request.model_copy(update={"num_envs": size}) for size in arguments.num_envs]
    device = environment.choose_device(request.gpus)
    kept: dict[str, Any] = {
        "versions": [version.name for version in arguments.versions],
        "num_envs": arguments.num_envs,
        "environment": environment.observe(str(device)).model_dump(mode="json"),
        "runs": [],
    }
    if arguments.output.exists():
        kept["runs"] = json.loads(arguments.output.read_text(encoding="utf-8"))["runs"]
    console = Console()
    for pair in range(arguments.pairs):
        for version in arguments.versions if pair % 2 == 0 else reversed(arguments.versions):
            if any((run["pair"], run["version"]) == (pair, version.name) for run in kept["runs"]):
                continue
            with tempfile.TemporaryDirectory() as folder:
                found = seconds_of(version, requests, Path(folder))
            for own, seconds in zip(requests, found, strict=True):
                kept["runs"].append(
                    {
                        "version": version.name, "pair": pair, "num_envs": own.num_envs, "horizon": own.horizon,
                        "warmup_iterations": 4, "iteration_s": seconds,
                    }
                )  # fmt: skip
            write_atomically(arguments.output, json.dumps(kept, indent=1) + "\n")
            console.print(f"pair {pair + 1} of {arguments.pairs}: {version.name} measured")
    show(console, kept)


if __name__ == "__main__":
    run_command(main)
