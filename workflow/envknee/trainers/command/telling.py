"""Which line of a log says why a program broke. Pure.

Programs that start others, such as torchrun, end with an error of their own, which says nothing. Several ranks print several errors, of
which the first explains the others.
"""

import re
from collections.abc import Sequence

from envknee.trainers.command.bounded import MOST_SHOWN

NEWEST_LINES = 200
"""Lines at the end of a log that are looked at."""

RANK = re.compile(r"^\s*(?:\[[^\[\]\s]{0,20}rank\s?\d+\]:?\s?|\[\d+\]:\s?|\d+:\s)+", re.IGNORECASE)
"""The mark of a rank before its lines: `[rank0]:`, `[default0]:[rank0]:`, `0: `."""

ERROR = re.compile(
    r"\s*(?:[\w.]+\.)?\w*(?:Error|Exception|Interrupt|Failure)\b(?!s)|\s*(?:fatal|error|terminate called|Segmentation fault|Aborted)\b"
    r"|.*\bfailed with error \d+|\s*\[?(?:fatal|error)\]?\s*[:\]]|.*\berror: ",
    re.IGNORECASE,
)
OF_LAUNCHERS = re.compile(
    r"ChildFailedError|CalledProcessError|ProcessExitedException|ProcessRaisedException|SignalException|torch\.distributed\.elastic"
    r"|error_file|\berrno\b.*broken pipe|resource_tracker|exitcode *:",
    re.IGNORECASE,
)
"""Errors of programs that start others."""
ROOT = re.compile(
    r"illegal (?:memory access|address)|\b(?:error|result|code)\s*[=:]?\s*700\b|device-side assert", re.IGNORECASE
)
"""Errors that make everything after them fail, too: the first such line counts."""
WATCHDOG = re.compile(r"watchdog|ProcessGroupNCCL|NCCL", re.IGNORECASE)
"""Lines of NCCL's watchdog, which ends ranks because of another error."""
TRACEBACK = "Traceback (most recent call last)"
DRIVER = re.compile(
    r"NVRM: Xid|CUDA driver version is insufficient|no CUDA-capable device|CUDA_ERROR_(?!OUT_OF_MEMORY)\w+|cuInit failed"
    r"|ERROR_INCOMPATIBLE_DRIVER|forward compatibility was attempted|nvidia-smi has failed|Failed to initialize NVML"
    r"|ERROR_INITIALIZATION_FAILED|ERROR_DEVICE_LOST|libcuda\.so",
    re.IGNORECASE,
)
"""Messages of a driver that explain another error."""


def line_of(lines: Sequence[str]) -> str | None:
    """Return the line that says why a program broke; None without one that names an error.

    Of several ranks, the first error of any; of one program, the last. What a driver says comes behind it.
    """
    short = [line[:MOST_SHOWN].rstrip() for line in lines]
    raised = _raised(short)
    errors = [
        line
        for place, line in enumerate(short)
        if (place in raised or ERROR.match(RANK.sub("", line))) and not OF_LAUNCHERS.search(line)
    ]
    roots = [line for line in short if ROOT.search(line)]
    causes = roots[:1] or [line for line in errors if not WATCHDOG.search(line)] or errors
    if not causes:
        return next((line.strip() for line in short if DRIVER.search(line)), None)
    of_ranks = [line for line in causes if RANK.match(line)]
    found = (of_ranks[0] if of_ranks else causes[-1]).strip()
    driver = next((line.strip() for line in short if DRIVER.search(line) and line.strip() != found), None)
    if ROOT.search(found) and "illegal" not in found.lower() and "assert" not in found.lower():
        found = f"{found} (700: illegal address)"
    return found if driver is None else f"{found} (driver: {driver})"


def _raised(lines: Sequence[str]) -> set[int]:
    """Return the places of lines that end a traceback of Python's: the exception, whatever its name."""
    places: set[int] = set()
    is_open = False
    for place, line in enumerate(lines):
        text = RANK.sub("", line)
        if text.startswith(TRACEBACK):
            is_open = True
        elif is_open and text and not text[0].isspace():
            places.add(place)
            is_open = False
    return places
