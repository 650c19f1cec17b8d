"""What do trials on a machine's other GPUs cost? Blocks alone, and as many side by side as there are GPUs.

Input: a study file and sizes. Output: DIR/neighbours.json, and a table in the terminal. An interrupted run goes on where it was.

    python -m envknee neighbours config/studies/stock-lean-cuda.yaml --arm lean --num-envs 1024 4096 --horizon 32

A round measures the same sizes in one block alone, and in 2, 4, ... blocks side by side; what comes first changes from round to round.
Each block has a launcher and a GPU of its own, as in a sweep. Two blocks on one GPU end the run with an error.

    python -m envknee neighbours config/studies/stock-lean-warp.yaml --arm lean-warp --num-envs 256 1024 --horizon 32 --on-one-gpu 4

measures four blocks on one GPU instead, which a sweep never does: each has a folder of locks of its own.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from envknee.machine import gpus
from envknee.record.read import load_record
from envknee.record.schema import Record
from envknee.study.errors import UserError, run_command
from envknee.study.files import write_atomically
from envknee.study.model import Study
from envknee.study.paths import TrialFolder
from envknee.study.value_types import ASK_VERSION
from rich.console import Console
from rich.table import Table

from benchmarks.blocks import agreement, asked

ON_ONE_GPU_TIMED_S = 8.0
"""Seconds of timed iterations of a trial that shares its GPU: all blocks are timed at once for most of them, whichever starts last."""


class Measured(NamedTuple):
    """A size in a round with so many blocks side by side."""

    num_envs: int
    blocks: int
    round: int
    fps: float
    """Mean of the blocks."""


def launched(blocks: Sequence[Sequence[TrialFolder]], on_one_gpu: bool = False) -> list[list[Record]]:
    """Measure blocks side by side, and return the records of each.

    Raises:
        UserError: when a trial ended with another status than ok, or two blocks had the same GPU; `on_one_gpu`, if they had not.
    """
    with tempfile.TemporaryDirectory(prefix="envknee-locks-") as locks:
        launchers = [
            subprocess.Popen(
                [sys.executable, "-m", "envknee.run.launch", *(str(trial.root) for trial in trials)],
                env=os.environ | (with_locks_in(Path(locks) / str(number)) if on_one_gpu else {}),
            )
            for number, trials in enumerate(blocks)
        ]
        for launcher in launchers:
            launcher.wait()
    records = [[load_record(trial) for trial in trials] for trials in blocks]
    for record in chain(*records):
        if record.outcome.status != "ok":
            said = f"{record.outcome.status}: {record.outcome.reason}"
            raise UserError(f"{record.request.num_envs} environments ended with {said}. Name smaller sizes")
    devices = [{uuid_of(record) for record in of_block} for of_block in records]
    expected = 1 if on_one_gpu else len(blocks)
    if len(set().union(*devices)) != expected or any(len(uuids) != 1 for uuids in devices):
        wanted = "the same one for all" if on_one_gpu else "one for each, and no two alike"
        raise UserError(f"{len(blocks)} blocks ran on the GPUs {devices}; expected {wanted}")
    return records


def with_locks_in(folder: Path) -> dict[str, str]:
    """Return the variable that gives a launcher locks of its own, and make their folder."""
    folder.mkdir()
    folder.chmod(0o1777)  # as the folder of locks has to be
    return {gpus.OTHER_LOCKS: str(folder)}


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


def block_counts(visible_gpus: int, on_one_gpu: int | None) -> list[int]:
    """Return how many blocks run side by side, one after the other: 1 first.

    Raises:
        UserError: when there are too few GPUs, or too few blocks to share one.
    """
    if on_one_gpu is not None:
        if on_one_gpu < 2 or visible_gpus < 1:
            raise UserError(
                f"--on-one-gpu {on_one_gpu} on a machine that shows {visible_gpus} NVIDIA GPUs: expected 2 blocks or more,"
                " and a GPU"
            )
        return [1, on_one_gpu]
    if visible_gpus < 2:
        raise UserError(
            f"this machine shows {visible_gpus} NVIDIA GPUs, and neighbours need 2. Run this where there are more"
        )
    return [2**power for power in range(visible_gpus.bit_length()) if 2**power <= visible_gpus]


def timed_together(study: Study) -> Study:
    """Return a study whose trials are timed for so long that blocks on one GPU overlap, and wait for nobody."""
    longer = {"least_timed_s": ON_ONE_GPU_TIMED_S, "wait_for_others": False}
    assert study.throughput is not None, "it was checked"
    throughput = study.throughput.model_copy(update=longer)
    return study.model_copy(update={"throughput": throughput, "ask_version": ASK_VERSION})


def main() -> None:
    """Measure sizes in one block alone and in several side by side, in turns, and say what neighbours cost."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument(
        "--on-one-gpu", type=int, metavar="BLOCKS", help="so many blocks on one GPU, instead of one on each"
    )
    given, arguments = asked(parser, Path("results/neighbours"))
    if given.study.arms[given.arm].gpus != 1:
        raise UserError(f"arm {given.arm!r}: expected an arm of {given.study.study} with gpus: 1. Name another --arm")
    counts = block_counts(len(gpus.visible_uuids()), arguments.on_one_gpu)
    on_one_gpu = arguments.on_one_gpu is not None
    if on_one_gpu:
        given = given._replace(study=timed_together(given.study))
    measured: list[Measured] = []
    where = ""
    for number in range(given.rounds):
        for blocks in counts if number % 2 == 0 else counts[::-1]:
            folder = given.output / f"{blocks}-side-by-side-{number}"
            trials = [given.written(number, "neighbours", f"{folder}/{block}/") for block in range(blocks)]
            records = launched(trials, on_one_gpu)
            measured += [Measured(num_envs, blocks, number, fps) for num_envs, fps in means(records).items()]
            environment = records[0][0].outcome.environment
            where = environment.device.name if environment else ""
        print(f"round {number + 1} of {given.rounds}", flush=True)
        kept = {"device": where, "arm": given.arm, "measured": [point._asdict() for point in measured]}
        kept |= {"on_one_gpu": True} if on_one_gpu else {}
        write_atomically(given.output / "neighbours.json", json.dumps(kept, indent=2) + "\n")
    Console().print(shown(measured, f"{where}, arm {given.arm}, horizon {given.horizon}, {given.rounds} rounds"))
    print(given.output / "neighbours.json")


if __name__ == "__main__":
    run_command(main)
