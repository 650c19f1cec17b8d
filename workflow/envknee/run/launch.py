"""The launcher of a trial, or of a block: a fresh process group, time limit, exit status, record, and a line of progress.

Input: request.json in a trial's folder. Output: record.json. A trial that has a result is not measured again.

    envknee launch results/<study>/trials/0007
    envknee launch results/<study>/trials/0007 results/<study>/trials/0008     in one process, if all goes well
    envknee launch results/<study>/trials/0007 containers/isaaclab.sif         with runtime: apptainer
    envknee launch results/<study>/trials/0007 results/<study>/image.json      with runtime: docker

Only the trial's process runs in the image; the launcher runs on the host. So locks on GPUs, the time limit and the end of all processes
stay on the host, and Snakemake's option --sdm is not needed.

Exit 0: record.json is there, whatever its status. Exit 2: the trial broke without a result (see trial.log) and may be tried again.
Exit 78: no other attempt would have a result before somebody has mended what is told. Exit 130 or 143: interrupted.
"""

import argparse
import os
import signal
import statistics
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing, nullcontext, suppress
from dataclasses import replace
from pathlib import Path

from envknee.machine import scratch
from envknee.machine.processes import note_pauses, raise_at_signals
from envknee.machine.schema import Image
from envknee.record.schema import Outcome, Record, Request
from envknee.record.trial_files import TrialFiles
from envknee.run import attempts, claim, deadline, ends, mend
from envknee.run.container.enter import entrance_for
from envknee.run.time_left import time_left
from envknee.run.worker import Worker
from envknee.slurm import allocation
from envknee.study import space
from envknee.study.errors import EXIT_USER_ERROR, ToMend, UserError, run_command, tell
from envknee.study.files import read_model
from envknee.study.load import read_study
from envknee.study.model import Study
from envknee.study.paths import StudyFolder, TrialFolder
from envknee.verdict.probes import knee_ahead
from envknee.verdict.schema.foresight import Foresight, KneeForesight
from envknee.words.idle import idle_words
from envknee.words.progress import finished_line, result_words, trial_words
from envknee.words.requests import why


class Interrupted(Exception):
    """A signal asked the launcher to stop; its argument is the signal's number."""


def launch(
    trial: TrialFolder, image: Path | None = None, worker: Worker | None = None, is_locked: bool = False
) -> Record:
    """Measure the trial unless it has an outcome, and write its record.

    `image` is needed if the runtime is not host. `worker` measures the trials of a block or pool; None: one of its own. `is_locked`:
    the caller holds the trial's lock.

    Raises:
        UserError: when the request is missing or broken, the image is missing or differs from that of an existing result, or
            the trial ended without a result.
        Interrupted: on SIGINT or SIGTERM; the trial's processes are gone, finished rows stay in metrics.jsonl.
    """
    files = TrialFiles(trial)
    request = files.read_request()
    entrance = entrance_for(request.runtime, image)
    with nullcontext() if is_locked else claim.only_launcher_of(trial):
        if request.processes > 1 and trial.attempts.exists() and not files.has_outcome():
            ends.merge_ranks(trial, request, wait_s=0.0)  # a launcher that was stopped meanwhile left that undone
        torn = attempts.forget_torn(trial)
        if torn:
            tell(f"{trial.root}: measured again: {torn}. What was there is kept beside it")
            files.set_aside()
        if files.has_outcome():
            outcome = files.read_outcome()
            if not files.is_of_its_request(outcome):
                raise ToMend(
                    f"{trial.root} holds the measurement of another request than its request.json."
                    " Delete that folder to measure this trial again; no other trial is touched."
                )
            _check_measured_in(trial, outcome, entrance.image if entrance else None)
            attempts.settle(trial, gpus=len({device.uuid for device in outcome.gpus}))
        elif request.refusal is not None:
            ends.finish(trial, "refused", why(request.refusal))
        elif request.skip is not None:
            ends.finish(trial, "skipped", why(request.skip))
        else:
            files.set_aside()
            with closing(Worker([trial])) if worker is None else nullcontext(worker) as measuring:
                measuring.measure(trial, request, entrance)
            _tell_of_missing_policy(trial, request)
        return files.write_record()


def _tell_of_missing_policy(trial: TrialFolder, request: Request) -> None:
    """Print a line if a learning trial came to its end, but could not export its policy. Its figures count all the same."""
    outcome = TrialFiles(trial).read_outcome()
    trained = outcome.rollout_gb is not None and outcome.status in ("target_reached", "timeout")
    if request.kind == "learning" and request.exports_policy and trained and not trial.policy.exists():
        print(f"{trial.root}: measured, but its policy was not exported; {trial.log} says why", file=sys.stderr)


def _check_measured_in(trial: TrialFolder, outcome: Outcome, this_image: Image | None) -> None:
    """Make sure that an existing result was measured in the same image: one study needs one image."""
    measured = outcome.environment.image if outcome.environment else None
    if measured and this_image and measured.content_sha256 != this_image.content_sha256:
        raise ToMend(
            f"{trial.root} was measured in another image (content {measured.content_sha256[:12]}, now"
            f" {this_image.content_sha256[:12]}). Change `study:` to a new name and measure all in the new image, or put"
            " the old image back. Nothing measured was touched."
        )


def say_progress(folder: StudyFolder, record: Record, alike: int = 1) -> None:
    """Print the line for a finished trial, or for `alike` trials that were skipped for one reason.

    Without study.json, the line leaves out the study's progress.
    """
    if folder.study.exists():
        study = read_study(folder.study)
        slots = space.plan(study)
        outcomes = {}
        for path in folder.trial_files("outcome.json"):
            with suppress(UserError):  # whoever needs a damaged outcome reports it
                outcomes[int(path.parent.name)] = read_model(path, Outcome, "")
        seconds = {number: outcome.total_s for number, outcome in outcomes.items()}
        skipped = {number for number, outcome in outcomes.items() if outcome.status == "skipped"}
        left = time_left(study, slots, seconds, skipped)
        climbed = _climbed_fps(folder, study, record)
        gain = _gain_of_a_climb(record, climbed)
        foresight = _foresight(record, climbed, study.decide.delta)
        print(finished_line(record, len(outcomes), len(slots), left, alike, gain, foresight), flush=True)
    else:
        print(f"{trial_words(record.request)} → {result_words(record)}", flush=True)
    if record.outcome.idle_gpus:
        print(f"  {idle_words(record.outcome.idle_gpus, record.devices, record.world_size)}", flush=True)


def _climbed_fps(folder: StudyFolder, study: Study, record: Record) -> dict[int, list[float]]:
    """Return num_envs -> FPS of a trial's series so far, in a search that climbs; nothing in another one."""
    request = record.request
    fps: dict[int, list[float]] = {}
    if not study.sections[request.kind].adaptive.ascending or record.fps_total is None:
        return fps
    for path in folder.trial_files("record.json"):
        with suppress(UserError):  # whoever needs a damaged record reports it
            earlier = read_model(path, Record, "")
            is_alike = (earlier.request.arm, earlier.request.kind) == (request.arm, request.kind)
            is_alike = is_alike and replace(earlier.request.point, num_envs=request.num_envs) == request.point
            if is_alike and earlier.fps_total is not None:
                fps.setdefault(earlier.request.num_envs, []).append(earlier.fps_total.median)
    return fps


def _gain_of_a_climb(record: Record, fps: Mapping[int, Sequence[float]]) -> float | None:
    """Return the gain of a trial over those with half as many environments; None without any."""
    half = fps.get(record.request.num_envs // 2)
    return record.fps_total.median / statistics.median(half) - 1.0 if half and record.fps_total is not None else None


def _foresight(record: Record, fps: Mapping[int, Sequence[float]], cut_off: float) -> Foresight | KneeForesight | None:
    """Return what the law predicts after the first trial of the largest size: of two sizes the knee, of four the next doubling."""
    is_first = bool(fps) and record.request.num_envs == max(fps) and len(fps[max(fps)]) == 1
    if not is_first:
        return None
    if (knee := knee_ahead(fps, cut_off)) is not None:
        return knee
    from envknee.verdict.foresight import next_gain  # NumPy and SciPy, which other trials should not pay for

    return next_gain(fps)


def main() -> int:
    """Run one trial, or a block of them, in a fresh process group and write their records."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument(
        "trials", type=Path, nargs="+", metavar="TRIAL",
        help="a folder that holds request.json; behind them the image, if any: a SIF file, or the file that pins one of Docker's",
    )  # fmt: skip
    parser.add_argument("--log", type=Path, help="where to keep a link to the log of the trial that runs")
    arguments = parser.parse_args()
    image = arguments.trials.pop() if arguments.trials[-1].is_file() else None
    trials = [TrialFolder(path) for path in arguments.trials]
    folder = StudyFolder(trials[0].root.parent.parent)
    scratch.use_named_folder()
    raise_at_signals(Interrupted)
    note_pauses()
    errors, skipped = list[UserError](), list[Record]()
    with closing(Worker(trials)) as worker:
        for trial in trials:
            if allocation.is_closing(folder):
                print(f"{trial.root}: not begun, because this job ends soon", file=sys.stderr)
                return EXIT_USER_ERROR
            if deadline.why_not_begun(folder, trial) is not None:
                return EXIT_USER_ERROR  # `knee` says why
            if arguments.log is not None:
                link_log(arguments.log, trial.log)
            try:
                record = launch(trial, image, worker)
            except Interrupted as interrupted:
                name = signal.Signals(interrupted.args[0]).name
                print(f"{trial.root}: stopped by {name}; run the sweep again to go on", file=sys.stderr)
                return 128 + interrupted.args[0]
            except UserError as error:
                tell(error)  # and measure the other trials of the block
                errors.append(error)
            else:
                if skipped and record.request.skip != skipped[-1].request.skip:
                    say_progress(folder, skipped[-1], len(skipped))
                    skipped.clear()
                if record.outcome.status == "skipped":
                    skipped.append(record)
                else:
                    say_progress(folder, record)
    if skipped:
        say_progress(folder, skipped[-1], len(skipped))
    return mend.status_of(errors, arguments.log)


def link_log(link: Path, log: Path) -> None:
    """Make `link` a link to a trial's log. Snakemake removes a rule's log before each run, but only the link is lost."""
    link.unlink(missing_ok=True)
    link.symlink_to(os.path.relpath(log, link.parent))


if __name__ == "__main__":
    run_command(main)
