"""Runs a command, and ends everything that it started before this process ends: at the command's end, or at its parent's.

    python -I -S keeper.py PARENT FOLDER COMMAND...

In:  PARENT, the PID of the process that started this one; FOLDER, its temporary one; descriptors of its locks, which stay open as long as
     this process lives
Out: the command's exit status, or the signal that ended it

A launcher that gets SIGKILL ends nothing and releases its locks. The kernel then signals this process (PR_SET_PDEATHSIG), which kills the
command and all its descendants. A daemon that left its session and its parents becomes a child of this process (PR_SET_CHILD_SUBREAPER).
The locks are free only when no descendant is left, so that the next launcher measures beside none. The folder of a parent that
ended first goes with them.

It uses nothing but Python's standard library, and of that little: it must start in milliseconds, and lives beside a measurement.
"""

import ctypes
import os
import resource
import signal
import sys
from collections.abc import Iterable
from contextlib import suppress

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
"""prctl(2)"""

PARENT_ENDED = signal.SIGUSR1
WAITED_FOR = {signal.SIGCHLD, PARENT_ENDED, signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
"""Signals that end nothing here. SIGTERM and Ctrl-C go to the whole group, and the command answers them."""

LOOKS_S = 1.0
"""The longest time between two looks at the command and the parent."""

KILLS_S = 0.02
"""Between two rounds of kills."""


def main() -> None:
    """Run the command, end what it started, and end as it did."""
    parent, folder, command = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, WAITED_FOR)
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    _prctl(PR_SET_PDEATHSIG, PARENT_ENDED)
    for descriptor in _open_descriptors():
        with suppress(OSError):  # the one that listed them is closed
            os.set_inheritable(descriptor, descriptor <= 2)
    if os.getppid() != parent:  # it ended before the kernel knew that this process wants to be signalled
        os._exit(1)
    child = _start(command, mask)
    status = _wait(child, parent)
    _end_children()
    if status is None:
        _remove(folder)
    _end_as(status)


def _start(command: list[str], mask: Iterable[int]) -> int:
    """Start the command with the given signal mask; return its PID. It is killed if this process is."""
    keeper = os.getpid()
    child = os.fork()
    if child:
        return child
    try:
        for ignored_by_python in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(ignored_by_python, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == keeper:
            os.execvp(command[0], command)  # noqa: S606  no shell
    except OSError as error:
        os.write(2, f"envknee: {command[0]} cannot be run: {error.strerror}\n".encode())
    os._exit(127)


def _wait(child: int, parent: int) -> int | None:
    """Return the wait status of the command; None if the parent ended first."""
    while os.getppid() == parent:
        status = _reap().get(child)
        if status is not None:
            return status
        signal.sigtimedwait(WAITED_FOR, LOOKS_S)
    return None


def _reap() -> dict[int, int]:
    """Take leave of children that have ended; return their wait statuses by PID."""
    ended = {}
    with suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            ended[pid] = status
    return ended


def _end_children() -> None:
    """Kill children until none is left: the children of a killed one become this process's.

    A child keeps its PID until this process reaps it, so no other process is ever hit.
    """
    foreign = set[int]()  # of another user: a program with the set-user-ID bit
    while children := _children() - foreign:
        for child in children:
            try:
                os.kill(child, signal.SIGKILL)
            except PermissionError:
                foreign.add(child)
        signal.sigtimedwait({signal.SIGCHLD}, KILLS_S)
        _reap()


def _children() -> set[int]:
    """Return the PIDs of this process's children, with those that ended and are not reaped (proc_pid_stat(5), ppid)."""
    children = set()
    for name in os.listdir("/proc"):  # noqa: PTH208  pathlib takes long to import
        if not name.isdecimal():
            continue
        with suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
            parent = int(file.read().rpartition(b")")[2].split()[1])
            if parent == os.getpid():
                children.add(int(name))
    return children


def _remove(folder: str) -> None:
    """Remove the folder that the parent would have removed at its own end."""
    import shutil  # takes longer than all else here

    shutil.rmtree(folder, ignore_errors=True)


def _end_as(status: int | None) -> None:
    """End this process as the command ended."""
    if status is None:
        os._exit(1)
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with suppress(OSError, ValueError):  # SIGKILL has no handler
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, WAITED_FOR)
        os._exit(128 - code)
    os._exit(code)


def _open_descriptors() -> list[int]:
    return [int(name) for name in os.listdir("/proc/self/fd")]  # noqa: PTH208


def _prctl(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0):
        raise OSError(ctypes.get_errno(), f"prctl({option}) failed")


if __name__ == "__main__":
    main()
