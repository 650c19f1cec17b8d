"""Errors that somebody has to mend, passed from a job to the sweep that started it, which then tries nothing again.

Input: the log of a rule. Output: a file beside it with the error's text, and a sentence on the sweep's terminal.

A job of a cluster ends with Snakemake's exit status and prints into a file on its node's behalf: neither tells the sweep why it ended.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from snakemake_interface_logger_plugins.common import LogEvent

from envknee.study.errors import EXIT_TO_MEND, EXIT_USER_ERROR, ToMend, UserError

SUFFIX = ".mend"
"""End of the name of a file beside a rule's log."""


def _beside(log: Path) -> Path:
    return log.with_suffix(SUFFIX)


def note(log: Path | None, error: object) -> None:
    """Leave an error beside the log of a rule; nothing for a command that no rule started."""
    if log is not None:
        _beside(log).write_text(f"{error}\n", encoding="utf-8")


def status_of(errors: Sequence[UserError], log: Path | None) -> int:
    """Return the exit status of a command that met these errors. If all of them are to mend, the first is left beside its rule's log."""
    if not errors:
        return 0
    if not all(isinstance(error, ToMend) for error in errors):
        return EXIT_USER_ERROR
    note(log, errors[0])
    return EXIT_TO_MEND


def noted(logs: Iterable[Path]) -> str | None:
    """Return the first error that was left beside one of these logs."""
    for log in logs:
        if _beside(log).is_file():
            return _beside(log).read_text(encoding="utf-8").strip()
    return None


def forget(folder: Path) -> None:
    """Remove what an earlier sweep left beside logs in a folder."""
    for path in folder.glob(f"*{SUFFIX}"):
        path.unlink(missing_ok=True)


class NotAgain(logging.Handler):
    """Ends the retries of a job that left an error to mend."""

    def __init__(self, give_up: Callable[[int], None]) -> None:
        """`give_up` takes Snakemake's number of a job that must not be tried again."""
        super().__init__()
        self._give_up = give_up

    def emit(self, record: logging.LogRecord) -> None:
        """Look for an error beside the logs of a job that failed. Snakemake decides on a retry after this message."""
        if getattr(record, "event", None) == LogEvent.JOB_ERROR and noted(logs_of(record)) is not None:
            self._give_up(getattr(record, "jobid", -1))


def logs_of(record: logging.LogRecord) -> list[Path]:
    """Return the logs that Snakemake's message of a failed job names: the rule's own, and its job's on a cluster."""
    return [Path(name) for name in getattr(record, "log", None) or ()]
