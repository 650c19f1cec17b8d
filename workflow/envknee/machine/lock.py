"""A lock on a file that several processes write: the second one prints a line and waits. It ends with its process, even after SIGKILL."""

import fcntl
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

POLL_S = 0.5

_held = set[int]()
"""Descriptors of the locks that this process holds now."""


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
                break
        with noted(stream.fileno()):
            try:
                yield stream
            finally:
                fcntl.flock(stream, fcntl.LOCK_UN)  # a process that inherited the descriptor holds it no longer


@contextmanager
def noted(descriptor: int) -> Iterator[None]:
    """Count an open lock among those that `held` returns."""
    _held.add(descriptor)
    try:
        yield
    finally:
        _held.discard(descriptor)


def held() -> list[int]:
    """Return the descriptors of the locks that this process holds. A process that inherits them holds the locks, too."""
    return sorted(_held)
