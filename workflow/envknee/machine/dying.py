"""Becomes a command that gets a signal when its parent ends, from its first moment on.

    python -I -S dying.py PARENT SIGNAL COMMAND...

In: PARENT, the PID of the process that starts this one; SIGNAL, such as KILL. If that process has ended already, nothing runs.

It does what `setpriv --pdeathsig` does (prctl(2), PR_SET_PDEATHSIG), which not every machine has. It uses the standard library alone.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
"""prctl(2)"""


def main() -> None:
    """Ask the kernel for the signal, and become the command."""
    parent, number, command = int(sys.argv[1]), signal.Signals[f"SIG{sys.argv[2]}"], sys.argv[3:]
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
    for ignored_by_python in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(ignored_by_python, signal.SIG_DFL)
    try:
        os.execvp(command[0], command)  # noqa: S606  no shell
    except OSError as error:
        sys.exit(f"envknee: {command[0]} cannot be run: {error.strerror}")


if __name__ == "__main__":
    main()
