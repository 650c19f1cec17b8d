"""The cost of a trial: GPUs, seconds, joules, time in a queue. Read outside its processes, before and after them."""

import os
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from envknee.machine.nvml import Gpu
from envknee.record.schema import Cost, SlurmJob
from envknee.slurm import facts
from envknee.slurm.facts import fields_of, unix_s_of
from envknee.study.errors import UserError

ASK_S = 10
"""Time limit of each question to SLURM, whose controller may be busy or away."""

RULES_WITH_OWN_JOB = ("rule_trial", "rule_block", "rule_worker")
"""Start of a job's comment, if one trial, block or worker has the job for itself (snakemake-executor-plugin-slurm 2.8.0: the rule)."""

NO_VALUE = 2**63
"""SLURM's numbers for unknown and infinite are the largest of 64 bits, above this."""


@dataclass
class Costs:
    """The costs of trials that are measured one after the other on the same GPUs, and in the same job, if any."""

    gpu_uuids: Sequence[str]
    began_unix_s: float = field(default_factory=time.time)
    """When the first trial began: create this object at that moment."""
    charged: int = 0
    """Number of trials with a cost."""
    charged_j: float = 0.0
    """Energy that they have of the job's."""

    def start(self) -> Callable[[], Cost]:
        """Read the time and the energy counters of the GPUs. The returned function returns the cost since then."""
        began = time.monotonic()
        gpus = [Gpu.named(uuid) for uuid in self.gpu_uuids]  # None for one that NVML does not know
        before = [gpu.energy_j() if gpu else None for gpu in gpus]

        def end() -> Cost:
            held_s = time.monotonic() - began
            after = [gpu.energy_j() if gpu else None for gpu in gpus]
            job = slurm_job()
            if job is not None:
                job = self._charge_newest(job)
            if job is not None and job.started_unix_s is not None:
                held_s += max(0.0, self.began_unix_s - job.started_unix_s)
            return Cost(gpus=len(gpus), held_s=held_s, energy_j=spent_j(before, after), slurm=job)

        return end

    def _charge_newest(self, job: SlurmJob) -> SlurmJob:
        """Charge the newest trial, and return its part of the job: the first trial has the waiting time, and each its own energy."""
        share: dict[str, float | None] = {}
        if job.energy_j is not None:
            share["energy_j"] = max(0.0, job.energy_j - self.charged_j)
            self.charged_j = max(self.charged_j, job.energy_j)
        if self.charged > 0:
            share |= {"submitted_unix_s": None, "started_unix_s": None}
        self.charged += 1
        return job.model_copy(update=share)


def spent_j(before: Sequence[float | None], after: Sequence[float | None]) -> float | None:
    """Return the energy of all GPUs between two readings; None without GPUs, or if a reading is missing. Pure."""
    spent = [last - first for first, last in zip(before, after, strict=True) if first is not None and last is not None]
    return sum(spent) if spent and len(spent) == len(before) else None


def slurm_job() -> SlurmJob | None:
    """Return this process's SLURM job, or None. Fields that SLURM does not answer are None.

    Energy comes from sstat. sacct reads the same counters, but only after the job's end.
    """
    job_id = os.environ.get("SLURM_JOB_ID")
    if not job_id:
        return None
    sstat = ["sstat", "--allsteps", "--noheader", "--parsable2", "--format=JobID,ConsumedEnergyRaw", f"--jobs={job_id}"]
    return parse_job(job_id, _ask(["scontrol", "--oneliner", "show", "job", job_id]), _ask(sstat))


def _ask(command: Sequence[str]) -> str:
    """Return the output of a SLURM command; "" if it is missing, fails or does not answer."""
    try:
        return facts.ask(command, ASK_S)
    except (UserError, OSError):
        return ""


def parse_job(job_id: str, line: str, steps: str = "") -> SlurmJob:
    """Read one line of `scontrol --oneliner show job` (times are the node's local ones), and lines STEP|JOULES of sstat.

    Waiting time and energy are left out for a job in which a user runs a whole sweep: they belong to no single trial.
    """
    fields = fields_of(line)
    job = SlurmJob(job_id=job_id, partition=fields.get("Partition"), nodes=fields.get("NodeList"))
    if not fields.get("Comment", "").startswith(RULES_WITH_OWN_JOB):
        return job
    # Steps overlap, and the first one (`batch`) runs only on the first node: the largest value is the job's. 0 may also mean nodes
    # without a sensor.
    joules = [float(number) for number in re.findall(r"\|(\d+)$", steps, re.MULTILINE)]
    return job.model_copy(
        update={
            "submitted_unix_s": unix_s_of(fields.get("SubmitTime")),
            "started_unix_s": unix_s_of(fields.get("StartTime")),
            "energy_j": max((value for value in joules if 0 < value < NO_VALUE), default=None),
        }
    )
