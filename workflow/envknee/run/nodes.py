"""A trial on several machines of a SLURM job: one srun starts this module on each, for its part of the ranks.

Input: a trial with `nodes: 2`, inside a job with as many nodes. Output: that of every trial. While it runs, each node writes the beats
of its ranks (every second) and its cost into a folder that all nodes share.

Ranks communicate over the network that NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME name, or that NCCL and Gloo choose. Their ports are
open only on that network, while the trial runs.
"""

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from envknee.machine import gpus, lock, processes, scratch
from envknee.record.schema import Beat, Cost, Request
from envknee.record.trial_files import TrialFiles
from envknee.run import cost
from envknee.run.command import command_of as command_here
from envknee.run.container.enter import Entrance, entrance_for, leave
from envknee.run.hang_watch import beats_here
from envknee.slurm import allocation
from envknee.study.errors import UserError, run_command
from envknee.study.files import canonical_json, read_model, write_atomically
from envknee.study.paths import TrialFolder

RELAY_S = 1.0
"""Between two reports of a node."""

END_S = 5.0
"""Time for a node's processes to end: less than the launcher gives srun."""

REPORT = TypeAdapter(dict[int, Beat])
"""A node's report on its ranks: the newest beat of each."""


@contextmanager
def meeting(trial: TrialFolder) -> Iterator[Path]:
    """Yield an empty folder in the trial's own, which all nodes share."""
    for left in trial.root.glob("meeting-*"):  # left by a killed launcher
        shutil.rmtree(left, ignore_errors=True)
    # Errors of its end are ignored, because a killed node may just have written there.
    with tempfile.TemporaryDirectory(prefix="meeting-", dir=trial.root, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def command_of(
    trial: TrialFolder, request: Request, shared: Path, entrance: Entrance | None
) -> tuple[list[str], dict[str, str]]:
    """Return the command that starts a trial on all nodes of this job, and its environment variables.

    Raises:
        UserError: outside a SLURM job.
    """
    job_id = os.environ.get("SLURM_JOB_ID")
    if not job_id:
        raise UserError(
            f"nodes: {request.nodes} was asked for, and this is no SLURM job. Run the study with `--profile slurm`, or give the"
            " arm `nodes: 1`"
        )
    words = [
        "srun", f"--jobid={job_id}", f"--nodes={request.nodes}", f"--ntasks={request.nodes}", "--ntasks-per-node=1",
        "--kill-on-bad-exit=1", "--cpu-bind=none", "--input=none", "--quiet", *shlex.split(os.environ.get(allocation.OPTIONS, "")),
        sys.executable, "-m", "envknee.run.nodes", str(trial.root.resolve()), str(shared.resolve()),
    ]  # fmt: skip
    return words + ([] if entrance is None else [str(Path(entrance.runner).resolve())]), dict(os.environ)


def beats(shared: Path) -> dict[int, Beat]:
    """Return the newest beats of the ranks on all nodes."""
    by_rank: dict[int, Beat] = {}
    for path in shared.glob("node-*.json"):
        # Replaced while it is read, which a network file system reports as stale, it counts at the next look.
        with suppress(ValidationError, OSError):
            by_rank |= REPORT.validate_json(path.read_bytes())
    return by_rank


def cost_of(shared: Path, request: Request, here: Cost) -> Cost:
    """Return the cost of a trial on all its nodes. `here` is the launcher's own: its time and job."""
    costs = [read_model(path, Cost, "") for path in shared.glob("cost-*.json")]
    joules = [cost.energy_j for cost in costs]
    # The launcher cannot ask for the energy of the step on all nodes, which has ended by then. A node that asked earlier could.
    job_joules = [cost.slurm.energy_j for cost in costs if cost.slurm and cost.slurm.energy_j is not None]
    job = here.slurm and here.slurm.model_copy(update={"energy_j": max(job_joules, default=None)})
    energy_j = None if len(costs) < request.nodes or None in joules else sum(own or 0.0 for own in joules)
    gpus_together = 0 if request.gpus == 0 else request.world_size
    return here.model_copy(update={"gpus": gpus_together, "energy_j": energy_j, "slurm": job})


def main() -> int:
    """Run one node's part of a trial, and end as its processes do; envknee.run.launch starts it through srun."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("trial", type=Path, help="the folder that holds request.json")
    parser.add_argument("meeting", type=Path, help="an empty folder that all nodes of the trial see")
    parser.add_argument("image", type=Path, nargs="?", help="the image to run it in")
    arguments = parser.parse_args()
    trial, shared = TrialFolder(arguments.trial), arguments.meeting
    scratch.use_named_folder()
    processes.raise_at_signals(lambda number: SystemExit(128 + number))
    request = TrialFiles(trial).read_request()
    entrance = entrance_for(request.runtime, arguments.image)
    node = os.environ.get("SLURM_NODEID", "0")
    with gpus.reserved_for(request.gpus) as uuids, tempfile.TemporaryDirectory(prefix="envknee-ranks-") as folder:
        local = Path(folder)
        spent = cost.Costs(uuids).start()
        command, variables = command_here([trial], request, uuids, local, entrance, shared_meeting=shared)
        others = processes.adopt_orphans()
        locks = lock.held() if entrance is None else []
        process = subprocess.Popen(command, env=variables, start_new_session=True, pass_fds=locks)
        try:
            while processes.exit_status(process) is None:
                write_atomically(shared / f"node-{node}.json", REPORT.dump_json(beats_here(local)).decode())
                time.sleep(RELAY_S)
        finally:
            processes.end_all(process, END_S, others)
            leave(entrance, local)
            write_atomically(shared / f"cost-{node}.json", canonical_json(spent()))
    return process.returncode


if __name__ == "__main__":
    run_command(main)
