"""Attempts at a trial: the number of the newest, and how long lost ones held the trial's GPUs.

Input: the trial's folder. Output: attempts.json, which exists while a trial runs and after a lost attempt. A killed process cannot
write anything, so a running attempt writes regularly how long it has lived.

Attempts are numbered. When a node loses its network, its attempt may still run while the next one begins elsewhere. Only the newest
attempt may write a result, and its outcome holds its number.
"""

import errno
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from envknee.record.schema import Cost, Frozen, Lost
from envknee.record.trial_files import TrialFiles
from envknee.study.errors import UserError
from envknee.study.files import canonical_json, read_model, write_atomically
from envknee.study.paths import TrialFolder

SIGN_OF_LIFE_S = 20.0
"""Between two signs of life of a running attempt. The time of a lost attempt is short by at most this."""

TOLD = "ENVKNEE_ATTEMPT"
"""Environment variable with the number of a process's attempt."""


class Attempts(Frozen):
    """The running attempt, and the lost ones before it."""

    began_unix_s: float
    lost: Lost
    crashes: int = 0
    """How many attempts, the running one included, ended without a result by a crash of the program."""
    lived_s: float = 0.0
    """Seconds until the running attempt's latest sign of life, by the monotonic clock."""

    @property
    def number(self) -> int:
        """Number of the running attempt: 1, 2, ..."""
        return self.lost.attempts + 1


def own_number() -> int:
    """Return the number of this process's attempt; 1 without a launcher."""
    return int(os.environ.get(TOLD, "1"))


def check_newest(trial: TrialFolder) -> None:
    """Raise a UserError if a later attempt at this trial has begun: this one must then write nothing."""
    if TOLD not in os.environ:
        return
    newest = _read(trial)
    if newest is None or newest.number != own_number():
        raise UserError(
            f"{trial.root}: another attempt at this trial began while this one (number {own_number()}) was out of sight."
            " Nothing of this one is kept; the other's result counts"
        )


@contextmanager
def counted(trial: TrialFolder) -> Iterator[tuple[Lost, Callable[[], None]]]:
    """Count the time inside as an attempt, which is lost unless it comes to an outcome.

    Yields the lost attempts before it, and a function to call often: it writes a sign of life, and raises as `check_newest` does.
    """
    before, crashes = Lost(), 0
    ended = _read(trial)
    if ended is not None:
        crashes = ended.crashes
        before = Lost(attempts=ended.number, held_s=ended.lost.held_s + ended.lived_s)
    this, began_s = Attempts(began_unix_s=time.time(), lost=before, crashes=crashes), time.monotonic()
    write_atomically(trial.attempts, canonical_json(this))
    os.environ[TOLD] = str(this.number)
    marked_s = began_s

    def mark() -> None:
        nonlocal marked_s
        marked_s = time.monotonic()
        noted = _read(trial) or this
        lived = this.model_copy(update={"lived_s": marked_s - began_s, "crashes": noted.crashes})
        write_atomically(trial.attempts, canonical_json(lived))

    def alive() -> None:
        if time.monotonic() - marked_s >= SIGN_OF_LIFE_S:
            check_newest(trial)
            mark()

    try:
        yield before, alive
        check_newest(trial)
        if TrialFiles(trial).has_outcome():
            trial.attempts.unlink(missing_ok=True)
    finally:
        newest = _read(trial)
        if newest is not None and newest.number == this.number:
            mark()
        del os.environ[TOLD]


def note_crash(trial: TrialFolder) -> int:
    """Note that the program of the running attempt crashed; return how many attempts at this trial did."""
    this = _read(trial)
    if this is None:
        return 1
    crashed = this.model_copy(update={"crashes": this.crashes + 1})
    write_atomically(trial.attempts, canonical_json(crashed))
    return crashed.crashes


def settle(trial: TrialFolder, gpus: int) -> None:
    """Write the cost of a trial with an outcome whose launcher was stopped before it wrote the cost.

    Energy and job are unknown then. `gpus` is the number of GPUs that took part.
    """
    newest = _read(trial)
    if newest is None:
        return
    files = TrialFiles(trial)
    if not files.has_cost():
        files.write_cost(Cost(gpus=gpus, held_s=newest.lived_s, energy_j=None, lost=newest.lost))
    trial.attempts.unlink(missing_ok=True)


def forget_torn(trial: TrialFolder) -> str | None:
    """If a trial must be measured again, remove its record, and return why; else None."""
    why = why_torn(trial)
    if why is not None:
        TrialFiles(trial).forget_record()
    return why


def why_torn(trial: TrialFolder) -> str | None:
    """Return why a trial with an outcome must be measured again; else None. Changes nothing.

    A power cut may have taken rows, or the outcome came too late.
    """
    files = TrialFiles(trial)
    if not files.has_outcome():
        return None
    outcome = files.read_outcome()
    newest = _read(trial)
    if newest is not None and outcome.attempt < newest.number:
        return f"its outcome is of attempt {outcome.attempt}, which came back after the next had begun"
    if outcome.metrics_sha256 is not None and not files.rows_are_whole():
        return f"{trial.metrics.name} is not whole, as after a power cut"
    return None


def _read(trial: TrialFolder) -> Attempts | None:
    """Return the newest attempt; None without one.

    It asks for no file before it reads it: a launcher on another node may end meanwhile, and a network disk says for seconds that a
    removed file is still there.
    """
    try:
        return read_model(trial.attempts, Attempts, f"Delete {trial.attempts}: lost attempts are then not counted.")
    except UserError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return None
        raise
    except OSError as error:
        if error.errno == errno.ESTALE:  # removed or replaced while it was read
            return _read(trial)
        raise
