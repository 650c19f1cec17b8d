"""What a sweep's terminal shows of Snakemake's messages: nothing between trials, why a job failed, and the plan of a dry run.

Input: log records of Snakemake's logger, with events as its logger plugins get them. Output: lines.
"""

import logging
from collections.abc import Callable
from typing import TextIO

from snakemake_interface_logger_plugins.common import LogEvent

BETWEEN_TRIALS = ("Select jobs to execute", "Execute ", "Singularity containers")
"""How messages begin that Snakemake prints for each job, and the one on a container that nobody asked for."""

AT_CLOSING = (
    "RuleException",
    "Removing output files of failed job",
    "Trying to restart job",
    "Will exit after",
    "Shutting down, this might take some time",
    "Exiting because a job execution failed",
    "WorkflowError:\nAt least one job did not complete successfully",
)
"""How messages begin that call it an error when trials stop because their allocation or their time ends."""


class BetweenTrials(logging.Filter):
    """Leaves out what Snakemake says between two trials, which print a line each."""

    def __init__(self, is_closing: Callable[[], bool]) -> None:
        """`is_closing` tells whether the sweep ends because its allocation or its time does."""
        super().__init__()
        self._is_closing = is_closing

    def filter(self, record: logging.LogRecord) -> bool:
        """Tell whether a message is shown. Changes nothing of it."""
        left_out = BETWEEN_TRIALS + (AT_CLOSING if self._is_closing() else ())
        return not record.getMessage().startswith(left_out)


class FailedJobs(logging.Handler):
    """Prints in a line why a job failed, such as what SLURM says of it: with `quiet: rules` Snakemake prints nothing of that."""

    def __init__(self, stream: TextIO) -> None:
        """Print to `stream`."""
        super().__init__()
        self._stream = stream

    def emit(self, record: logging.LogRecord) -> None:
        """Print the first line of the reason, if this is a failed job's message."""
        reason = getattr(record, "rule_msg", None)
        if getattr(record, "event", None) == LogEvent.JOB_ERROR and reason:
            job = getattr(record, "rule_name", None)
            print(f"envknee: a job of {job!r} failed: {reason.splitlines()[0]}", file=self._stream, flush=True)


class DryRun(logging.Handler):
    """Prints once how many jobs would run, behind the plan of the study: with `quiet: progress` Snakemake does not."""

    def __init__(
        self, is_dry_run: Callable[[], bool], tell_plan: Callable[[Callable[[str], None]], None], stream: TextIO
    ) -> None:
        """Print to `stream`, first what `tell_plan` passes on."""
        super().__init__()
        self._is_dry_run = is_dry_run
        self._stream = stream
        self._tell_plan = tell_plan
        self._printed: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        """Print the table of jobs, which Snakemake sends at the beginning and at the end."""
        if getattr(record, "event", None) != LogEvent.RUN_INFO or not self._is_dry_run():
            return
        if not self._printed:
            self._tell_plan(self._print)
        table = record.getMessage()
        if table not in self._printed:
            self._print(table)
        self._printed.add(table)

    def _print(self, line: str) -> None:
        print(line, file=self._stream, flush=True)
