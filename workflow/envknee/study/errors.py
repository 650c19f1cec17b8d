"""Errors that a user can act on, printed in one place.

Input: exceptions raised anywhere in a command. Output: one message on stderr and an exit status.
"""

import difflib
import os
import select
import signal
import sys
from collections.abc import Callable, Iterable

EXIT_USER_ERROR = 2
"""Exit status of a command that was stopped by something its user can mend."""


STANDARD_OUTPUT = 1


class UserError(Exception):
    """Something the user can mend. The text states the value, what was expected, and what to do next."""


def nearest(word: str, legal: Iterable[str]) -> str:
    """Return " (did you mean 'x'?)" for the legal word closest to `word`, or "" when none is close."""
    close = difflib.get_close_matches(str(word), [str(candidate) for candidate in legal], n=1, cutoff=0.6)
    return f" (did you mean '{close[0]}'?)" if close else ""


def tell(error: UserError) -> None:
    """Print an error; what it quotes of files cannot steer the terminal."""
    text = "".join(character if character.isprintable() or character in "\n\t" else "?" for character in str(error))
    print(f"envknee: {text}", file=sys.stderr, flush=True)


def run_command(main: Callable[[], int | None], program: str | None = None) -> None:
    """Run a command's `main` and exit: a `UserError` or a failed file operation becomes a message, not a traceback.

    `program` is what a user typed, for argparse's usage line.
    """
    # Before Python 3.14 argparse took the file's name, which nobody types.
    if program is not None:
        sys.argv[0] = program
    elif spec := sys.modules["__main__"].__spec__:
        sys.argv[0] = f"python -m {spec.name.removesuffix('.__main__')}"
    try:
        status = main() or 0
        sys.stdout.flush()
    except UserError as error:
        tell(error)
        status = EXIT_USER_ERROR
    except OSError as error:
        if isinstance(error, BrokenPipeError) and _nobody_reads():
            sys.exit(128 + signal.SIGPIPE)
        what = f"{error.filename}: " if error.filename else ""
        print(
            f"envknee: {what}{error.strerror or error}. Finished trials are untouched;"
            " mend the cause (space, permissions, path) and run the same command again.",
            file=sys.stderr,
        )
        status = EXIT_USER_ERROR
    sys.exit(status)


def _nobody_reads() -> bool:
    """Tell whether whoever read what this process prints has gone (`| head`), and let nothing more be said about that."""
    printed = select.poll()
    printed.register(STANDARD_OUTPUT, 0)
    if not any(events & select.POLLERR for _, events in printed.poll(0)):
        return False
    os.dup2(os.open(os.devnull, os.O_WRONLY), STANDARD_OUTPUT)  # Python flushes once more when it ends
    return True
