"""The processes of a trial on one machine: environment, parent, end."""

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Literal

import psutil

from envknee.record.schema import Request
from envknee.study import remedies
from envknee.study.strategies import STRATEGIES

CUBLAS_WORKSPACE = ":4096:8"
"""With it cuBLAS repeats itself (NVIDIA's cuBLAS manual, "Results reproducibility"); it is read when CUDA starts."""

GRACE_S = 10.0
"""Seconds between asking a process group to end and killing it."""

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
"""prctl(2)"""

ASKED_TO_END = (signal.SIGINT, signal.SIGTERM)


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
    variables["PYTHONSAFEPATH"] = "1"  # nothing is imported from where results lie
    if request.deterministic:
        variables |= {"CUBLAS_WORKSPACE_CONFIG": CUBLAS_WORKSPACE, "PYTHONHASHSEED": "0"}
    variables |= remedies.environment(request.memory)
    if request.asset_root is not None:  # for a task that asks Isaac Lab for files while it runs
        variables["ISAACSIM_ASSET_ROOT"] = str(Path(request.asset_root).expanduser().resolve())
    if request.processes > 1 and request.nodes == 1:
        # All ranks are on this machine: NCCL and Gloo would otherwise listen where others can reach them. Several machines
        # need a network, and their own variables say which.
        variables |= {"NCCL_SOCKET_IFNAME": "lo", "GLOO_SOCKET_IFNAME": "lo"}
    return variables | {"CUDA_VISIBLE_DEVICES": ""} if request.gpus == 0 else variables


def in_cluster(request: Request) -> bool:
    """Tell whether the processes of a trial run in a cluster that was there before it."""
    cluster = STRATEGIES[request.strategy].cluster
    return cluster is not None and bool(os.environ.get(cluster))


def gpus_here(request: Request) -> Literal["auto"] | int:
    """Return how many of this machine's GPUs a trial takes: in a cluster the learner's alone, as that gives the others."""
    return 1 if in_cluster(request) and request.gpus not in ("auto", 0) else request.gpus


def own_python_first() -> None:
    """Let `python` and the programs beside it be this process's own for all that it starts, whatever else is first on PATH.

    And let none of it import what lies in the working directory: results of others may lie there.
    """
    os.environ["PYTHONSAFEPATH"] = "1"
    os.environ.setdefault("ENVKNEE_PATH", os.environ.get("PATH", os.defpath))  # what a foreign command is looked for in
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])


def dying_with_parent() -> list[str]:
    """Return what stands before a command that is to be killed as soon as whoever starts it has ended, from its first moment on.

    A trial's own imports take seconds: one that says so itself (`die_with_parent`) is left behind by a launcher that is killed
    meanwhile. Empty where util-linux's setpriv is missing.
    """
    program = shutil.which("setpriv")
    return [] if program is None else [program, "--pdeathsig", "KILL"]


def age_s() -> float:
    """Return for how long this process has lived, by a clock that nobody sets (proc_pid_stat(5), starttime)."""
    started = int(Path("/proc/self/stat").read_text(encoding="ascii").rpartition(")")[2].split()[19])
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - started / os.sysconf("SC_CLK_TCK"))


def die_with_parent() -> None:
    """Let this process be killed as soon as the one that started it has ended: no simulation is left behind on a GPU."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def adopt_orphans() -> frozenset[int]:
    """Become the parent of whatever processes started from now on leave behind, for `end_all`; return the children so far."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    return frozenset(child.pid for child in psutil.Process().children())


def raise_at_signals(error: Callable[[int], BaseException]) -> None:
    """Raise `error` at the first SIGINT or SIGTERM. More of them change nothing: ending takes seconds, and must come to its end."""

    def end(number: int, _frame: FrameType | None) -> None:
        for asked in ASKED_TO_END:
            signal.signal(asked, lambda *_: None)  # not SIG_IGN, which what is started then would inherit
        raise error(number)

    for asked in ASKED_TO_END:
        signal.signal(asked, end)


def end_all(process: subprocess.Popen[bytes], grace_s: float, others: frozenset[int] | None = None) -> None:
    """End every process of the trial and wait for that: SIGTERM, then SIGKILL after `grace_s` (0: at once).

    torchrun gives each rank a session of its own, which no signal to its own group reaches. What has left its parents, too, is
    this process's child where `adopt_orphans` was called before; `others` is what that returned.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, ASKED_TO_END)  # delivered afterwards
    try:
        _end_tree(process, grace_s)
        if others is not None:
            _end_orphans(others)
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ASKED_TO_END)


def _end_orphans(others: frozenset[int]) -> None:
    """Kill this process's children but `others`, until there are none: the children of each become its own."""
    give_up_s = time.monotonic() + GRACE_S
    while time.monotonic() < give_up_s:
        orphans = [child for child in psutil.Process().children() if child.pid not in others]
        if not orphans:
            return
        for orphan in orphans:
            with suppress(psutil.NoSuchProcess):
                orphan.kill()
        psutil.wait_procs(orphans, timeout=GRACE_S)


def _end_tree(process: subprocess.Popen[bytes], grace_s: float) -> None:
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
