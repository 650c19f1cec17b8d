"""Turns: how a launcher names the trials of a block, one after the other, to the process that measures them.

Input and output: files in an empty folder on the machine's own disk, which an image has, too. The launcher writes `turn-0`, then
waits for `ended-0`, and so on; the process does the opposite.
"""

import os
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from envknee.record.schema import Frozen
from envknee.study.errors import UserError
from envknee.study.files import read_model, write_atomically

POLL_S = 0.02
"""Between two looks for the next turn: a launcher writes it within a few milliseconds."""


class Turn(Frozen):
    """What to measure next."""

    number: int
    """In this process: 0, 1, ..."""
    trial: Path
    attempt: int


class Ended(Frozen):
    """That a turn is over, and the device free again."""

    last_because: str | None
    """Why its process ends now; None where it can measure another."""


def name(meeting: Path, turn: Turn) -> None:
    """Name the next trial to the process."""
    write_atomically(meeting / f"turn-{turn.number}", turn.model_dump_json())


def named(meeting: Path) -> Iterator[Turn]:
    """Give each turn as soon as it is named; its launcher ends this process where there is none any more."""
    for number in count():
        path = meeting / f"turn-{number}"
        while not path.exists():
            time.sleep(POLL_S)
        yield read_model(path, Turn, "")


def end(meeting: Path, turn: Turn, last_because: str | None) -> None:
    """Say that a turn is over."""
    write_atomically(meeting / f"ended-{turn.number}", Ended(last_because=last_because).model_dump_json())


def ended(meeting: Path, turn: Turn) -> Ended | None:
    """Return how a turn ended, or None while it lasts."""
    try:
        return read_model(meeting / f"ended-{turn.number}", Ended, "")
    except UserError:
        return None


def write_to(log: Path) -> None:
    """Let all that this process prints go to the end of `log` from now on."""
    stream = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    for printed in (1, 2):
        os.dup2(stream, printed)
    os.close(stream)
