"""What a sweep changes of Snakemake's SLURM executor (snakemake-executor-plugin-slurm 2.8.0), in one place.

Input: the executor, once a sweep starts. Output: where jobs print, and an end that takes a second, not up to three minutes.
"""

import asyncio
import getpass
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

from envknee.slurm import facts
from envknee.study.errors import UserError

SLICE_S = 0.5
"""Between two looks at whether the sweep has ended, while the executor sleeps."""


class Executor(Protocol):
    """The parts of the executor that are read or replaced here."""

    run_uuid: str
    """The name of all jobs of a sweep."""
    slurm_logdir: Path
    wait: bool
    """False once the sweep ends: the thread that looks at jobs returns then, after its sleep."""
    next_seconds_between_status_checks: float
    sleep: Callable[[], Any]
    cancel_jobs: Callable[[Sequence[Any]], None]
    _job_submission_executor: ThreadPoolExecutor


def adapt(executor: Executor, logs: Path, tell: Callable[[str], None]) -> None:
    """Make jobs print into `logs`, end with the sweep, and be cancelled by their name; `tell` prints a line."""
    executor.slurm_logdir = logs

    async def sleep() -> None:
        """Sleep between two looks at the jobs, but not longer than the sweep lasts: whoever ends it waits for this."""
        left_s = executor.next_seconds_between_status_checks
        while left_s > 0 and executor.wait:
            await asyncio.sleep(min(SLICE_S, left_s))
            left_s -= SLICE_S

    cancel_known = executor.cancel_jobs

    def cancel_jobs(known: Sequence[Any]) -> None:
        """Cancel the sweep's jobs by their name: the executor knows of none while it looks at them."""
        executor._job_submission_executor.shutdown(cancel_futures=True)  # or jobs would be submitted after this
        try:
            jobs = waiting_or_running(executor.run_uuid)
            count = f"{len(jobs)} job{'' if len(jobs) == 1 else 's'}"
            tell(f"cancelling {count}; what is recorded stays" if jobs else "no job is left to cancel")
            facts.ask(["scancel", f"--user={getpass.getuser()}", f"--name={executor.run_uuid}"])
        except UserError as error:
            tell(f"{error}. Jobs that are left: scancel --name={executor.run_uuid}")
            cancel_known(known)

    executor.sleep, executor.cancel_jobs = sleep, cancel_jobs


def waiting_or_running(run: str) -> list[str]:
    """Return the numbers of a sweep's jobs that have not ended. Raises a UserError if the controller does not answer."""
    return facts.ask(["squeue", "--noheader", f"--user={getpass.getuser()}", f"--name={run}", "--format=%i"]).split()
