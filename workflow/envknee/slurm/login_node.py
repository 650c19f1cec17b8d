"""Whether trials may train on this machine itself: not on a cluster's login node, which its users share.

Input: this process's environment, and whether SLURM answers. Output: a refusal, a warning, or nothing.
"""

import os
import shutil
from collections.abc import Mapping
from enum import Enum, auto

from envknee.slurm import facts
from envknee.study.errors import UserError

HERE = "ENVKNEE_HERE"
"""Variable that, set to 1, lets trials train on a machine whose SLURM answers, outside a job."""

COMMANDS = ("sinfo", "sbatch")

ANSWER_S = 5.0
"""Time for the controller's answer: every sweep without a profile waits so long where it is away."""

NO_CONTROLLER = "Unable to contact slurm controller"
"""What sinfo says at once, or after seconds, if there is a configuration and nobody answers (SLURM 22.05)."""


class Slurm(Enum):
    """What there is of SLURM on this machine."""

    ABSENT = auto()
    """No commands, or no configuration for them."""
    AWAY = auto()
    """The controller does not answer."""
    ANSWERS = auto()


def check() -> str | None:
    """Return what a user should know before trials train on this machine; None for a machine of one's own.

    Raises:
        UserError: on a login node.
    """
    if is_settled(os.environ):
        return None
    return decide(os.environ, observe())


def is_settled(environment: Mapping[str, str]) -> bool:
    """Tell whether SLURM need not be asked: this is a step or a script on a node, or its user wants trials here."""
    return environment.get(HERE) == "1" or "SLURMD_NODENAME" in environment


def observe() -> Slurm:
    """Ask the controller, and wait for it no longer than a few seconds."""
    if not all(shutil.which(name) for name in COMMANDS):
        return Slurm.ABSENT
    try:
        facts.ask(["sinfo", "--noheader", "--format=%P"], ANSWER_S)
    except UserError as error:
        is_away = NO_CONTROLLER in str(error) or "gave no answer" in str(error)
        return Slurm.AWAY if is_away else Slurm.ABSENT
    return Slurm.ANSWERS


def decide(environment: Mapping[str, str], slurm: Slurm) -> str | None:
    """Return the warning, if any, of a sweep without a profile whose environment does not settle it. Pure.

    Raises:
        UserError: where SLURM answers, and this is no job.
    """
    if slurm is Slurm.ABSENT:
        return None
    if job_id := environment.get("SLURM_JOB_ID"):
        # salloc starts its shell here on some clusters, and on the job's first node on others.
        return (
            f"job {job_id} is yours, and this shell may not be on its nodes: trials train on this machine. On the job's nodes:"
            " envknee sweep --profile allocation (make sweep PROFILE=allocation)"
        )
    if slurm is Slurm.AWAY:
        return (
            "SLURM's controller does not answer, and trials train on this machine. Is it a cluster's login node? Then press"
            f" Ctrl-C, and use the profile slurm later. {HERE}=1 ends this warning"
        )
    raise UserError(
        "trials would train on this machine, which has SLURM and is in no job (SLURM_JOB_ID is not set): is it a login node?\n"
        "  jobs of the cluster:        envknee sweep --profile slurm  (make sweep PROFILE=slurm, snakemake --profile slurm),\n"
        "                              or envknee knee --profile slurm\n"
        "  nodes that salloc gave:     envknee sweep --profile allocation  (make sweep PROFILE=allocation)\n"
        f"  this machine all the same:  {HERE}=1 envknee sweep  ({HERE}=1 make sweep)\n"
        f"On a workstation with a SLURM of its own, put `export {HERE}=1` into ~/.profile."
    )
