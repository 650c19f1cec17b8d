"""Attempts at a trial: which is the newest, how long lost ones held its GPUs.

Input: the trial's folder. Output: attempts.json, there while a trial runs and after an attempt that was lost. Whatever kills a
process asks it for nothing: a running attempt writes how long it has lived.

Attempts are numbered. One on a node that was lost from sight may still run while the next has begun elsewhere: only the newest
writes what it found, and its outcome holds its number.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from envknee.record.schema import Cost, Frozen, Lost, Outcome
from envknee.study.errors import UserError
from envknee.study.files import canonical_json, read_model, write_atomically
from envknee.study.paths import TrialFolder

SIGN_OF_LIFE_S = 20.0
"""How often a running attempt marks that it is alive: what is counted of a lost one is short by so much at most."""

TOLD = "ENVKNEE_ATTEMPT"
"""Tells a trial's processes which attempt they are."""


class Attempts(Frozen):
    """The attempt that runs, and those before it."""

    began_unix_s: float
    lost: Lost
    lived_s: float = 0.0
    """Of the running attempt, as far as it was seen alive (by a clock that nobody sets)."""

    @property
    def number(self) -> int:
        """Of the running attempt: 1, 2, ..."""
        return self.lost.attempts + 1


def own_number() -> int:
    """Return which attempt this process belongs to; 1 where no launcher counts."""
    return int(os.environ.get(TOLD, "1"))


def check_newest(trial: TrialFolder) -> None:
    """Make sure that no later attempt at this trial has begun.

    Raises:
        UserError: when one has: what this one found is not written.
    """
    if TOLD in os.environ and (not trial.attempts.exists() or _read(trial).number != own_number()):
        raise UserError(
            f"{trial.root}: another attempt at this trial began while this one (number {own_number()}) was out of sight."
            " Nothing of this one is kept; the other's result counts"
        )


@contextmanager
def counted(trial: TrialFolder) -> Iterator[tuple[Lost, Callable[[], None]]]:
    """Count the time inside as an attempt, lost unless it comes to an outcome.

    Yields what attempts before it have lost, and a function to be called often, which marks that this one is alive (and raises
    as `check_newest` does).
    """
    before = _ended(_read(trial)) if trial.attempts.exists() else Lost()
    this, began_s = Attempts(began_unix_s=time.time(), lost=before), time.monotonic()
    write_atomically(trial.attempts, canonical_json(this))
    os.environ[TOLD] = str(this.number)
    marked_s = began_s

    def mark() -> None:
        nonlocal marked_s
        marked_s = time.monotonic()
        lived = this.model_copy(update={"lived_s": marked_s - began_s})
        write_atomically(trial.attempts, canonical_json(lived))

    def alive() -> None:
        if time.monotonic() - marked_s >= SIGN_OF_LIFE_S:
            check_newest(trial)
            mark()

    try:
        yield before, alive
        check_newest(trial)
        if trial.outcome.exists():
            trial.attempts.unlink()
    finally:
        if trial.attempts.exists() and _read(trial).number == this.number:
            mark()
        del os.environ[TOLD]


def settle(trial: TrialFolder, gpus: int) -> None:
    """Write what is known of the cost of a trial that came to an outcome and whose launcher was stopped before it wrote the cost.

    That is neither energy nor the job. `gpus` is how many took part.
    """
    if not trial.attempts.exists():
        return
    if not trial.cost.exists():
        newest = _read(trial)
        cost = Cost(gpus=gpus, held_s=newest.lived_s, energy_j=None, lost=newest.lost)
        write_atomically(trial.cost, canonical_json(cost))
    trial.attempts.unlink()


def why_again(trial: TrialFolder, outcome: Outcome) -> str | None:
    """Return why a trial that has an outcome must be measured again, or None: a power cut took rows, or it came too late."""
    if trial.attempts.exists() and outcome.attempt < _read(trial).number:
        return f"its outcome is of attempt {outcome.attempt}, which came back after the next had begun"
    if outcome.metrics_sha256 is None:
        return None
    rows = trial.metrics.read_bytes() if trial.metrics.exists() else b""
    if not rows.endswith(b"\n") or b"\0" in rows:
        return f"{trial.metrics.name} is not whole, as after a power cut"
    return None


def forget_torn(trial: TrialFolder) -> str | None:
    """Remove the record of a trial that must be measured again, so that the sweep does, and return why; None for all others."""
    outcome = read_model(trial.outcome, Outcome, f"Delete {trial.root} to measure this trial again.")
    why = why_again(trial, outcome)
    if why is not None:
        trial.record.unlink(missing_ok=True)
    return why


def _ended(attempt: Attempts) -> Lost:
    return Lost(attempts=attempt.number, held_s=attempt.lost.held_s + attempt.lived_s)


def _read(trial: TrialFolder) -> Attempts:
    return read_model(trial.attempts, Attempts, f"Delete {trial.attempts}: lost attempts are then not counted.")
