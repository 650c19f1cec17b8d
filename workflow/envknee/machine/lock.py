"""A lock on a file that several processes write: the second one prints a line and waits. It ends with its process, even after SIGKILL."""

import fcntl
import pwd
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
def locked_in_turn(path: Path) -> Iterator[None]:
    """Hold the lock of a file that others hold for moments: wait without a word."""
    with path.open("a+", encoding="utf-8") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(stream, fcntl.LOCK_UN)


@contextmanager
def locked_unless_held(path: Path) -> Iterator[bool]:
    """Hold the lock of a file, if no other process does; yield whether it is held here."""
    with path.open("a+", encoding="utf-8") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        with noted(stream.fileno()):
            try:
                yield True
            finally:
                fcntl.flock(stream, fcntl.LOCK_UN)


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


def holder(path: Path) -> str | None:
    """Return the process that holds a file's lock, with its user, for messages. None if the kernel does not show it.

    Upstream: proc_locks(5). A process in another container has no number here. The device in it is not compared: an overlay's files
    have another one there.
    """
    inode = str(path.stat().st_ino)
    for line in Path("/proc/locks").read_text(encoding="utf-8").splitlines():
        words = line.split()
        if len(words) == 8 and words[1] == "FLOCK" and words[5].rpartition(":")[2] == inode and int(words[4]) > 0:
            return f"process {words[4]}{_user_of(words[4])}"
    return None


def _user_of(process: str) -> str:
    try:
        user = Path("/proc", process).stat().st_uid
    except OSError:  # it has ended, and a process that inherited the lock goes on; or others' processes are hidden
        return ""
    try:
        return f" of user {pwd.getpwuid(user).pw_name}"
    except KeyError:
        return f" of user {user}"
