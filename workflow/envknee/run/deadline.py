"""The end of the time that `envknee knee --time` gives a search: no trial begins that is expected to end later.

Input: a variable with the moment, which every process of the sweep inherits, and the records of earlier trials. Output: why a trial does
not begin, also as a file of the study's folder.

A trial that runs is never cut off: that would drop the slow ones, and leave FPS that are too high. Whether a trial begins depends on the
clock and on how long earlier trials took, never on what it would measure. The verdict's rule holds at every look (docs/verdicts.md), so
that a search may end after any trial. Requests know nothing of the time: the same command goes on, and a replay asks the same.
"""

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from pydantic import ValidationError

from envknee.record.read import without_skipped
from envknee.record.schema import Frozen, Record, Request
from envknee.study.errors import UserError
from envknee.study.files import read_model, write_atomically
from envknee.study.paths import StudyFolder, TrialFolder
from envknee.words.knee import not_begun

VARIABLE = "ENVKNEE_ENDS_MONOTONIC_S"
"""The moment by the clock of this machine since it started, which nobody sets."""

CLOSING_S = 15.0
"""Kept for the verdict, figures and report after the last trial."""

LONGER = 1.1
"""A trial may take this many times as long as the one before it."""


class TimeOver(Frozen):
    """Why the first trial that the time had no room for was not begun."""

    num_envs: int
    expected_s: float
    left_s: float


def ends_in(seconds: float) -> dict[str, str]:
    """Return the environment of a sweep that ends in so many seconds from now."""
    return dict(os.environ) | {VARIABLE: str(time.monotonic() + seconds)}


def left_s(environment: Mapping[str, str] | None) -> float | None:
    """Return the seconds that are left for trials in the environment of a sweep; None without such a time."""
    if environment is None or VARIABLE not in environment:
        return None
    return float(environment[VARIABLE]) - time.monotonic() - CLOSING_S


def is_set() -> bool:
    """Tell whether this sweep has such a time."""
    return VARIABLE in os.environ


def expected_s(request: Request, earlier: Sequence[Record]) -> float | None:
    """Return how long a trial is expected to take; None before any of its kind and arm. Pure.

    As long as the newest at its size. A size that never ran takes the start of the next smaller one, and the rest in proportion.
    """
    alike = [
        record
        for record in without_skipped(earlier)
        if (record.request.arm, record.request.kind) == (request.arm, request.kind)
        and record.outcome.status != "refused"
    ]
    if not alike:
        return None
    here = [record for record in alike if record.request.point == request.point]
    if here:
        return here[-1].outcome.total_s
    nearest = min(alike, key=lambda record: _distance(record.request.num_envs, request.num_envs))
    start_s = nearest.outcome.setup_s or 0.0
    times = max(1.0, request.num_envs / nearest.request.num_envs)
    return start_s + times * max(0.0, nearest.outcome.total_s - start_s)


def _distance(other: int, num_envs: int) -> tuple[bool, int]:
    """Return what puts the nearest smaller size first, then the nearest larger one."""
    return other > num_envs, abs(other - num_envs)


def why_not_begun(folder: StudyFolder, trial: TrialFolder) -> str | None:
    """Return why a trial may not begin, and note it in the study's folder; None if it may. The first of a study always may."""
    if not is_set() or trial.outcome.exists():
        return None
    request = read_model(trial.request, Request, "Run the sweep again.")
    if request.skip is not None or request.refusal is not None:
        return None
    seconds = expected_s(request, _records(folder))
    left = left_s(os.environ)
    if seconds is None or left is None or LONGER * seconds <= left:
        return None
    over = TimeOver(num_envs=request.num_envs, expected_s=seconds, left_s=max(0.0, left))
    write_atomically(folder.time_over, over.model_dump_json())
    return not_begun(over.num_envs, over.expected_s, over.left_s)


def _records(folder: StudyFolder) -> list[Record]:
    records = []
    for path in folder.trial_files("record.json"):
        with suppress(UserError):  # whoever needs a damaged record reports it
            records.append(read_model(path, Record, ""))
    return records


def noted(folder: StudyFolder) -> TimeOver | None:
    """Return what `why_not_begun` noted since the sweep began; None if every trial began."""
    with suppress(OSError, ValidationError):
        return TimeOver.model_validate_json(folder.time_over.read_text(encoding="utf-8"))
    return None


class Watch:
    """Tells a sweep's rules that its time is over, as `slurm.allocation.Closing` does of a job's."""

    then = None
    """`knee` says it, when Snakemake has ended."""

    def __init__(self, folder: StudyFolder) -> None:
        """Watch the sweep of this folder."""
        self._folder = folder

    def start(self) -> None:
        """Forget what an earlier sweep noted."""
        self._folder.time_over.unlink(missing_ok=True)

    @property
    def why(self) -> str | None:
        """Why no further trial begins; None while trials may begin."""
        over = noted(self._folder)
        return None if over is None else not_begun(over.num_envs, over.expected_s, over.left_s)
