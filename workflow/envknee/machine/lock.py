"""A lock on a file that several processes write: the second one prints a line and waits. It ends with its process, even after SIGKILL."""

import fcntl
import os
import pwd
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

POLL_S = 0.5

_LOCKS = Path("/proc/locks")

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


def holder(path: Path) -> str:
    """Return who holds the lock of a file, in words: `process 4711 of user alice`.

    Upstream: proc_locks(5). A process of another container has no number here.
    """
    found = path.stat()
    place = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    for line in _LOCKS.read_text(encoding="utf-8").splitlines() if _LOCKS.exists() else ():
        words = line.split()
        if words[1] != "->" and words[1] == "FLOCK" and words[5] == place and int(words[4]) > 0:
            return f"process {words[4]}{_user_of(int(words[4]))}"
    return "a process that is not seen from here, or has just let go"


def _user_of(pid: int) -> str:
    try:
        uid = Path(f"/proc/{pid}").stat().st_uid
    except OSError:
        return ", which has ended and left the lock to a process that it started"
    try:
        return f" of user {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f" of user {uid}"


def held() -> list[int]:
    """Return the descriptors of the locks that this process holds. A process that inherits them holds the locks, too."""
    return sorted(_held)
