"""A lock on a file, for publishers that would write the same things: the second one waits.

Input: a path. Output: the open file, locked until the process ends.
"""

import fcntl
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

POLL_S = 0.5


@contextmanager
def locked(path: Path) -> Iterator[IO[str]]:
    """Hold the lock of a file, which is released when the process ends, however it ends."""
    with try_locked(path, lambda: False) as stream:
        assert stream is not None, "nobody gives up"
        yield stream


@contextmanager
def try_locked(path: Path, given_up: Callable[[], bool]) -> Iterator[IO[str] | None]:
    """Hold the lock of a file, or give None when `given_up` says so before another process leaves it."""
    with path.open("a+", encoding="utf-8") as stream:
        waits = False
        while True:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if not waits:
                    print(f"Another publisher is at work; waiting for {path}", file=sys.stderr, flush=True)
                    waits = True
                if given_up():
                    yield None
                    return
                time.sleep(POLL_S)
            else:
                yield stream
                return
