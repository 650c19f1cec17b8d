"""How fast sweeps go on a host with several GPUs, and whether two trials ever had the same GPU at once.

    python -m benchmarks.node_sweep results/cartpole-node-sweep results/another --output node-sweep.json

Input: folders of studies that were measured, of which several may have run at the same time. Output: a table, and with --output a JSON
file. Trials a minute count from the start of the first trial to the end of the last, without the plan before and the report after.
Status 1 if two trials shared a GPU: locks did not hold.
"""

import argparse
import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from envknee.record.packed import study_folder
from envknee.record.read import load_records
from envknee.record.schema import Record
from envknee.study.errors import run_command
from envknee.study.files import write_atomically
from rich.console import Console
from rich.table import Table

CLOCKS_S = 0.5
"""Two trials that overlap by less did not share a GPU: processes read the clock before they let it go."""


class Pace(NamedTuple):
    """What one sweep did."""

    study: str
    trials: int
    gpus: int
    wall_s: float
    trials_a_minute: float
    busy_share: float
    """Of the time of these GPUs: what trials took."""


class Clash(NamedTuple):
    """Two trials on one GPU at the same time."""

    gpu: str
    trials: tuple[str, str]
    overlap_s: float


def pace(records: Sequence[Record]) -> Pace:
    """Return how fast the sweep of one study went; trials that were not run do not count.

    Raises:
        ValueError: when none of them ran.
    """
    ran = [record for record in records if record.outcome.gpus or record.outcome.environment]
    if not ran:
        raise ValueError(f"{len(records)} trials, and none of them ran: there is no pace. Sweep first")
    wall_s = max(record.outcome.ended_unix_s for record in ran) - min(record.outcome.started_unix_s for record in ran)
    gpus = len({uuid for record in ran for uuid in gpus_of(record)})
    busy_s = sum(record.outcome.total_s * max(len(gpus_of(record)), 1) for record in ran)
    return Pace(
        study=ran[0].request.study,
        trials=len(ran),
        gpus=gpus,
        wall_s=wall_s,
        trials_a_minute=60 * len(ran) / wall_s,
        busy_share=busy_s / (wall_s * max(gpus, 1)),
    )


def clashes(records: Sequence[Record]) -> list[Clash]:
    """Return the trials, of any study, that had a GPU at the same time as the trial before them there."""
    found = []
    for gpu in sorted({uuid for record in records for uuid in gpus_of(record)}):
        of_gpu = [record for record in records if gpu in gpus_of(record)]
        for earlier, later in pairwise(sorted(of_gpu, key=lambda record: record.outcome.started_unix_s)):
            overlap_s = earlier.outcome.ended_unix_s - later.outcome.started_unix_s
            if overlap_s > CLOCKS_S:
                found.append(Clash(gpu, (name_of(earlier), name_of(later)), overlap_s))
    return found


def gpus_of(record: Record) -> set[str]:
    """Return the UUIDs of a trial's GPUs; none for one on the CPU."""
    return {gpu.uuid for gpu in record.outcome.gpus if gpu.uuid}


def name_of(record: Record) -> str:
    """Return `cartpole-node-sweep/0007`."""
    return f"{record.request.study}/{record.request.number:04d}"


def shown(paces: Sequence[Pace]) -> Table:
    """Return the table of the sweeps."""
    table = Table("study", "trials", "GPUs", "seconds", "trials a minute", "of the GPUs' time")
    for own in paces:
        seconds, minute, busy = f"{own.wall_s:,.0f}", f"{own.trials_a_minute:.1f}", f"{own.busy_share:.0%}"
        table.add_row(own.study, f"{own.trials}", f"{own.gpus}", seconds, minute, busy)
    return table


def main() -> None:
    """Print how fast sweeps went, and end with status 1 if two trials shared a GPU."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("folders", type=Path, nargs="+", help="results of studies, such as results/cartpole-node-sweep")
    parser.add_argument("--output", type=Path, help="a JSON file with the same figures")
    given = parser.parse_args()
    of_study = [load_records(study_folder(folder)) for folder in given.folders]
    paces = [pace(records) for records in of_study]
    found = clashes([record for records in of_study for record in records])
    Console().print(shown(paces))
    for clash in found:
        print(f"{' and '.join(clash.trials)} shared GPU {clash.gpu} for {clash.overlap_s:.1f} s")
    print(f"{len(found)} trials began on a GPU before the trial there had ended")
    if given.output is not None:
        kept = {"sweeps": [own._asdict() for own in paces], "clashes": [clash._asdict() for clash in found]}
        write_atomically(given.output, json.dumps(kept, indent=2) + "\n")
    raise SystemExit(1 if found else 0)


if __name__ == "__main__":
    run_command(main)
