"""Turns: the launcher of a block names its trials, one after the other, to the process that measures them.

Input and output: files in an empty folder on the machine's own disk, which is mounted in an image, too. The launcher writes `turn-0`,
waits for `ended-0`, and so on. The process waits for `turn-0` and writes `ended-0`.
"""

import os
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from envknee.record.schema import Frozen
from envknee.study.files import read_model, write_atomically

POLL_S = 0.02
"""Between two looks for the next turn, which the launcher writes within milliseconds."""


class Turn(Frozen):
    """The next trial to measure."""

    number: int
    """Number of the turn in this process: 0, 1, ..."""
    trial: Path
    attempt: int


def name(meeting: Path, turn: Turn) -> None:
    """Name the next trial to the process."""
    write_atomically(meeting / f"turn-{turn.number}", turn.model_dump_json())


def named(meeting: Path) -> Iterator[Turn]:
    """Yield each turn as soon as it is named. After the last one, the launcher ends this process."""
    for number in count():
        path = meeting / f"turn-{number}"
        while not path.exists():
            time.sleep(POLL_S)
        yield read_model(path, Turn, "")


def end(meeting: Path, turn: Turn, last_because: str) -> None:
    """Write that a turn is over, the device is free again, and why the process ends now ("": it can measure another trial)."""
    write_atomically(meeting / f"ended-{turn.number}", last_because)


def ended(meeting: Path, turn: Turn) -> str | None:
    """Return why the process ends with a turn that is over ("": it does not), or None while the turn lasts."""
    path = meeting / f"ended-{turn.number}"
    return path.read_text(encoding="utf-8") if path.exists() else None


def write_to(log: Path) -> None:
    """Append everything that this process prints from now on to `log`."""
    stream = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    for printed in (1, 2):
        os.dup2(stream, printed)
    os.close(stream)
