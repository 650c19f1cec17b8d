"""What a sweep's terminal shows of Snakemake's messages: nothing between trials, why a job failed, and the plan of a dry run.

Input: log records of Snakemake's logger, with events as its logger plugins get them. Output: lines.
"""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

from snakemake_interface_logger_plugins.common import LogEvent

from envknee.run import mend
from envknee.study.errors import printable

BETWEEN_TRIALS = ("Select jobs to execute", "Execute ", "Singularity containers")
"""How messages begin that Snakemake prints for each job, and the one on a container that nobody asked for."""

OF_THE_EXECUTOR = ("No SLURM account given", "Unable to guess SLURM account", "MinJobAge ")
"""How messages of the SLURM executor begin on what is settled: accounts were compared before, and slurm/bin/sacct asks squeue."""

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


AT_STOP = "Terminating processes on user request"
"""How Snakemake's answer to Ctrl-C begins."""

AFTER_STOP = (
    "WorkflowError:\nAt least one job did not complete",
    "RuleException",
    "Removing output files of failed job",
    "Exiting because a job execution failed",
)
"""How messages begin that call it an error when a person has stopped the sweep."""


class Stopped(logging.Filter):
    """Says what Ctrl-C does, and leaves out what Snakemake then calls an error."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        """`tell` prints a line."""
        super().__init__()
        self._tell = tell
        self.is_stopped = False
        """Whether a person has stopped the sweep."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Tell whether a message is shown. Changes nothing of it."""
        message = record.getMessage()
        if message.startswith(AT_STOP):
            self.is_stopped = True
            self._tell("stopping")
            return False
        return not (self.is_stopped and message.startswith(AFTER_STOP))


class BetweenTrials(logging.Filter):
    """Leaves out what Snakemake says between two trials, which print a line each."""

    def __init__(self, is_closing: Callable[[], bool]) -> None:
        """`is_closing` tells whether the sweep ends because its allocation or its time does."""
        super().__init__()
        self._is_closing = is_closing

    def filter(self, record: logging.LogRecord) -> bool:
        """Tell whether a message is shown. Changes nothing of it."""
        left_out = BETWEEN_TRIALS + OF_THE_EXECUTOR + (AT_CLOSING if self._is_closing() else ())
        return not record.getMessage().startswith(left_out)


SEE_ELSEWHERE = "For further error details see the cluster/cloud log and the log files of the involved rule(s)."
"""What Snakemake's executors add to each reason, whether there is such a log or not."""


class FailedJobs(logging.Handler):
    """Prints in a line why a job failed, such as what SLURM says of it: with `quiet: rules` Snakemake prints nothing of that."""

    def __init__(self, stream: TextIO) -> None:
        """Print to `stream`."""
        super().__init__()
        self._stream = stream

    def emit(self, record: logging.LogRecord) -> None:
        """Print the first line of the reason, if this is a failed job's message: the job's own words, or else what SLURM says."""
        if getattr(record, "event", None) != LogEvent.JOB_ERROR:
            return
        job, logs = getattr(record, "rule_name", None), mend.logs_of(record)
        reason = getattr(record, "rule_msg", None)
        if not reason:  # a job of this machine, which has said it on the same terminal
            return
        if (told := mend.noted(logs)) is not None:
            self._print(f"a job of {job!r} failed, and is not tried again before you mend this: {told}")
            return
        said = reason.replace(SEE_ELSEWHERE, "").strip().splitlines()[:1]
        there = " and ".join(_from_here(log) for log in logs if log.exists())
        self._print(f"a job of {job!r} failed: {' '.join([*said, *([f'See {there}'] if there else [])])}")

    def _print(self, line: str) -> None:
        text = printable(line, kept="\n\t")
        print("envknee:", text, file=self._stream, flush=True)


def _from_here(path: Path) -> str:
    """Return a path as seen from the working directory, if it is below that."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


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
