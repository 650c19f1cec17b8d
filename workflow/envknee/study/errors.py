"""Errors that a user can act on."""

import difflib
import os
import select
import signal
import sys
import unicodedata
from collections.abc import Callable, Iterable

EXIT_USER_ERROR = 2
"""Exit status after a `UserError`."""

STANDARD_OUTPUT = 1

CONTROL = ("Cc", "Cf", "Co", "Cs", "Zl", "Zp")
"""Unicode's categories of control, format, private and surrogate characters, and of line separators."""


EXIT_CRASHED = 3
"""Exit status of a trial's process after a `Crash`."""

EXIT_WORSE = 3
"""Exit status of a gate that fails."""

EXIT_UNDECIDED = 4
"""Exit status where measurements do not decide the question."""
EXIT_TO_MEND = 78
"""Exit status after a `ToMend`: EX_CONFIG of sysexits.h, which no library uses by chance."""


class UserError(Exception):
    """An error that the user can fix. The text states the value, what was expected, and what to do next."""

    exit_status = EXIT_USER_ERROR


class ToMend(UserError):
    """An error that every further attempt would meet again: nothing is tried once more before somebody has mended it."""

    exit_status = EXIT_TO_MEND


class TryAgain(UserError):
    """An error that says nothing of the next attempt, such as a pause."""


class Crash(UserError):
    """A program broke without a result. The first line of the text is the line of its log that says why."""

    exit_status = EXIT_CRASHED


def nearest(word: str, legal: Iterable[str]) -> str:
    """Return " (did you mean 'x'?)" for the legal word closest to `word`, or "" when none is close."""
    close = closest(word, legal)
    return "" if close is None else f" (did you mean '{close}'?)"


def closest(word: str, legal: Iterable[str]) -> str | None:
    """Return the legal word closest to `word`, or None when none is close."""
    close = difflib.get_close_matches(str(word), [str(candidate) for candidate in legal], n=1, cutoff=0.6)
    return close[0] if close else None


def printable(text: str, kept: str = "") -> str:
    """Return text that cannot move a terminal's cursor, change its colours or reverse text: without control characters.

    Line breaks and tabs become spaces, except those in `kept`.
    """

    def shown(character: str) -> str:
        if character in kept or unicodedata.category(character) not in CONTROL:
            return character
        return " " if character in "\n\r\t" else ""

    return "".join(map(shown, text))


def tell(error: object) -> None:
    """Print an error on stderr, without the control characters of files that it quotes."""
    print("envknee:", printable(str(error), kept="\n\t"), file=sys.stderr, flush=True)


def run_command(main: Callable[[], int | None], program: str | None = None) -> None:
    """Run a command's `main` and exit. A `UserError` or a failed file operation becomes a message, not a traceback.

    `program` is what a user typed, for argparse's usage line.
    """
    # Before Python 3.14, argparse shows the file's name, which nobody types.
    if program is not None:
        sys.argv[0] = program
    elif spec := sys.modules["__main__"].__spec__:
        sys.argv[0] = f"python -m {spec.name.removesuffix('.__main__')}"
    try:
        status = main() or 0
        sys.stdout.flush()
    except UserError as error:
        tell(error)
        status = error.exit_status
    except OSError as error:
        if isinstance(error, BrokenPipeError) and _nobody_reads():
            sys.exit(128 + signal.SIGPIPE)
        what = f"{error.filename}: " if error.filename else ""
        tell(
            f"{what}{error.strerror or error}. Finished trials are untouched;"
            " mend the cause (space, permissions, path) and run the same command again."
        )
        status = EXIT_USER_ERROR
    sys.exit(status)


def _nobody_reads() -> bool:
    """Tell whether the reader of standard output has gone (`| head`). If so, discard what Python still prints."""
    printed = select.poll()
    printed.register(STANDARD_OUTPUT, 0)
    if not any(events & select.POLLERR for _, events in printed.poll(0)):
        return False
    os.dup2(os.open(os.devnull, os.O_WRONLY), STANDARD_OUTPUT)  # Python flushes once more when it ends
    return True
