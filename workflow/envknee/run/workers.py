"""The workers of a pool on one machine or allocation, from their start to their end; or what waits for those that are jobs of a cluster.

Input: the folder of a study with `workers` in a section, and the number of a pool's first trial. Output: record.json of all its trials.

    envknee workers results/<study> 0 --workers 2            starts two (`envknee work`) and waits for them
    envknee workers results/<study> 0 --workers 2 --elsewhere     waits for the records of two that are started elsewhere

Exit 0: every trial of the pool has a record. Otherwise the status of a worker that ended badly.
"""

import logging
import shlex
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from snakemake_interface_logger_plugins.common import LogEvent

from envknee.machine.processes import raise_at_signals
from envknee.run import mend
from envknee.run.launch import Interrupted
from envknee.run.pool import Pool
from envknee.run.work import parser_of_pool, remake_records
from envknee.study.errors import EXIT_USER_ERROR, UserError, run_command, tell
from envknee.study.load import read_study
from envknee.study.model import Study
from envknee.study.paths import StudyFolder

POLL_S = 0.2
"""Between two looks at workers of this machine."""

POLL_ELSEWHERE_S = 2.0
"""Between two looks at the records of workers elsewhere."""

GIVEN_UP = ".given-up-"
"""Start of the name of a mark in the study's folder; the worker's rule follows."""

IDLE_S = 60.0
"""After a worker was given up, no other one measures if no trial was locked for this long."""


class GivenUp(logging.Handler):
    """Leaves a mark for each worker that broke, as a job of a cluster, and is not tried again.

    Whoever waits for its records learns of that by the mark alone: Snakemake, which knows it, waits for whoever waits.
    """

    def __init__(self, folder: StudyFolder, tries: int) -> None:
        """`tries` is how often a job that broke is started again."""
        super().__init__()
        self._folder, self._tries = folder, tries
        self._broke = Counter[str]()

    def emit(self, record: logging.LogRecord) -> None:
        """Count a job's failure, as Snakemake's logger plugins get it."""
        rule = str(getattr(record, "rule_name", None))
        if getattr(record, "event", None) == LogEvent.JOB_ERROR and rule.startswith("worker_"):
            self._broke[rule] += 1
            if self._broke[rule] > self._tries or mend.noted(mend.logs_of(record)):
                (self._folder.root / f"{GIVEN_UP}{rule}").touch()


def forget_given_up(folder: StudyFolder) -> None:
    """Remove the marks of an earlier sweep."""
    for mark in folder.root.glob(f"{GIVEN_UP}*"):
        mark.unlink()


def check_devices(study: Study, devices: int, more: str) -> None:
    """Make sure that each worker of a study gets devices of its own, of the `devices` that a sweep may use.

    Raises:
        UserError: when there are too many workers; it says how a sweep may use `more`.
    """
    for kind, sweep in study.sections.items():
        if sweep.workers is None:
            continue
        each = study.worker_devices
        if sweep.workers * each > devices:
            raise UserError(
                f"{kind}.workers {sweep.workers} need {sweep.workers * each} devices (GPUs, or a CPU as one), and this sweep may use"
                f" {devices}. Set workers: {max(1, devices // each)}, or {more}"
            )


def start(words: Sequence[str], step: str, workers: int, log: Path | None) -> list["subprocess.Popen[bytes]"]:
    """Start workers, each in a step if `step` has the words before its command."""
    command = [*shlex.split(step), sys.executable, "-m", "envknee", "work", *words]
    log_options = [["--log", str(own)] for own in logs_of_workers(log, workers)] if log else [[]] * workers
    return [subprocess.Popen([*command, *log_option]) for log_option in log_options]


def logs_of_workers(log: Path, workers: int) -> list[Path]:
    """Return the log of each worker, beside the one of their rule."""
    return [log.with_name(f"{log.stem}-{worker}.log") for worker in range(workers)]


def wait(processes: Sequence["subprocess.Popen[bytes]"]) -> list[int]:
    """Wait until all workers have ended, and return their exit statuses. An interruption reaches all of them.

    Raises:
        Interrupted: on SIGINT or SIGTERM, when all have ended.
    """
    try:
        while any(process.poll() is None for process in processes):
            time.sleep(POLL_S)
    except Interrupted:
        for process in processes:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in processes:
            process.wait()
        raise
    return [process.returncode for process in processes]


def wait_elsewhere(folder: StudyFolder, pool: Pool, image: Path | None) -> int:
    """Wait until all trials have records, or a worker was given up and no other one measures; return the exit status."""
    busy_s = time.monotonic()
    while True:
        with pool.locked():
            remake_records(pool, image)
        if not pool.unrecorded():
            return 0
        given_up = any(folder.root.glob(f"{GIVEN_UP}*"))
        if not given_up or pool.is_measured_now():
            busy_s = time.monotonic()
        if time.monotonic() - busy_s > IDLE_S:
            tell(
                f"{folder.root}: workers have ended before every trial was measured, and none measures now. Run the sweep again to go on"
            )
            return EXIT_USER_ERROR
        time.sleep(POLL_ELSEWHERE_S)


def main() -> int:
    """Start the workers of a pool, and wait until its trials have records."""
    parser = parser_of_pool(main.__doc__)
    parser.add_argument("--workers", type=int, required=True, help="how many measure side by side")
    parser.add_argument("--elsewhere", action="store_true", help="start none: they are jobs of a cluster")
    parser.add_argument("--step", default="", help="words before each worker's command, such as srun and its options")
    parser.add_argument(
        "--log", type=Path, help="where workers keep links to the logs of trials that run: NAME-0.log, NAME-1.log, ..."
    )
    given = parser.parse_args()
    folder = StudyFolder(given.folder)
    raise_at_signals(Interrupted)
    pool = Pool(read_study(folder.study), folder, given.pool)
    try:
        if given.elsewhere:
            return wait_elsewhere(folder, pool, given.image)
        words = [str(given.folder), str(given.pool), *([] if given.image is None else [str(given.image)])]
        statuses = wait(start(words, given.step, given.workers, given.log))
        if given.log is not None and (error := mend.noted(logs_of_workers(given.log, given.workers))):
            mend.note(given.log, error)
    except Interrupted as interrupted:
        return 128 + interrupted.args[0]
    if not pool.unrecorded():
        return 0
    return next((abs(status) for status in statuses if status), EXIT_USER_ERROR)


if __name__ == "__main__":
    run_command(main)
