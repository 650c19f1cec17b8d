"""Trials in blocks beside trials in fresh processes: do they give the same FPS and memory, and what does each point's start take?

Input: a study file and sizes. Output: DIR/blocks.json, and a table in the terminal. An interrupted run goes on where it was.

    python -m envknee blocks config/studies/one-gpu.yaml --num-envs 256 512 1024 2048 4096 8192 --horizon 32

Each round measures every size once in a block and once in fresh processes; which comes first changes from round to round. FPS agree
where the 90% interval of the mean ratio lies within 1 ± MARGIN (two one-sided tests at 5%).
"""

import argparse
import json
import math
import statistics
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from envknee.ask import ask
from envknee.base.point import Point
from envknee.record.read import load_record
from envknee.record.schema import Cost
from envknee.run import launch
from envknee.run.worker import Worker
from envknee.study import designs
from envknee.study.errors import UserError, run_command
from envknee.study.files import canonical_json, read_model, write_atomically
from envknee.study.load import read_study
from envknee.study.model import Study
from envknee.study.paths import TrialFolder
from envknee.study.space import Slot, is_legal
from rich.console import Console
from rich.table import Table
from scipy.stats import t

SIDES = BLOCK, FRESH = "block", "fresh"

MARGIN = 0.02


class Measured(NamedTuple):
    """What one trial gave."""

    fps: float
    memory_gb: float | None
    start_s: float
    """All that its launcher waited for besides iterations."""


class Agreement(NamedTuple):
    """The ratio of two sides over rounds."""

    ratio: float
    lower: float
    upper: float
    """Of the interval, of 90% unless `agreement` was asked for another."""

    @property
    def is_shown(self) -> bool:
        """Whether both sides agree within MARGIN."""
        return self.lower >= 1 - MARGIN and self.upper <= 1 + MARGIN


def agreement(block: Sequence[float], fresh: Sequence[float], *, confidence: float = 0.9) -> Agreement:
    """Return the mean ratio of pairs, with its interval by Student's t on logarithms. Pure."""
    logs = [math.log(in_block / afresh) for in_block, afresh in zip(block, fresh, strict=True)]
    mean = statistics.fmean(logs)
    if len(logs) < 2:
        return Agreement(math.exp(mean), 0.0, math.inf)
    half = float(t.ppf(0.5 + confidence / 2.0, len(logs) - 1)) * statistics.stdev(logs) / math.sqrt(len(logs))
    return Agreement(math.exp(mean), math.exp(mean - half), math.exp(mean + half))


def run(trials: Mapping[str, Sequence[TrialFolder]], is_even: bool) -> None:
    """Measure a round, one side after the other."""
    for side in SIDES if is_even else SIDES[::-1]:
        if side == FRESH:
            for trial in trials[side]:
                launch.launch(trial)
            continue
        with closing(Worker(trials[side])) as worker:
            for trial in trials[side]:
                launch.launch(trial, worker=worker)


def measured(trial: TrialFolder) -> Measured:
    """Return what a trial gave.

    Raises:
        UserError: when it ended with another status than ok.
    """
    record = load_record(trial)
    if record.fps_total is None:
        raise UserError(f"{trial.root} ended with {record.outcome.status}: {record.outcome.reason}. Name smaller sizes")
    held_s = read_model(trial.cost, Cost, "").held_s
    return Measured(record.fps_total.median, record.memory_peak_gb, held_s - record.train_s)


class Asked(NamedTuple):
    """What the command line asks to be measured in rounds."""

    study: Study
    arm: str
    points: list[Point]
    horizon: int
    rounds: int
    output: Path

    def written(self, round_number: int, key: str, where: str, block: int | None = 0) -> list[TrialFolder]:
        """Write the requests of a round, where they are not yet, and return its trials in the order in which they run.

        `key` is that of the benchmark's order, `where` a trial's folder before its num_envs. Without a block processes are fresh.
        """
        trials = []
        for position, point in enumerate(designs.williams(self.points, round_number, self.study.seed, key)):
            slot = Slot(position, self.arm, "throughput", round_number, block, 0, position)
            trial = TrialFolder(Path(f"{where}{point.num_envs}"))
            trial.root.mkdir(parents=True, exist_ok=True)
            request = canonical_json(ask.request_for(self.study, slot, point, refusal=None))
            if not trial.request.exists() or trial.request.read_text(encoding="utf-8") != request:
                write_atomically(trial.request, request)
            trials.append(trial)
        return trials


def check(study: Study, arm: str, points: Sequence[Point]) -> None:
    """Check that an arm of a study can be measured at these points.

    Raises:
        UserError: when the study has no throughput trials or no such arm, or a batch does not divide its rollout.
    """
    if study.throughput is None:
        raise UserError(f"study {study.study} has no throughput trials. Name one that has")
    if arm not in study.arms:
        raise UserError(f"the study has no arm {arm!r}; it has {', '.join(study.arms)}")
    for point in points:
        if not is_legal(point):
            rollout = f"{point.num_envs} x {point.horizon} transitions"
            raise UserError(f"batch size {point.batch_size} does not divide {rollout}")


def asked(parser: argparse.ArgumentParser, output: Path) -> tuple[Asked, argparse.Namespace]:
    """Return what the command line asks for, and all of it.

    Args:
        parser: with the options that one benchmark has alone
        output: the default folder
    """
    parser.add_argument("study", type=Path, help="a study file: its task, overrides and arm are what runs")
    parser.add_argument("--arm", help="an arm of the study (default: the first)")
    parser.add_argument("--num-envs", type=int, nargs="+", required=True)
    parser.add_argument("--horizon", type=int, required=True)
    parser.add_argument("--batch-size", type=int, help="default: the library's own number of mini-batches")
    parser.add_argument("--rounds", type=int, default=5, help="default: %(default)s")
    parser.add_argument("--output", type=Path, default=output, help="default: %(default)s")
    arguments = parser.parse_args()
    study = read_study(arguments.study)
    arm = arguments.arm or next(iter(study.arms))
    points = [Point(size, arguments.horizon, arguments.batch_size) for size in sorted(arguments.num_envs)]
    check(study, arm, points)
    # Each size shares its block's process, because that is compared with fresh ones.
    throughput = study.sections["throughput"].model_copy(update={"fresh_below": None})
    study = study.model_copy(update={"throughput": throughput})
    return Asked(study, arm, points, arguments.horizon, arguments.rounds, arguments.output), arguments


def main() -> None:
    """Measure sizes in blocks and in fresh processes, in turns, and say how well they agree."""
    given, _ = asked(argparse.ArgumentParser(description=main.__doc__), Path("results/blocks"))
    measurements: dict[str, dict[int, list[Measured]]] = {
        side: {point.num_envs: [] for point in given.points} for side in SIDES
    }
    where = ""
    for number in range(given.rounds):
        trials = {
            side: given.written(number, "blocks", f"{given.output}/{side}-{number}-", 0 if side == BLOCK else None)
            for side in SIDES
        }
        run(trials, number % 2 == 0)
        for side, of_side in trials.items():
            for trial in of_side:
                record = load_record(trial)
                where = record.outcome.environment.device.name if record.outcome.environment else ""
                measurements[side][record.request.num_envs].append(measured(trial))
        print(f"round {number + 1} of {given.rounds}", flush=True)
        sides = {
            side: {str(size): [trial._asdict() for trial in trials] for size, trials in sizes.items()}
            for side, sizes in measurements.items()
        }
        write_atomically(given.output / "blocks.json", json.dumps({"device": where, "sides": sides}, indent=2) + "\n")
    _print(measurements, f"{where}, horizon {given.horizon}, {given.rounds} rounds")
    print(given.output / "blocks.json")


def _print(measurements: Mapping[str, Mapping[int, Sequence[Measured]]], title: str) -> None:
    headings = ("num_envs", "FPS in a block", "fresh", "ratio", "90% interval", "memory", "start in a block", "fresh")
    table = Table(*headings, title=title)
    ratios: list[tuple[float, float]] = []
    for size in measurements[BLOCK]:
        block, fresh = measurements[BLOCK][size], measurements[FRESH][size]
        pairs = [(in_block.fps, afresh.fps) for in_block, afresh in zip(block, fresh, strict=True)]
        ratios += pairs
        shown = agreement(*zip(*pairs, strict=True))
        memory = [
            in_block.memory_gb / afresh.memory_gb
            for in_block, afresh in zip(block, fresh, strict=True)
            if in_block.memory_gb and afresh.memory_gb
        ]
        table.add_row(
            f"{size:,}",
            *(f"{statistics.median(trial.fps for trial in side):,.0f}" for side in (block, fresh)),
            f"{shown.ratio:.3f}",
            f"{shown.lower:.3f} to {shown.upper:.3f}",
            f"{statistics.median(memory):.3f}" if memory else "not measured",
            *(f"{statistics.median(trial.start_s for trial in side):.1f} s" for side in (block, fresh)),
        )
    Console().print(table)
    whole = agreement([in_block for in_block, _ in ratios], [afresh for _, afresh in ratios])
    starts = [
        statistics.median(trial.start_s for trials in measurements[side].values() for trial in trials) for side in SIDES
    ]
    verdict = "agree" if whole.is_shown else "are not shown to agree"
    print(
        f"All sizes: ratio {whole.ratio:.4f} (90% interval {whole.lower:.4f} to {whole.upper:.4f}): both {verdict} within"
        f" {MARGIN:.0%}. Median start per point: {starts[0]:.1f} s in a block, {starts[1]:.1f} s fresh."
    )


if __name__ == "__main__":
    run_command(main)
