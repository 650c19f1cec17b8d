"""Tells whether something outside of a program ended it: a signal from somebody else, or a full disk. Pure.

Such an end says nothing about the program, so it is no crash: the trial has no result, and is tried again.
"""

import re
import signal
from collections.abc import Sequence

SENT = (
    signal.SIGHUP, signal.SIGINT, signal.SIGKILL, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU, signal.SIGXFSZ,
)  # fmt: skip
"""What people, job managers and limits send. A fault of a program's own ends it by another signal (SIGSEGV, SIGABRT, SIGBUS, ...)."""

SIGNAL_OF_CHILD = re.compile(
    r"\bSignal (?P<number>\d{1,3}) \(SIG\w+\) received by PID \d+|\bis killed by signal: (?P<words>Killed|Terminated)\b"
)
"""How torchrun 2.11 names the signal that ended a rank first, and PyTorch's DataLoader the one that ended a worker."""

FULL_DISK = re.compile(r"\bNo space left on device\b|\bDisk quota exceeded\b|\[Errno 27\] File too large")
"""The C library's words for ENOSPC and EDQUOT, which every language quotes, and Python's for EFBIG (a limit of files' sizes)."""


def signal_of(status: int) -> signal.Signals | None:
    """Return the signal from outside that an exit status names, negative or as a shell's 128 + number; None without one."""
    return next((sent for sent in SENT if status in (-sent, 128 + sent)), None)


def why_ended(status: int, lines: Sequence[str]) -> str | None:
    """Return what ended a program from outside, as a part of a sentence; None if the program broke by itself.

    Args:
        status: its exit status; negative for a signal
        lines: the newest lines that it printed
    """
    sent = signal_of(status)
    if sent is not None:
        return f"{sent.name} ended it"
    for line in lines:
        of_child = SIGNAL_OF_CHILD.search(line)
        if of_child and (of_child["words"] or int(of_child["number"]) in SENT):
            return "a signal ended one of its processes"
        if FULL_DISK.search(line):
            return "the disk was full"
    return None
