"""Outcomes of trials: when it ends in its own process, in several ranks, or in neither."""

import re
import shutil
import signal
import time
from typing import Any

from envknee.measure import ranks
from envknee.record.read import read_rows
from envknee.record.schema import Failure, Outcome, Request
from envknee.record.status import Status
from envknee.record.trial_files import TrialFiles
from envknee.run import attempts, outside
from envknee.study.errors import EXIT_CRASHED, EXIT_TO_MEND, EXIT_USER_ERROR
from envknee.study.files import sha256_of, sync
from envknee.study.paths import TrialFolder
from envknee.trainers.command import bounded, telling

POLL_S = 0.2
"""Between two looks at whether the ranks of other machines have written how they ended."""

TO_MEND = re.compile(rf"\bexitcode\s*: {EXIT_TO_MEND} \(pid: |\bExited with exit code {EXIT_TO_MEND}$")
"""How torchrun 2.11 and srun 22.05 name the exit status of the rank or node that ended first; they have one of their own."""

FULL_DISK_BYTES = 100_000
"""With less free space, a trial cannot write its rows."""


def merge_ranks(trial: TrialFolder, request: Request, wait_s: float) -> None:
    """Write the outcome of a trial of several ranks, when theirs make one within `wait_s`: other machines' may show late."""
    deadline = time.monotonic() + wait_s
    while True:
        metrics = sha256_of(trial.metrics) if trial.metrics.exists() else None
        outcome = ranks.one_outcome(ranks.read_outcomes(trial, request.processes), request.processes, metrics)
        if outcome is not None or time.monotonic() >= deadline:
            break
        time.sleep(POLL_S)
    if outcome is not None:
        TrialFiles(trial).write_outcome(outcome)


def finish(trial: TrialFolder, status: Status, reason: str, started: float | None = None) -> None:
    """Write the outcome of a trial whose own process did not. It began at `started` (monotonic); None: never."""
    files = TrialFiles(trial)
    iteration = len(read_rows(trial))
    failure = Failure(iteration=iteration, tensor=None) if status == "oom" else None
    outcome = outcome_of(
        trial, started, status=status, reason=reason, failure=failure, environment=files.read_environment(),
        setup_s=None, num_mini_batches=None, rollout_gb=None,
    )  # fmt: skip
    files.write_outcome(outcome)


def outcome_of(trial: TrialFolder, started: float | None, **fields: Any) -> Outcome:
    """Return the outcome of a trial that ends now. It began at `started` (monotonic); None: never. `fields` are the other fields.

    Rows are synced to the disk first: the outcome says that they are complete.
    """
    if trial.metrics.exists():
        sync(trial.metrics)
    total_s = 0.0 if started is None else time.monotonic() - started
    return Outcome(
        request_sha256=sha256_of(trial.request),
        metrics_sha256=sha256_of(trial.metrics) if trial.metrics.exists() else None,
        started_unix_s=time.time() - total_s,
        total_s=total_s,
        attempt=attempts.own_number(),
        **fields,
    )


def is_crash(trial: TrialFolder, returncode: int) -> bool:
    """Tell whether a trial that ended without a result broke by itself: by no error to mend, and by nothing from outside."""
    if is_disk_full(trial):
        return False
    if returncode == EXIT_CRASHED:  # of a foreign command: its own process looked for ends from outside
        return True
    lines = _lines(trial)
    if (
        returncode in (EXIT_USER_ERROR, EXIT_TO_MEND)
        or outside.why_ended(returncode, lines[-telling.NEWEST_LINES :]) is not None
    ):
        return False
    return not any(line.startswith("envknee: ") for line in lines)


def is_to_mend(trial: TrialFolder, returncode: int) -> bool:
    """Tell whether every further attempt would end as this one, whose processes ended without a result."""
    return returncode == EXIT_TO_MEND or any(TO_MEND.search(line) for line in _lines(trial)[-telling.NEWEST_LINES :])


def is_disk_full(trial: TrialFolder) -> bool:
    """Tell whether there is no room for a trial's rows."""
    return shutil.disk_usage(trial.root).free < FULL_DISK_BYTES


def crash_line(trial: TrialFolder, returncode: int) -> str:
    """Return the line of a trial's log that says why it crashed."""
    lines = _lines(trial)
    said = [line.removeprefix("envknee: ") for line in lines if line.startswith("envknee: ")]
    if returncode == EXIT_CRASHED and said:
        return bounded.shown(said[-1])
    newest = lines[-telling.NEWEST_LINES :]
    line = telling.line_of(newest) or telling.complaint_of(newest)
    if line is not None:
        return bounded.shown(line)
    if returncode < 0:
        return f"killed by {signal.Signals(-returncode).name}, and its log says nothing"
    return f"exit status {returncode}, and its log says nothing"


def _lines(trial: TrialFolder) -> list[str]:
    return trial.log.read_text(encoding="utf-8", errors="replace").splitlines() if trial.log.exists() else []


def last_words(trial: TrialFolder, request: Request, returncode: int | None) -> str:
    """Return why a process ended: a full disk, its own error message, or the last lines of its log."""
    if is_disk_full(trial):
        free_mb = shutil.disk_usage(trial.root).free / 1e6
        return f"The disk of {trial.root} is full ({free_mb:.1f} MB free). Make room and run the sweep again."
    lines = _lines(trial)
    said = [place for place, line in enumerate(lines) if line.startswith("envknee: ")]
    if said:  # the trial's last error, which may have several lines
        return "\n".join(lines[said[-1] :]).removeprefix("envknee: ")
    tail = "\n    ".join(line for line in lines[-5:] if line.strip())
    why = None if returncode is None else outside.why_ended(returncode, lines[-telling.NEWEST_LINES :])
    if why is not None:
        return f"It did not end by itself: {why}. Run the sweep again. The last lines of {trial.log}:\n    {tail}"
    again = "Run the sweep again to try once more."
    if request.overrides:
        changed = ", ".join(f"{name}: {value}" for name, value in request.overrides.items())
        again += f" If it says the same again, look at what the study overrides ({changed})."
    return f"Its exit status was {returncode}; the last lines of {trial.log}:\n    {tail}\n{again}"
