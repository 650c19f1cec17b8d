"""A lock on a file that several processes write: the second one prints a line and waits. It ends with its process, even after SIGKILL."""

import fcntl
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

POLL_S = 0.5


@contextmanager
def locked(path: Path, waits: str | None = None) -> Iterator[IO[str]]:
    """Hold the lock of a file. While another process holds it, print `waits` once, and wait."""
    waits = waits or f"Another process holds {path}; waiting for it"
    with path.open("a+", encoding="utf-8") as stream:
        while True:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if waits:
                    print(waits, file=sys.stderr, flush=True)
                    waits = ""
                time.sleep(POLL_S)
            else:
                yield stream
                return
