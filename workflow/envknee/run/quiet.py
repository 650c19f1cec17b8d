"""Waits before a throughput trial while other processes keep the machine busy: at most 1.5 trial lengths, half the measuring time in all.

Input: CPU times of the machine, and outcomes and costs of the study's earlier trials. Output: the seconds waited, which the trial's
cost.json keeps (`Cost.waited_s`).

A trial beside others is slower, small sizes more than large ones. The verdict corrects for that (`verdict.rule.loads`), but needs more
repeats then. Waiting costs time instead.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import psutil

from envknee.record.schema import Cost, Outcome, Request
from envknee.study.errors import UserError, tell
from envknee.study.files import read_model
from envknee.study.load import read_study
from envknee.study.paths import StudyFolder, TrialFolder

BUSY_CORES = 0.5
"""Others are waited for while they take more than this of the cores that the trial needs."""

LONGEST = 1.5
"""Longest wait before a trial, in trial lengths."""

SHARE = 0.5
"""Longest wait of a study in all, of the seconds that its trials took so far."""

LOOK_S, AGAIN_S = 0.2, 1.0
"""Seconds over which the load is read: before each trial, and while it waits."""

CORES_BESIDE_GPU = 2
"""Cores that each rank on a GPU keeps busy."""


class Spent(NamedTuple):
    """What a study's throughput trials took so far, in seconds."""

    trials_s: Sequence[float]
    waited_s: float


def longest_wait_s(spent: Spent) -> float:
    """Return how long the next trial may wait. The first one waits for nobody: how long trials take is not known. Pure."""
    if not spent.trials_s:
        return 0.0
    mean_s = sum(spent.trials_s) / len(spent.trials_s)
    return max(0.0, min(LONGEST * mean_s, SHARE * sum(spent.trials_s) - spent.waited_s))


def taken(busy: float, machine: int, needed: int) -> float:
    """Return the cores that others take of those that a trial needs, from the cores they keep busy on the machine. Pure."""
    return max(0.0, busy - max(0, machine - needed))


def others_cores(over_s: float) -> float | None:
    """Return the cores that are busy on this machine for `over_s`, when no trial runs; None where that cannot be read."""
    try:
        before, began_s = _busy_s(), time.monotonic()
        time.sleep(over_s)
        return max(0.0, _busy_s() - before) / (time.monotonic() - began_s)
    except (OSError, psutil.Error, AttributeError, NotImplementedError):
        return None


def _busy_s() -> float:
    """Return the CPU seconds of all processes since boot, with those stolen by other virtual machines."""
    times = psutil.cpu_times()
    return times.user + times.nice + times.system + times.irq + times.softirq + times.steal


def wait(
    trial: TrialFolder, request: Request, on_gpu: bool, cores_over: Callable[[float], float | None] = others_cores
) -> float:
    """Wait while others are busy, if the request wants it; return the seconds. A trial `on_gpu` needs few cores, another one all."""
    if not request.waits or request.kind != "throughput" or request.nodes > 1:
        return 0.0
    machine = psutil.cpu_count() or 1
    needed = CORES_BESIDE_GPU * request.world_size if on_gpu else machine

    def is_busy(over_s: float) -> bool:
        cores = cores_over(over_s)
        return cores is not None and taken(cores, machine, needed) > BUSY_CORES

    began_s = time.monotonic()
    if not is_busy(LOOK_S):
        return 0.0
    folder = StudyFolder(trial.root.parent.parent)
    longest_s = 0.0 if _runs_side_by_side(folder) else longest_wait_s(spent_in(folder))
    if longest_s < AGAIN_S:
        return 0.0
    tell(f"{trial.root}: waiting while other processes are busy, {longest_s:.0f} s at most. Run nothing beside a study")
    while time.monotonic() - began_s < longest_s and is_busy(AGAIN_S):
        pass
    return time.monotonic() - began_s


def _runs_side_by_side(folder: StudyFolder) -> bool:
    """Tell whether trials of the study run at the same time: these are no others to wait for."""
    if not folder.study.exists():
        return False
    study = read_study(folder.study)
    return study.slots > 1 or any((sweep.workers or 1) > 1 for sweep in study.sections.values())


def spent_in(folder: StudyFolder) -> Spent:
    """Return what the throughput trials of a study took, and how long they waited. Damaged files count nothing."""
    trials_s: list[float] = []
    waited_s = 0.0
    for path in folder.trial_files("outcome.json"):
        earlier = TrialFolder(Path(path).parent)
        with suppress(UserError, OSError):
            if read_model(earlier.request, Request, "").kind != "throughput":
                continue
            outcome = read_model(earlier.outcome, Outcome, "")
            if outcome.status not in ("skipped", "refused"):
                trials_s.append(outcome.total_s)
        with suppress(UserError, OSError):
            waited_s += read_model(earlier.cost, Cost, "").waited_s
    return Spent(trials_s, waited_s)
