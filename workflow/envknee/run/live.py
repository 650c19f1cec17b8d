"""Runs Snakemake with a process beside it, which shows a live view on a terminal and refreshes the report.

Input: Snakemake's command line, and the study's folder. Output: Snakemake's exit status. With a live view its lines go to logs/sweep.log,
and the last of them are shown if it fails. Without one they are printed as ever. The process beside it is
`envknee.show.watch.beside`, of which nothing here depends: the sweep goes on without it.

    python -m envknee.run.live [--plain] results/<study> snakemake ...     what `make sweep` calls
"""

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, NamedTuple

from envknee.machine.processes import dying_with_parent
from envknee.run.tail import Tail
from envknee.study.errors import printable, run_command, tell
from envknee.study.files import make_folder
from envknee.study.paths import StudyFolder

OPTIONS_OF_A_SWEEP = frozenset(
    (
        "--snakefile", "--directory", "--workflow-profile", "--profile", "--configfile", "--config", "-C", "--resources", "--cores", "-c",
        "--jobs", "-j", "--keep-going", "-k", "--retries", "-T", "--latency-wait", "-w",
    )
)  # fmt: skip
"""Options with which Snakemake measures. With any other it may print something else, such as a plan: that stays as it is."""

LOWEST_PRIORITY = 19
"""Niceness of the process beside the sweep: trials go first."""

ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""Variables that keep that process to one core."""

POLL_S = 0.5
"""Between two looks whether Snakemake has ended."""

END_S = 30.0
"""How long the view may take for its last picture."""

MOST_LAST_LINES = 20
"""Lines that are shown of the log of a sweep that failed."""

OF_A_TRIAL = re.compile(r"\[ *\d+/\d+\] ")
"""How the line of a trial that ended begins."""


def measures(words: Sequence[str]) -> bool:
    """Tell whether Snakemake measures with these words behind its name, and prints nothing else. Pure."""
    return all(word.partition("=")[0] in OPTIONS_OF_A_SWEEP for word in words if word.startswith("-"))


def shows_view(is_plain: bool, is_terminal: bool, environment: Mapping[str, str]) -> bool:
    """Tell whether a sweep shows the live view: on a terminal that can move its cursor, and not under CI. Pure."""
    return not is_plain and is_terminal and environment.get("TERM", "dumb") != "dumb" and not environment.get("CI")


def last_lines(log: Sequence[str]) -> list[str]:
    """Return what a log ends with that is no trial's result, at most `MOST_LAST_LINES` lines: why the sweep failed. Pure."""
    lines = [line for line in log if line.strip()]
    trials = [place for place, line in enumerate(lines) if OF_A_TRIAL.match(line)]
    first = trials[-1] + 1 if trials else 0
    return lines[first:][-MOST_LAST_LINES:]


def why_ended(errors: str) -> str:
    """Return a line that says why a program of envknee has ended: its message, or the last line of a traceback. Pure."""
    lines = errors.strip().splitlines()
    told = [line.removeprefix("envknee: ") for line in lines if line.startswith("envknee: ")]
    return [*lines[-1:], *told[:1]][-1] if lines else "it was killed"


@contextmanager
def interrupts_left_to_children() -> Iterator[threading.Event]:
    """Let Ctrl-C end the programs that this process waits for, and not this process. Yields what is set when it was pressed."""
    pressed = threading.Event()
    signal.signal(signal.SIGINT, lambda *_: pressed.set())  # a handler, which a child process does not inherit
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def start(
    command: Sequence[str], printed: IO[bytes] | None = None, environment: Mapping[str, str] | None = None
) -> "subprocess.Popen[bytes]":
    """Start Snakemake, which prints into `printed` if that is given.

    If this process is killed, Snakemake gets SIGTERM: its jobs that run come to their end, and no further one begins.
    """
    words = [*dying_with_parent("TERM"), *command]
    return subprocess.Popen(words, stdout=printed, stderr=printed, env=environment)


def run(command: Sequence[str], snakemake_words: Sequence[str], folder: StudyFolder, is_plain: bool) -> int:
    """Run Snakemake until it ends, and return its exit status. `command` ends with the words behind Snakemake's name."""
    if not measures(snakemake_words):
        with interrupts_left_to_children():
            return start(command).wait()
    if not shows_view(is_plain, sys.stdout.isatty() and sys.stderr.isatty(), os.environ):
        return _run_beside(command, folder, None).status
    log = folder.root / "logs" / "sweep.log"
    make_folder(log.parent)
    log.touch()
    began = log.stat().st_size
    print(f"envknee: Snakemake's lines go to {log}", flush=True)
    status, is_stopped = _run_beside(command, folder, log)
    if status and not is_stopped:
        print(f"envknee: the sweep ended with status {status}. The end of {log}:", file=sys.stderr)
        for line in last_lines(Tail(log, began).lines()):
            print(printable(line), file=sys.stderr, flush=True)
    elif not status and folder.verdict.exists():
        subprocess.run([sys.executable, "-m", "envknee", "summary", str(folder.root)], check=False)
    return status


class _Ended(NamedTuple):
    """How Snakemake ended."""

    status: int
    is_stopped: bool
    """Whether a person pressed Ctrl-C. The view has shown what Snakemake says then."""


def _run_beside(command: Sequence[str], folder: StudyFolder, log: Path | None) -> _Ended:
    """Run Snakemake and the process beside it; with a `log`, Snakemake prints there, and that process draws."""
    view = [] if log is None else ["--log", str(log), "--from", str(log.stat().st_size)]
    words = [sys.executable, "-m", "envknee.show.watch.beside", str(folder.root), *view]
    with ExitStack() as files:
        errors = files.enter_context(tempfile.TemporaryFile())
        printed = None if log is None else files.enter_context(log.open("ab"))
        # A child process inherits that: the view shows how the sweep ends.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        # It ends when its standard input does, even if this process is killed.
        beside = subprocess.Popen(words, stdin=subprocess.PIPE, stderr=errors, env=os.environ | ONE_THREAD)
        os.setpriority(os.PRIO_PROCESS, beside.pid, LOWEST_PRIORITY)
        with interrupts_left_to_children() as pressed:
            snakemake = start(command, printed)
            while snakemake.poll() is None and beside.poll() is None:
                time.sleep(POLL_S)
            if beside.poll() is None:
                _end(beside)
            else:
                _go_on_without(snakemake, errors, log)
    return _Ended(snakemake.returncode, pressed.is_set())


def _end(beside: "subprocess.Popen[bytes]") -> None:
    """Let the process beside the sweep draw its last picture, and end."""
    assert beside.stdin is not None
    beside.stdin.close()
    try:
        beside.wait(END_S)
    except subprocess.TimeoutExpired:
        beside.kill()
        beside.wait()


def _go_on_without(snakemake: "subprocess.Popen[bytes]", errors: IO[bytes], log: Path | None) -> None:
    """Say why the process beside Snakemake has ended, and wait for Snakemake. What is added to its log is printed."""
    errors.seek(0)
    why = why_ended(errors.read().decode("utf-8", errors="replace"))
    if log is None:
        tell(f"the report is not refreshed any more ({why}). The sweep goes on")
        snakemake.wait()
        return
    tail = Tail(log, log.stat().st_size)
    print("\033[?25h", flush=True)  # the cursor, which a view that is killed leaves hidden
    tell(f"the live view has ended ({why}). The sweep goes on, and its lines follow")
    has_ended = False
    while not has_ended:
        has_ended = snakemake.poll() is not None
        for line in tail.lines():
            print(printable(line), flush=True)
        time.sleep(0.0 if has_ended else POLL_S)


def main() -> int:
    """Run a command of Snakemake with a live view beside it."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--plain", action="store_true", help="print Snakemake's lines, on a terminal, too")
    parser.add_argument("folder", type=Path, help="the folder of the study")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="snakemake, and its options")
    given = parser.parse_args()
    return run(given.command, given.command[1:], StudyFolder(given.folder), given.plain)


if __name__ == "__main__":
    run_command(main)
