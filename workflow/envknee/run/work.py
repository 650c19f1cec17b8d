"""A worker: one process on one device, which asks for the trials of a pool as it goes, and measures one after the other.

Input: the folder of a study with `workers` in a section, and the number of a pool's first trial. Output: request.json and record.json of
trials.

    envknee work results/<study> 0                                 the pool that begins with trial 0
    envknee work results/<study> 0 containers/isaaclab.sif         with runtime: apptainer

Any number of workers may run, on any machines that share the folder; one alone finishes the pool. Trials of an arm share processes, which
start once. A worker keeps its devices until it ends.

Exit 0: every trial of the pool has a record. Exit 2: a trial ended without a result, and nothing else is left for this worker. Exit 78:
nothing is left before somebody has mended what is told. Exit 130 or 143: interrupted.
"""

import argparse
import os
import signal
import sys
import time
from contextlib import ExitStack
from pathlib import Path

from envknee.machine import gpus, scratch
from envknee.machine.processes import note_pauses, raise_at_signals
from envknee.record.schema import Record
from envknee.record.trial_files import TrialFiles
from envknee.run import cost, deadline, mend
from envknee.run.launch import Interrupted, launch, link_log, say_progress
from envknee.run.pool import NoTrial, Pool
from envknee.run.resources import gpus_here
from envknee.run.worker import Worker
from envknee.slurm import allocation
from envknee.study.errors import EXIT_USER_ERROR, ToMend, UserError, run_command, tell
from envknee.study.load import read_study
from envknee.study.model import Study
from envknee.study.paths import StudyFolder, TrialFolder
from envknee.study.space import Slot
from envknee.study.strategies import STRATEGIES

POLL_S = 0.3
"""Between two looks for a trial while others measure those that must come first."""


MOST_TRIES = 2
"""How often a worker tries a trial that ends without a result: as often as the job of a trial alone."""


class Processes:
    """The processes in which a worker measures: those of one arm at a time."""

    def __init__(self, study: Study, pool: Pool, costs: cost.Costs) -> None:
        self._study, self._pool, self._costs = study, pool, costs
        self._worker: Worker | None = None
        self.arm: str | None = None
        """The arm whose processes may go on with another trial."""

    def of(self, slot: Slot) -> Worker:
        """Return what measures a trial: processes that measured others of its arm, or new ones where its arm cannot share any."""
        shares = self._study.shares_processes(slot.arm)
        if self._worker is None or self.arm != slot.arm:
            self.close()
            trials = self._pool.of_arm(slot.arm) if shares else [self._pool.trial(slot)]
            self._worker = Worker(trials, in_turns=shares, costs=self._costs)
            self.arm = slot.arm if shares else None
        return self._worker

    def end_unshared(self) -> None:
        """End processes that cannot measure another trial."""
        if self.arm is None:
            self.close()

    def close(self) -> None:
        """End all."""
        if self._worker is not None:
            self._worker.close()
        self._worker = self.arm = None


def remake_records(pool: Pool, image: Path | None) -> None:
    """Write the records of trials that have a result and no record. Nothing is measured."""
    with pool.remakeable() as trials:
        for trial in trials:
            launch(trial, image, is_locked=True)


def work(study: Study, folder: StudyFolder, number: int, image: Path | None = None, log: Path | None = None) -> int:
    """Measure trials of a pool until all have records, or nothing is left for this worker; return the exit status.

    Raises:
        UserError: when there is no such pool.
        ToMend: when there is no device for it.
        Interrupted: on SIGINT or SIGTERM.
    """
    parent = os.getppid()
    pool = Pool(study, folder, number)
    with pool.locked():
        pool.forget_torn()
        remake_records(pool, image)
    if not pool.unrecorded():
        return 0
    arm = study.arms[pool.slots[0].arm]
    # Before the first trial is taken: whoever waits for a device must keep no trial from others.
    with gpus.reserved_for(gpus_here(arm), STRATEGIES[arm.strategy].gpus_of_auto) as uuids, ExitStack() as ends:
        ends.callback(pool.leave_lane)
        processes = Processes(study, pool, cost.Costs(uuids))
        ends.callback(processes.close)
        return _measure_all(pool, folder, processes, image, log, parent)


def _measure_all(
    pool: Pool, folder: StudyFolder, processes: Processes, image: Path | None, log: Path | None, parent: int
) -> int:
    errors: dict[int, list[UserError]] = {}
    skipped = list[Record]()
    while True:
        if os.getppid() != parent or allocation.is_closing(folder):
            tell(
                f"{folder.root}: no further trial begins here: what started this worker has ended, or its job ends soon"
            )
            return EXIT_USER_ERROR
        given_up = {number for number, met in errors.items() if len(met) >= MOST_TRIES or isinstance(met[-1], ToMend)}
        result: Record | UserError | None = None
        time_over = None
        with pool.next_trial(given_up, processes.arm) as found:
            if isinstance(found, Slot):
                time_over = deadline.why_not_begun(folder, pool.trial(found))
            if isinstance(found, Slot) and time_over is None:
                trial = pool.trial(found)
                result = _measured(trial, processes.of(found) if _is_run(trial) else None, image, log)
                processes.end_unshared()
        if time_over is not None:
            _say_skipped(folder, skipped)
            return EXIT_USER_ERROR
        if isinstance(found, NoTrial):
            _say_skipped(folder, skipped)
            if found is NoTrial.ALL_MEASURED:
                return 0
            if found is NoTrial.NONE_LEFT:
                tell(f"{folder.root}: this worker ends, because {found.value}. Run the sweep again to go on")
                return mend.status_of([errors[number][-1] for number in given_up], log) or EXIT_USER_ERROR
            time.sleep(POLL_S)
        elif isinstance(result, Record):
            _say_measured(folder, result, skipped)
        elif result is not None:
            _say_skipped(folder, skipped)
            errors.setdefault(found.number, []).append(result)


def _is_run(trial: TrialFolder) -> bool:
    """Tell whether a trial is measured. One that is skipped or refused needs no processes, and those of another arm go on."""
    request = TrialFiles(trial).read_request()
    return request.skip is None and request.refusal is None


def _measured(trial: TrialFolder, worker: Worker | None, image: Path | None, log: Path | None) -> Record | UserError:
    """Measure a trial that is locked here, and return its record; the error, which is told, if it ended without a result."""
    if log is not None:
        link_log(log, trial.log)
    try:
        return launch(trial, image, worker, is_locked=True)
    except UserError as error:
        tell(error)
        return error


def _say_measured(folder: StudyFolder, record: Record, skipped: list[Record]) -> None:
    """Print the line of a trial that has a record; one that was skipped waits in `skipped` for others that have the same reason."""
    if skipped and record.request.skip != skipped[-1].request.skip:
        _say_skipped(folder, skipped)
    if record.outcome.status == "skipped":
        skipped.append(record)
    else:
        say_progress(folder, record)


def _say_skipped(folder: StudyFolder, skipped: list[Record]) -> None:
    """Print a line for successive trials that were skipped for one reason, and forget them."""
    if skipped:
        say_progress(folder, skipped[-1], len(skipped))
        skipped.clear()


def parser_of_pool(description: str | None) -> argparse.ArgumentParser:
    """Return a parser of what names a pool: the study's folder, the pool's number, and the image."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("folder", type=Path, help="the study's results, results/<study>")
    parser.add_argument("pool", type=int, help="the number of the pool's first trial")
    parser.add_argument(
        "image", type=Path, nargs="?", help="the image, if any: a SIF file, or the file that pins one of Docker's"
    )
    return parser


def main() -> int:
    """Ask for trials of a pool and measure them, one after the other, until all have records."""
    parser = parser_of_pool(main.__doc__)
    parser.add_argument("--log", type=Path, help="where to keep a link to the log of the trial that runs")
    arguments = parser.parse_args()
    folder = StudyFolder(arguments.folder)
    study = read_study(folder.study)
    scratch.use_named_folder()
    raise_at_signals(Interrupted)
    note_pauses()
    try:
        return work(study, folder, arguments.pool, arguments.image, arguments.log)
    except ToMend as error:
        mend.note(arguments.log, error)
        raise
    except Interrupted as interrupted:
        name = signal.Signals(interrupted.args[0]).name
        print(f"{folder.root}: a worker was stopped by {name}; run the sweep again to go on", file=sys.stderr)
        return 128 + interrupted.args[0]


if __name__ == "__main__":
    run_command(main)
