"""What Snakemake's jobs find in their environment on a cluster.

Input: a site and its file. Output: PATH begins with the profile's bin/, and ENVKNEE_SCRATCH is the site's scratch. Jobs get both,
as SLURM hands the environment on.
"""

import os
from pathlib import Path

from envknee.machine import scratch
from envknee.slurm.site import Site


def enter(site: Site, path: Path) -> None:
    """Set the environment of this process; `path` is the site's file, beside which bin/ lies.

    An answer about jobs that does not come must not end the sweep: see bin/sacct. Scratch goes by the environment, because as a
    parameter of rules it would make finished trials look out of date.
    """
    here = str((path.parent / "bin").resolve())
    others = [folder for folder in os.environ.get("PATH", os.defpath).split(os.pathsep) if folder != here]
    os.environ["PATH"] = os.pathsep.join([here, *others])
    if site.scratch:
        os.environ[scratch.TOLD] = site.scratch
