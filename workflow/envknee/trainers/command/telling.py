"""Which line of a log says why a program broke. Pure.

Programs that start others, such as torchrun, end with an error of their own, which says nothing. Several ranks print several errors, of
which the first explains the others.
"""

import re
from collections.abc import Sequence

from envknee.trainers.command.bounded import MOST_SHOWN

NEWEST_LINES = 200
"""Lines at the end of a log that are looked at."""

COLOUR = re.compile(r"\x1b\[[\d;]*m")
MARGIN = re.compile(r"^\s*\|\s?(?!.*\|$)")
"""Before the lines of a group of exceptions of Python's, and of no table."""
RANK = re.compile(r"^\s*(?:\[[^\[\]\s]{0,20}rank\s?\d+\]:?\s?|\[\d+\]:\s?|\d+:\s)+", re.IGNORECASE)
"""The mark of a rank before its lines: `[rank0]:`, `[default0]:[rank0]:`, `0: `."""
STAMP = re.compile(
    r"^(?:\d{4}-\d\d-\d\d[T ][\d:.,]+Z?\s?)?(?:\[[\d,]+ms\] )?(?:\[\w+\] ){0,2}(?:\[[\w.-]+\] )?\[py stderr\]: ?"
)
"""What Omniverse prints before each line that Python writes to its standard error."""

ERROR = re.compile(
    r"\s*(?:[\w.]+\.)?\w*(?:Error|Exception|Interrupt|Failure)\b(?!s)|\s*(?:fatal|error|terminate called|Segmentation fault|Aborted)\b"
    r"|.*\bfailed with error \d+|\s*\[?(?:fatal|error)\]?\s*[:\]]|.*\berror ?: |\s*what\(\): |.*\bAssertion\b.*\bfailed\b"
    r"|.*\bSignal \d+ \((?!SIGTERM\b)\w+\) received\b|.*: line \d+: +\d+ [A-Z][\w ]+? {2,}\S|\s*Killed\s*$|.*: task [\d,-]+: Out Of Memory"
    r"|.*\bcaught collective operation timeout\b",
    re.IGNORECASE,
)
"""Exceptions, C++'s `what()` and assertions, ends by a signal as shells, SLURM and torchrun tell them, and whatever says `error:`."""
COMPLAINT = re.compile(
    r"\s*(?i:could not|cannot|can't|unable to|failed to)\b|.*\[(?i:error|fatal|critical)\]|.*[\s|:-](?:ERROR|CRITICAL|FATAL)[\s|:-]"
    r"|[EF]\d{4} \d\d:"
)
"""Lines of loggers, and sentences: they may be why a program broke, though programs print such lines, too, and go on."""
OF_LAUNCHERS = re.compile(
    r"ChildFailedError|CalledProcessError|ProcessExitedException|ProcessRaisedException|SignalException|torch\.distributed\.elastic"
    r"|error_file|\berrno\b.*broken pipe|resource_tracker|exitcode *:",
    re.IGNORECASE,
)
"""Errors of programs that start others."""
ROOT = re.compile(
    r"illegal (?:memory access|address)|unspecified launch failure"
    r"|\b(?:error|result|code)\s*[=:]?\s*700\b|\bfail(?:ed)?!+[\s\d]*\b700\b|device-side assert(?!ion)"
    r"|\bthread: \[[\d,]+\] Assertion|\bcu(?:Event|Stream|Launch|Memcpy)\w+ failed\b|\bmemcpy failed\b|\bfail to launch kernel\b",
    re.IGNORECASE,
)
"""Errors of a GPU that make everything after them fail, too, allocations among it: the first such line counts."""
NUMBER = re.compile(r"\b700\b")
"""Of the error "illegal address", which names itself nowhere else."""
FOLLOWS = re.compile(
    r"watchdog|ProcessGroupNCCL|NCCL|Connection (?:closed|reset) by peer|^\s*(?:terminate called|Aborted|Segmentation fault|Killed)\b"
    r"|: line \d+: +\d+ [A-Z][\w ]+? {2,}\S",
    re.IGNORECASE,
)
"""What follows from another error: NCCL's watchdog ends ranks, a rank loses another that broke, a process aborts or breaks as it
closes."""
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
    short = [_plain(line) for line in lines]
    raised = _raised(short)
    errors = [
        line
        for place, line in enumerate(short)
        if (place in raised or ERROR.match(RANK.sub("", line))) and not OF_LAUNCHERS.search(line)
    ]
    roots = [line for line in short if ROOT.search(line)]
    causes = roots[:1] or [line for line in errors if not FOLLOWS.search(line)] or errors
    if not causes:
        return next((line.strip() for line in short if _is_of_driver(line)), None)
    of_ranks = [line for line in causes if RANK.match(line)]
    found = (of_ranks[0] if of_ranks else causes[-1]).strip()
    driver = None if DRIVER.search(found) else next((line.strip() for line in short if _is_of_driver(line)), None)
    if ROOT.search(found) and NUMBER.search(found) and "illegal" not in found.lower():
        found = f"{found} (700: illegal address)"
    return found if driver is None else f"{found} (driver: {driver})"


def complaint_of(lines: Sequence[str]) -> str | None:
    """Return the newest line of a program that broke which complains without naming an error; None without one."""
    complaints = [line for line in map(_plain, lines) if COMPLAINT.match(line)]
    return complaints[-1].strip() if complaints else None


def _plain(line: str) -> str:
    """Return the beginning of a line without colours, and without what loggers and groups of exceptions put before it."""
    line = COLOUR.sub("", line[:MOST_SHOWN]).rstrip()
    return STAMP.sub("", MARGIN.sub("", line))


def _is_of_driver(line: str) -> bool:
    """Tell whether a line is a driver's message, not a line of source that a traceback quotes."""
    return DRIVER.search(line) is not None and not line[0].isspace()


def _raised(lines: Sequence[str]) -> set[int]:
    """Return the places of lines that end a traceback of Python's: the exception, whatever its name."""
    places: set[int] = set()
    is_open = False
    for place, line in enumerate(lines):
        text = RANK.sub("", line)
        if TRACEBACK in text and text.lstrip("+ ").startswith((TRACEBACK, f"Exception Group {TRACEBACK}")):
            is_open = True
        elif is_open and text and not text[0].isspace():
            places.add(place)
            is_open = False
    return places


NEEDS_INPUT = re.compile(
    r"\bEOFError\b|EOF when reading a line|\[y/n\]|\[yes/no\]|\((?:y/n|yes/no)\)|\bpass(?:word|phrase)\b[^:]*:\s*$",
    re.IGNORECASE,
)
"""Python's words when it asks and nobody answers, and how questions end."""

NEEDS_TERMINAL = re.compile(
    r"Inappropriate ioctl for device|\bnot a (?:tty|terminal)\b|/dev/tty\b|Error opening terminal|TERM environment variable not set"
    r"|\btermios\.error\b|input device is not a TTY|must be run (?:in|from) a terminal",
    re.IGNORECASE,
)
"""The C library's words for ENOTTY, and those of curses, Docker and others."""


def hint_of(lines: Sequence[str]) -> str | None:
    """Return what a program that ended wanted of a person, as a sentence; None if its newest lines do not say so."""
    if any(NEEDS_TERMINAL.search(line) for line in lines):
        return (
            "It needs a terminal, and gets none: envknee reads what it prints. Take the option that turns its"
            " screen or progress bar off"
        )
    if any(NEEDS_INPUT.search(line) for line in lines):
        return (
            "It asked for input, and gets none: its standard input is empty. Give the answer as an option of the"
            " command, such as --yes, or as an environment variable"
        )
    return None
