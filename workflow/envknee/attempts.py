"""How long earlier attempts at a trial held its GPUs and left no result: killed, preempted, on a node that was lost.

Input: the trial's folder. Output: attempts.json, there while a trial runs and after an attempt that was lost; its time of
change is when that attempt was last known to be alive, since whatever kills a process asks it for nothing.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from envknee.files import TrialFolder, canonical_json, read_model, write_atomically
from envknee.record import Cost, Frozen, Lost

SIGN_OF_LIFE_S = 20.0
"""How often a running attempt marks that it is alive: what is counted of a lost one is short by so much at most."""


class Attempts(Frozen):
    """The attempt that runs, and those before it."""

    began_unix_s: float
    lost: Lost


@contextmanager
def counted(trial: TrialFolder) -> Iterator[tuple[Lost, Callable[[], None]]]:
    """Count the time inside as an attempt, lost unless it comes to an outcome.

    Yields what attempts before it have lost, and a function to be called often, which marks that this one is alive.
    """
    now_unix_s = time.time()
    before = Lost()
    if trial.attempts.exists():
        lost, lived_s = _newest(trial)
        before = Lost(attempts=lost.attempts + 1, held_s=lost.held_s + lived_s)
    write_atomically(trial.attempts, canonical_json(Attempts(began_unix_s=now_unix_s, lost=before)))
    marked_s = time.monotonic()

    def alive() -> None:
        nonlocal marked_s
        if time.monotonic() - marked_s >= SIGN_OF_LIFE_S:
            os.utime(trial.attempts)
            marked_s = time.monotonic()

    try:
        yield before, alive
    finally:
        os.utime(trial.attempts)
    if trial.outcome.exists():
        trial.attempts.unlink()


def settle(trial: TrialFolder, gpus: int) -> None:
    """Write what is known of the cost of a trial that came to an outcome and whose launcher was stopped before it wrote the cost.

    That is neither energy nor the job. `gpus` is how many took part.
    """
    if not trial.attempts.exists():
        return
    if not trial.cost.exists():
        lost, lived_s = _newest(trial)
        write_atomically(trial.cost, canonical_json(Cost(gpus=gpus, held_s=lived_s, energy_j=None, lost=lost)))
    trial.attempts.unlink()


def _newest(trial: TrialFolder) -> tuple[Lost, float]:
    """Return what attempts before the newest have lost, and how many seconds that one is known to have lived."""
    old = read_model(trial.attempts, Attempts, f"Delete {trial.attempts}: lost attempts are then not counted.")
    return old.lost, max(0.0, trial.attempts.stat().st_mtime - old.began_unix_s)
