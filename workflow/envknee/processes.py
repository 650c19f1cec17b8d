"""The processes of a trial on one machine: their command, their environment, and how they all end.

Input: a request and what is reserved for it. Output: a command line with its environment. Used by the launcher, and on each of
several nodes.
"""

import ctypes
import os
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

import psutil

from envknee.enter import Entrance, command_line
from envknee.files import TrialFolder
from envknee.record import Request

CUBLAS_WORKSPACE = ":4096:8"
"""With it cuBLAS repeats itself (NVIDIA's cuBLAS manual, "Results reproducibility"); it is read when CUDA starts."""

GRACE_S = 10.0
"""Seconds between asking a process group to end and killing it."""

PR_SET_PDEATHSIG = 1
"""prctl(2)"""

RAY_ADDRESS = "RAY_ADDRESS"
"""Names Ray's cluster, where there is one; Ray's own variable."""

LOOPBACK_RAY = {
    # Without a cluster Ray's servers listen on 127.0.0.1 alone: on Linux, too, whatever the name says
    # (ray/_private/services.py of 2.60.0, `get_node_ip_address`).
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_AUTH_MODE": "token",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_COLOR_PREFIX": "0",  # what collectors print goes to the trial's log
}
"""For a Ray that a trial starts for itself. Ray reads them when it is imported."""


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
    if request.processes > 1:
        command += ["--ranks", str(request.ranks_per_node), "--meeting", str(meeting)]
    if shared_meeting is not None:
        command += ["--nodes", str(request.nodes), "--shared-meeting", str(shared_meeting)]
    if request.strategy == "ray" and not in_cluster(request):
        variables |= LOOPBACK_RAY | {"RAY_TMPDIR": str(meeting), "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    if entrance is not None:
        return command_line(entrance, trial, request, command, variables, meeting)
    return [*dying_with_parent(), *command], variables


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
    if request.processes > 1 and request.nodes == 1:
        # All ranks are on this machine: NCCL and Gloo would otherwise listen where others can reach them. Several machines
        # need a network, and their own variables say which.
        variables |= {"NCCL_SOCKET_IFNAME": "lo", "GLOO_SOCKET_IFNAME": "lo"}
    return variables | {"CUDA_VISIBLE_DEVICES": ""} if request.gpus == 0 else variables


def in_cluster(request: Request) -> bool:
    """Tell whether the collectors of a trial run in a cluster of Ray's that was there before it."""
    return request.strategy == "ray" and bool(os.environ.get(RAY_ADDRESS))


def gpus_here(request: Request) -> Literal["auto"] | int:
    """Return how many of this machine's GPUs a trial takes: in a cluster of Ray's the learner's alone, as Ray gives the others."""
    return 1 if in_cluster(request) and request.gpus not in ("auto", 0) else request.gpus


def own_python_first() -> None:
    """Let `python` and the programs beside it be this process's own for all that it starts, whatever else is first on PATH."""
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])


def dying_with_parent() -> list[str]:
    """Return what stands before a command that is to be killed as soon as whoever starts it has ended, from its first moment on.

    A trial's own imports take seconds: one that says so itself (`die_with_parent`) is left behind by a launcher that is killed
    meanwhile. Empty where util-linux's setpriv is missing.
    """
    program = shutil.which("setpriv")
    return [] if program is None else [program, "--pdeathsig", "KILL"]


def die_with_parent() -> None:
    """Let this process be killed as soon as the one that started it has ended: no simulation is left behind on a GPU."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


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
