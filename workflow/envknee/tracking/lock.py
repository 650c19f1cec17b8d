"""Locks on files, for publishers that would write the same things: the second one waits.

Input: a path. Output: the open file, locked until the process ends.
"""

import fcntl
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def locked(path: Path) -> Iterator[IO[str]]:
    """Hold the lock of a file, which is released when the process ends, however it ends."""
    with path.open("a+", encoding="utf-8") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"Another publisher is at work; waiting for {path}", file=sys.stderr, flush=True)
            fcntl.flock(stream, fcntl.LOCK_EX)
        yield stream


@contextmanager
def try_locked(path: Path, given_up: Callable[[], bool], poll_s: float) -> Iterator[IO[str] | None]:
    """Hold the lock of a file, or give None when `given_up` says so before another process leaves it."""
    with path.open("a+", encoding="utf-8") as stream:
        told = False
        while True:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if not told:
                    print(f"Another process publishes live; waiting for {path}", file=sys.stderr, flush=True)
                    told = True
                if given_up():
                    yield None
                    return
                time.sleep(poll_s)
            else:
                yield stream
                return
