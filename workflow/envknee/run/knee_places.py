"""Where the trials of `envknee knee` run: on this machine, as jobs of a cluster, or on nodes that its user has.

Input: the profile and the GPUs of a trial, as typed. Output: how many trials run at once, and the words with which Snakemake runs a
study there.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from envknee.machine.gpus import check_enough, visible_uuids
from envknee.run import sweep
from envknee.slurm import admission, allocation
from envknee.slurm import site as sites
from envknee.study.errors import UserError
from envknee.study.paths import PROJECT
from envknee.words.numbers import counted

PROFILES = ("slurm", "allocation")

MOST_JOBS = 4
"""Most jobs that one search has, where its user names no number: each climbs a doubling further ahead of what is known."""

SITE = "slurm/site.yaml"
"""Where the profile seeks the description of the cluster."""


def devices(profile: str | None, gpus: Literal["auto"] | int) -> int:
    """Return how many GPUs (or CPUs, as one each) all trials may use at once.

    Raises:
        UserError: where the profile finds no site or no allocation.
    """
    if profile == "slurm":
        return sites.load(admission.find_site(SITE, [Path(), PROJECT])).max_gpus
    if profile == "allocation":
        return allocation.observe(os.environ).devices
    return 1 if gpus == 0 else max(1, len(visible_uuids()))


def at_once(profile: str | None, gpus: Literal["auto"] | int, searches: bool) -> int:
    """Return how many trials run at once, each on `gpus` GPUs of its own, in a search or in a range. Raises what `devices` does."""
    trials = max(1, devices(profile, gpus) // gpus_each(gpus))
    return min(trials, MOST_JOBS) if profile == "slurm" and searches else trials


def check_room(profile: str | None, gpus: Literal["auto"] | int, workers: int | None) -> None:
    """Make sure that there are GPUs for a trial, and for as many trials at once as the user asks for.

    Raises:
        UserError: when there are too few.
    """
    if profile is None and gpus != 0:
        check_enough(gpus, len(visible_uuids()))
    there = devices(profile, gpus)
    if workers is not None and workers * gpus_each(gpus) > there:
        fit = max(1, there // gpus_each(gpus))
        each = "the CPU" if gpus == 0 else counted(gpus_each(gpus), "GPU")
        raise UserError(
            f"--workers {workers}, of which each trial takes {each}: there is room for"
            f" {counted(fit, 'trial')} at once. Take --workers {fit}, or leave it out"
        )


def gpus_each(gpus: Literal["auto"] | int) -> int:
    """Return the devices of a trial. Pure."""
    return 1 if gpus == "auto" else max(1, gpus)


def snakemake_words(
    study: Path, profile: str | None, gpus: Literal["auto"] | int, targets: Sequence[str] = ()
) -> list[str]:
    """Return the words behind `snakemake` for a study's file, all of it or only `targets`. Profiles find out how many devices there are.

    Raises:
        UserError: when what the profile needs is not installed.
    """
    where = ["--resources", f"device={devices(None, gpus)}"]
    if profile:
        where = ["--profile", sweep.profile_of(profile, Path.cwd())]
    return sweep.snakemake_words(study, str(sweep.SHIPPED / "default"), where, targets)
