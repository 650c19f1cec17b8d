"""Processes on one machine: parent, signals, end."""

import ctypes
import os
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

GRACE_S = 10.0
"""Seconds between asking a process group to end and killing it."""

POLL_S = 0.02
"""Between two looks at whether a process has ended."""

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
"""prctl(2)"""

ASKED_TO_END = (signal.SIGINT, signal.SIGTERM)


NO_BYTECODE, USERS_NO_BYTECODE = "PYTHONDONTWRITEBYTECODE", "ENVKNEE_DONTWRITEBYTECODE"
"""A variable of Python's, and the one that keeps the user's value of it for foreign commands."""


def own_python_first() -> None:
    """Put this process's `python` and the programs beside it first on PATH, for all processes that it starts.

    None of them may import from the working directory, which may hold other people's results. All keep compiled modules: each trial
    starts several processes, and would compile envknee and its libraries in each.
    """
    os.environ["PYTHONSAFEPATH"] = "1"
    if no_bytecode := os.environ.pop(NO_BYTECODE, None):
        os.environ[USERS_NO_BYTECODE] = no_bytecode
    os.environ.setdefault("ENVKNEE_PATH", os.environ.get("PATH", os.defpath))  # the PATH for foreign commands
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])


KEEPER, DYING = (str(Path(__file__).with_name(name)) for name in ("keeper.py", "dying.py"))
"""Programs that need nothing of envknee."""


def _python() -> list[str]:
    """Return the words that start a program in this process's Python with the standard library alone, which takes milliseconds."""
    return [sys.executable, "-I", "-S"]


def dying_with_parent(how: Literal["KILL", "TERM", "USR1"] = "KILL") -> list[str]:
    """Return the words before a command that must get a signal when this process ends, from the command's first moment on.

    `die_with_parent` alone is too late: a trial's imports take seconds, in which a killed launcher would leave it behind.
    """
    return [*_python(), DYING, str(os.getpid()), how]


def kept(folder: Path) -> list[str]:
    """Return the words before a command that must leave no process behind when it ends, or when this process ends.

    `folder` is this process's temporary one for the command: it is removed if this process ends first.

    Pass the descriptors of this process's locks on, too (`machine.lock.held`): the locks then last until the last process is gone.
    """
    return [*_python(), KEEPER, str(os.getpid()), str(folder.absolute())]


def age_s() -> float:
    """Return the age of this process, by a clock that is never set (proc_pid_stat(5), starttime)."""
    started = int(Path("/proc/self/stat").read_text(encoding="ascii").rpartition(")")[2].split()[19])
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - started / os.sysconf("SC_CLK_TCK"))


def die_with_parent() -> None:
    """Have this process killed when its parent ends, so that no simulation stays on a GPU."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def adopt_orphans() -> frozenset[int]:
    """Become the parent of orphans of processes that start from now on, for `end_all`. Return the children so far."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    return frozenset(child.pid for child in psutil.Process().children())


def raise_at_signals(error: Callable[[int], BaseException]) -> None:
    """Raise `error` at the first SIGINT or SIGTERM. Later ones are ignored: ending takes seconds and must finish."""

    def end(number: int, _frame: FrameType | None) -> None:
        for asked in ASKED_TO_END:
            signal.signal(asked, lambda *_: None)  # new processes would inherit SIG_IGN
        raise error(number)

    for asked in ASKED_TO_END:
        signal.signal(asked, end)


class _Continued:
    """How often this process was told to go on (SIGCONT)."""

    times = 0


def note_pauses() -> None:
    """Count pauses of this process from now on, for `pauses`. Nothing tells a process of its pause but the signal that ends it."""

    def note(_number: int, _frame: FrameType | None) -> None:
        _Continued.times += 1

    signal.signal(signal.SIGCONT, note)


def pauses() -> int:
    """Return how often this process was paused and told to go on, as by `scontrol suspend` and `scontrol resume`."""
    return _Continued.times


def exit_status(process: "subprocess.Popen[bytes]") -> int | None:
    """Return a process's exit status (negative: the signal that ended it), or None while it runs.

    Unlike `process.poll()`, it leaves the ended process in the kernel's table. So no other process can get its PID before `end_all` has
    signalled it and its group.
    """
    if process.returncode is not None:
        return process.returncode
    try:
        ended = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:  # another process's child
        return process.poll()
    if ended is None:
        return None
    return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status


def end_all(process: subprocess.Popen[bytes], grace_s: float, others: frozenset[int] | None = None) -> None:
    """End every process of the trial and wait for that: SIGTERM, then SIGKILL after `grace_s` (0: at once).

    torchrun gives each rank a session of its own, which signals to torchrun's group do not reach. Orphans are children of this
    process if `adopt_orphans` was called before; `others` is its result.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, ASKED_TO_END)  # they are delivered afterwards
    try:
        _end_tree(process, grace_s)
        if others is not None:
            _end_orphans(others)
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ASKED_TO_END)


def _end_orphans(others: frozenset[int]) -> None:
    """Kill this process's children except `others`, until none is left: their own children then become this process's."""
    give_up_s = time.monotonic() + GRACE_S
    while time.monotonic() < give_up_s:
        orphans = [child for child in psutil.Process().children() if child.pid not in others]
        if not orphans:
            return
        for orphan in orphans:
            with suppress(psutil.NoSuchProcess):
                orphan.kill()
        psutil.wait_procs(orphans, timeout=GRACE_S)


def _end_tree(process: "subprocess.Popen[bytes]", grace_s: float) -> None:
    if process.returncode is not None:
        return  # it was waited for, and its PID may be another process's by now
    descendants = _descendants(process.pid)
    if grace_s > 0:
        _signal_group(process, signal.SIGTERM)
        _await(process, grace_s)
    _signal_group(process, signal.SIGKILL)
    for descendant in descendants:
        with suppress(psutil.NoSuchProcess):
            descendant.kill()
    psutil.wait_procs(descendants, timeout=GRACE_S)
    _signal_group(process, signal.SIGKILL)  # processes that an ended process left in its group
    process.wait()


def _descendants(pid: int) -> list[psutil.Process]:
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).children(recursive=True)
    return []


def _await(process: "subprocess.Popen[bytes]", most_s: float) -> None:
    """Wait until a process has ended, at most `most_s`."""
    give_up_s = time.monotonic() + most_s
    while exit_status(process) is None and time.monotonic() < give_up_s:
        time.sleep(POLL_S)


def _signal_group(process: "subprocess.Popen[bytes]", signal_number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal_number)
