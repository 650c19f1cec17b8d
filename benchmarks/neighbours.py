"""What do trials on a machine's other GPUs cost? Blocks alone, and as many side by side as there are GPUs.

Input: a study file and sizes. Output: DIR/neighbours.json, and a table in the terminal. An interrupted run goes on where it was.

    python -m envknee neighbours config/studies/stock-lean-cuda.yaml --arm lean --num-envs 1024 4096 --horizon 32

A round measures the same sizes in one block alone, and in 2, 4, ... blocks side by side; what comes first changes from round to round.
Each block has a launcher and a GPU of its own, as in a sweep. Two blocks on one GPU end the run with an error.
"""

import json
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from envknee.machine import gpus
from envknee.record.read import load_record
from envknee.record.schema import Record
from envknee.study.errors import UserError, run_command
from envknee.study.files import write_atomically
from envknee.study.paths import TrialFolder
from rich.console import Console
from rich.table import Table

from benchmarks.blocks import agreement, asked


class Measured(NamedTuple):
    """A size in a round with so many blocks side by side."""

    num_envs: int
    blocks: int
    round: int
    fps: float
    """Mean of the blocks."""


def launched(blocks: Sequence[Sequence[TrialFolder]]) -> list[list[Record]]:
    """Measure blocks side by side, and return the records of each.

    Raises:
        UserError: when a trial ended with another status than ok, or two blocks had the same GPU.
    """
    launchers = [
        subprocess.Popen([sys.executable, "-m", "envknee.run.launch", *(str(trial.root) for trial in trials)])
        for trials in blocks
    ]
    for launcher in launchers:
        launcher.wait()
    records = [[load_record(trial) for trial in trials] for trials in blocks]
    for record in chain(*records):
        if record.outcome.status != "ok":
            said = f"{record.outcome.status}: {record.outcome.reason}"
            raise UserError(f"{record.request.num_envs} environments ended with {said}. Name smaller sizes")
    devices = [{uuid_of(record) for record in of_block} for of_block in records]
    if len(set().union(*devices)) != len(blocks) or any(len(uuids) != 1 for uuids in devices):
        raise UserError(f"{len(blocks)} blocks ran on the GPUs {devices}; expected one for each, and no two alike")
    return records


def uuid_of(record: Record) -> str | None:
    """Return which GPU a trial ran on."""
    return record.outcome.environment.device.uuid if record.outcome.environment else None


def ratios(measured: Sequence[Measured], num_envs: int, blocks: int) -> list[tuple[float, float]]:
    """Return, by round, the FPS of a size in `blocks` blocks side by side and in one alone."""
    fps = {(point.blocks, point.round): point.fps for point in measured if point.num_envs == num_envs}
    return [(fps[blocks, number], fps[1, number]) for count, number in sorted(fps) if count == blocks]


def shown(measured: Sequence[Measured], title: str) -> Table:
    """Return the table of what neighbours cost."""
    table = Table("num_envs", "side by side", "FPS of each", "alone", "ratio", "90% interval", title=title)
    for num_envs in sorted({point.num_envs for point in measured}):
        for blocks in sorted({point.blocks for point in measured} - {1}):
            pairs = ratios(measured, num_envs, blocks)
            beside, alone = (statistics.median(side) for side in zip(*pairs, strict=True))
            ratio = agreement(*zip(*pairs, strict=True))
            interval = f"{ratio.lower:.3f} to {ratio.upper:.3f}" if len(pairs) > 1 else "one round"
            table.add_row(
                f"{num_envs:,}", str(blocks), f"{beside:,.0f}", f"{alone:,.0f}", f"{ratio.ratio:.3f}", interval
            )
    return table


def means(records: Sequence[Sequence[Record]]) -> Mapping[int, float]:
    """Return, by num_envs, the mean FPS of blocks."""
    fps: dict[int, list[float]] = {}
    for record in chain(*records):
        assert record.fps_total is not None, "it ended well"
        fps.setdefault(record.request.num_envs, []).append(record.fps_total.median)
    return {num_envs: statistics.fmean(values) for num_envs, values in fps.items()}


def main() -> None:
    """Measure sizes in one block alone and in several side by side, in turns, and say what neighbours cost."""
    given = asked(main.__doc__, Path("results/neighbours"))
    if given.study.arms[given.arm].gpus != 1:
        raise UserError(f"arm {given.arm!r}: expected an arm of {given.study.study} with gpus: 1. Name another --arm")
    there = len(gpus.visible_uuids())
    if there < 2:
        raise UserError(f"this machine shows {there} NVIDIA GPUs, and neighbours need 2. Run this where there are more")
    counts = [2**power for power in range(there.bit_length()) if 2**power <= there]
    measured: list[Measured] = []
    where = ""
    for number in range(given.rounds):
        for blocks in counts if number % 2 == 0 else counts[::-1]:
            folder = given.output / f"{blocks}-side-by-side-{number}"
            records = launched([given.written(number, "neighbours", f"{folder}/{block}/") for block in range(blocks)])
            measured += [Measured(num_envs, blocks, number, fps) for num_envs, fps in means(records).items()]
            environment = records[0][0].outcome.environment
            where = environment.device.name if environment else ""
        print(f"round {number + 1} of {given.rounds}", flush=True)
        kept = {"device": where, "arm": given.arm, "measured": [point._asdict() for point in measured]}
        write_atomically(given.output / "neighbours.json", json.dumps(kept, indent=2) + "\n")
    Console().print(shown(measured, f"{where}, arm {given.arm}, horizon {given.horizon}, {given.rounds} rounds"))
    print(given.output / "neighbours.json")


if __name__ == "__main__":
    run_command(main)
