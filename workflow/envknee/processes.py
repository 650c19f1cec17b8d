"""The processes of a trial on one machine: their command, their environment, and how they all end.

Input: a request and what is reserved for it. Output: a command line with its environment. Used by the launcher, and on each of
several nodes.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from envknee.enter import Entrance, command_line
from envknee.files import TrialFolder
from envknee.record import Request

CUBLAS_WORKSPACE = ":4096:8"
"""With it cuBLAS repeats itself (NVIDIA's cuBLAS manual, "Results reproducibility"); it is read when CUDA starts."""

GRACE_S = 10.0
"""Seconds between asking a process group to end and killing it."""


def command_of(
    trial: TrialFolder,
    request: Request,
    gpu_uuids: Sequence[str],
    meeting: Path,
    entrance: Entrance | None,
    shared_meeting: Path | None = None,
) -> tuple[list[str], dict[str, str]]:
    """Return what runs a trial's processes on this machine: (command, environment variables).

    Args:
        trial: where its files lie
        request: what it runs
        gpu_uuids: the GPUs that it may use
        meeting: an empty folder on this machine's own disk, for its ranks and, in an image, for all that it writes besides
        entrance: the image that they run in; None for the host
        shared_meeting: of several machines, the folder where those meet
    """
    variables = environment_of(request) | {"CUDA_VISIBLE_DEVICES": ",".join(gpu_uuids)}
    command = [sys.executable, "-m", "envknee.trial", str(trial.root)]
    if request.world_size > 1:
        command += ["--ranks", str(request.ranks_per_node), "--meeting", str(meeting)]
    if shared_meeting is not None:
        command += ["--nodes", str(request.nodes), "--shared-meeting", str(shared_meeting)]
    if entrance is not None:
        return command_line(entrance, trial, request, command, variables, meeting)
    return command, variables


def environment_of(request: Request) -> dict[str, str]:
    """Return the environment variables of a trial's processes.

    PyTorch would start a thread for every core. OpenMP's threads wait for each other by spinning, so that one
    busy neighbour made an update 2 to 100 times slower on two cores; with half the cores it was as
    fast on an idle machine and the same on a busy one. What these variables say outside is not asked:
    Snakemake sets them to the `threads` of a rule.
    """
    threads = str(max(1, len(os.sched_getaffinity(0)) // 2 // request.ranks_per_node))
    if request.deterministic:
        threads = "1"  # a sum that several threads share out depends on how many there are
    # Unbuffered, or what a trial printed would follow the traceback in its log, whose last lines say why it ended.
    variables = os.environ | {"OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads, "PYTHONUNBUFFERED": "1"}
    if request.deterministic:
        variables |= {"CUBLAS_WORKSPACE_CONFIG": CUBLAS_WORKSPACE, "PYTHONHASHSEED": "0"}
    if request.memory.expandable_segments:
        variables["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
    if request.world_size > 1 and request.nodes == 1:
        # All ranks are on this machine: NCCL and Gloo would otherwise listen where others can reach them. Several machines
        # need a network, and their own variables say which.
        variables |= {"NCCL_SOCKET_IFNAME": "lo", "GLOO_SOCKET_IFNAME": "lo"}
    return variables | {"CUDA_VISIBLE_DEVICES": ""} if request.gpus == 0 else variables


def end_all(process: subprocess.Popen[bytes], grace_s: float) -> None:
    """End every process of the trial and wait for that: SIGTERM, then SIGKILL after `grace_s` (0: at once).

    torchrun gives each rank a session of its own, which no signal to its own group reaches.
    """
    with suppress(psutil.NoSuchProcess):
        descendants = psutil.Process(process.pid).children(recursive=True)
        if grace_s > 0:
            _signal_group(process, signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                process.wait(grace_s)
        _signal_group(process, signal.SIGKILL)
        for descendant in descendants:
            with suppress(psutil.NoSuchProcess):
                descendant.kill()
        psutil.wait_procs(descendants, timeout=GRACE_S)
    _signal_group(process, signal.SIGKILL)  # what an ended process has left behind in its group
    process.wait()


def _signal_group(process: subprocess.Popen[bytes], signal_number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal_number)
