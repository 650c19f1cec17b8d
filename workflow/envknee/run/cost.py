"""What a trial takes: GPUs, seconds, joules, time in a queue.

Input: the trial's GPUs. Output: a `Cost`. Asked from outside the trial's processes, before and after them.
"""

import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from envknee.machine.nvml import Gpu
from envknee.record.schema import Cost, SlurmJob
from envknee.slurm.fields import fields_of, unix_s_of

ASK_S = 10
"""A controller that is busy or away may cost a trial so long for each question, and no more."""

OWN = ("rule_trial", "rule_block")
"""The comment of a job that a trial or a block has for itself begins so (snakemake-executor-plugin-slurm 2.8.0: the rule)."""

NO_VALUE = 2**63
"""SLURM's numbers for unknown and infinite are the largest of 64 bits."""


@dataclass
class Shared:
    """A job that measures several trials: what its first trial and those so far were charged with."""

    began_unix_s: float | None = None
    """When its first trial began."""
    charged: int = 0
    """Trials that have a cost."""
    energy_j: float = 0.0

    def share(self, job: SlurmJob) -> SlurmJob:
        """Return what the trial that has just ended is charged with: the first one waited, and energy counts once."""
        first, self.charged = self.charged == 0, self.charged + 1
        energy_j = job.energy_j and max(0.0, job.energy_j - self.energy_j)
        self.energy_j = max(self.energy_j, job.energy_j or 0.0)
        own = {"energy_j": energy_j}
        return job.model_copy(update=own if first else own | {"submitted_unix_s": None, "started_unix_s": None})


def start(gpu_uuids: Sequence[str], shared: Shared | None = None) -> Callable[[], Cost]:
    """Note the time and the counters of a trial's GPUs; the returned function tells the cost since then.

    `shared` is what trials before it in the same job were charged with; None where the trial has its job for itself.
    """
    began, began_unix_s = time.monotonic(), time.time()
    shared = shared or Shared()
    if shared.began_unix_s is None:
        shared.began_unix_s = began_unix_s
    first_unix_s = shared.began_unix_s
    known = [Gpu.named(uuid) for uuid in gpu_uuids]
    before = [gpu.energy_j() if gpu else None for gpu in known]

    def end() -> Cost:
        held_s = time.monotonic() - began
        after = [gpu.energy_j() if gpu else None for gpu in known]
        job = slurm_job(os.environ)
        job = job and shared.share(job)
        if job and job.started_unix_s:
            held_s += max(0.0, first_unix_s - job.started_unix_s)
        return Cost(
            gpus=len(gpu_uuids),
            held_s=held_s,
            energy_j=spent_j(before, after),
            slurm=job,
        )

    return end


def spent_j(before: Sequence[float | None], after: Sequence[float | None]) -> float | None:
    """Return what all GPUs took between two readings; None where there is none, or one of them is missing. Pure."""
    pairs = list(zip(before, after, strict=True))
    if not pairs or any(first is None or last is None for first, last in pairs):
        return None
    return sum(last - first for first, last in pairs if first is not None and last is not None)


def slurm_job(environment: Mapping[str, str]) -> SlurmJob | None:
    """Return the job that this process runs in, or None; what SLURM does not answer is None in it.

    Energy is asked of sstat: sacct knows it, from the same counters, only once the job with this process has ended.
    """
    job_id = environment.get("SLURM_JOB_ID")
    if not job_id:
        return None
    steps = _ask(
        environment, "sstat", "--allsteps", "--noheader", "--parsable2", "--format=JobID,ConsumedEnergyRaw", f"--jobs={job_id}"
    )  # fmt: skip
    return parse_job(job_id, _ask(environment, "scontrol", "--oneliner", "show", "job", job_id), steps)


def _ask(environment: Mapping[str, str], *command: str) -> str:
    """Run one of SLURM's commands; nothing where it is missing, fails or does not answer."""
    try:
        return subprocess.run(
            command,
            env=dict(environment) | {"SLURM_TIME_FORMAT": "standard"},
            capture_output=True,
            text=True,
            timeout=ASK_S,
            check=True,
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return ""


def parse_job(job_id: str, line: str, steps: str = "") -> SlurmJob:
    """Read one line of `scontrol --oneliner show job`, whose times are the node's local ones, and lines STEP|JOULES of sstat.

    In a job that a person has started, and sweeps in, no single trial waited or took what all of it did.
    """
    fields = fields_of(line)
    own = fields.get("Comment", "").startswith(OWN)
    return SlurmJob(
        job_id=job_id,
        partition=fields.get("Partition"),
        nodes=fields.get("NodeList"),
        submitted_unix_s=unix_s_of(fields.get("SubmitTime")) if own else None,
        started_unix_s=unix_s_of(fields.get("StartTime")) if own else None,
        energy_j=parse_energy_j(steps) if own else None,
    )


def parse_energy_j(steps: str) -> float | None:
    """Return the joules of a job from lines STEP|JOULES; None where no step tells: 0 stands for nodes without a sensor, too.

    The steps of a job lie in each other, the first (`batch`) on its first node alone: the largest is the job's.
    """
    joules_of_steps = [
        int(joules) for _, _, joules in (line.partition("|") for line in steps.splitlines()) if joules.isdecimal()
    ]
    return float(max((joules for joules in joules_of_steps if 0 < joules < NO_VALUE), default=0)) or None
