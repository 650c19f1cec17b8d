"""A lock on a file, for publishers that would write the same things: the second one waits.

Input: a path. Output: the open file, locked until the process ends.
"""

import fcntl
import sys
from collections.abc import Iterator
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
