"""Waiting for something that happens in another process."""

import time
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path


def wait_for(condition: Callable[[], bool], timeout_s: float = 300) -> None:
    """Wait until the condition holds; fail when it does not in time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.1)


def written_since(path: Path, unix_ns: int) -> bool:
    """Whether a file was written after that time. Its writer may remove it before it writes it anew."""
    with suppress(FileNotFoundError):
        return path.stat().st_mtime_ns > unix_ns
    return False


def wait_until_none(left: Callable[[], Collection[object]], timeout_s: float) -> None:
    """Wait until nothing is left; fail with what is."""
    with suppress(AssertionError):
        wait_for(lambda: not left(), timeout_s)
    remaining = left()
    assert not remaining, f"left after {timeout_s:.0f} s: {remaining}"
