"""Host, GPUs, driver and free disk space of a job's node."""

import os
import shutil
import socket
import tempfile

from envknee.machine import nvml
from envknee.machine.gpus import visible_uuids
from envknee.slurm.jobs import Shape

GIVEN = "SLURM_GPUS_ON_NODE"
"""Number of GPUs that SLURM gave this job on this node; not set without GPUs or without SLURM."""


def described() -> str:
    """Return the line: `n1 (job 42): 2 GPUs (NVIDIA H200 151 GB, driver 570.1, CUDA 12.8), 800 GB free in /tmp`."""
    job, uuids, gpus = os.environ.get("SLURM_JOB_ID"), visible_uuids(), "no GPU"
    if uuids:
        devices = [nvml.Gpu.named(uuid) for uuid in uuids]
        kinds = sorted({f"{device.name()} {device.total_gb():.0f} GB" for device in devices if device})
        version, cuda = nvml.driver_version()
        gpus = f"{Shape(len(uuids))} ({', '.join([*kinds, f'driver {version}'])}, CUDA {cuda[0]}.{cuda[1]})"
    scratch = tempfile.gettempdir()
    free_gb = shutil.disk_usage(scratch).free / 1e9
    return f"{socket.gethostname()}{f' (job {job})' if job else ''}: {gpus}, {free_gb:,.0f} GB free in {scratch}"


def missing_gpus() -> str | None:
    """Return a warning if CUDA shows fewer GPUs than SLURM gave: an arm with `gpus: auto` would then train on the CPU."""
    given, seen = int(os.environ.get(GIVEN) or 0), len(visible_uuids())
    if seen >= given:
        return None
    return (
        f"SLURM gave this job {Shape(given)} on {socket.gethostname()}, and CUDA shows {seen or 'none'}: trials with `gpus: auto`"
        " run on the CPU. Say `gpus: 0` if you mean that; else ask the cluster's administrators about that node's driver"
    )
