"""What a trial takes: GPUs, seconds, joules, and what SLURM says of its job.

Input: the trial's GPUs. Output: a `Cost`. Asked from outside the trial's processes, before and after them.
"""

import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from envknee.nvml import Gpu
from envknee.record import Cost, SlurmJob
from envknee.slurm.fields import fields_of

ASK_S = 10
"""A controller that is busy or away may cost a trial so long, and no more."""


def start(gpu_uuids: Sequence[str]) -> Callable[[], Cost]:
    """Note the time and the counters of a trial's GPUs; the returned function tells the cost since then."""
    began_unix_s = time.time()
    known = [Gpu.named(uuid) for uuid in gpu_uuids]
    before = [gpu.energy_j() if gpu else None for gpu in known]

    def end() -> Cost:
        ended_unix_s = time.time()
        after = [gpu.energy_j() if gpu else None for gpu in known]
        job = slurm_job(os.environ)
        held_since = job.started_unix_s if job and job.started_unix_s else began_unix_s
        return Cost(
            gpus=len(gpu_uuids),
            held_s=max(0.0, ended_unix_s - min(held_since, began_unix_s)),
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
    """Return the job that this process runs in, or None; times are None where the controller does not answer."""
    job_id = environment.get("SLURM_JOB_ID")
    if not job_id:
        return None
    try:
        asked = subprocess.run(
            ["scontrol", "--oneliner", "show", "job", job_id],
            env=dict(environment) | {"SLURM_TIME_FORMAT": "standard"},
            capture_output=True,
            text=True,
            timeout=ASK_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return SlurmJob(job_id=job_id)
    return parse_job(job_id, asked.stdout)


def parse_job(job_id: str, line: str) -> SlurmJob:
    """Read one line of `scontrol --oneliner show job`. Its times are the node's local ones."""
    fields = fields_of(line)
    return SlurmJob(
        job_id=job_id,
        partition=fields.get("Partition"),
        nodes=fields.get("NodeList"),
        submitted_unix_s=_unix_s(fields.get("SubmitTime")),
        started_unix_s=_unix_s(fields.get("StartTime")),
    )


def _unix_s(text: str | None) -> float | None:
    try:
        return datetime.fromisoformat(text or "").timestamp()
    except ValueError:
        return None
