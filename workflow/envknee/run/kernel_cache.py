"""Kernels are compiled once: of the processes that need the same ones, the first compiles while the others wait.

Input: what decides which kernels a trial needs. Output: two small files beside Warp's cache, KEY.lock and KEY.ready.

The cache itself is Warp's, and safe: it compiles into a folder of its own and renames that (warp-lang 1.17, build.py). But
of N processes that start together each would compile the same kernels, for a minute. WARP_CACHE_PATH names another place
for it, such as a disk that all nodes of a cluster share.
"""

import fcntl
import hashlib
import json
import sys
from pathlib import Path
from typing import IO, Any

import warp


def key_of(decisive: dict[str, Any]) -> str:
    """Return a short name for a set of kernels; `decisive` is everything that they depend on (plain data)."""
    return hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()[:16]


class OneCompiles:
    """Holds the right to compile one set of kernels, from `wait` to `done`. A process that ends lets go of it."""

    def __init__(self, key: str, folder: Path | None = None) -> None:
        """Take the key; `folder` is Warp's cache unless given."""
        self._key = key
        self._folder = folder
        self._lock: IO[str] | None = None

    def wait(self) -> None:
        """Return at once when the kernels are compiled, else once no other process compiles them.

        A disk without locks, or one that cannot be written to, only costs the waiting: then each compiles for itself.
        """
        if self._folder is None:
            warp.init()  # resolves the folder
            self._folder = Path(warp.config.kernel_cache_dir or "") / "envknee"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            if self._ready.exists():
                return
            lock = (self._folder / f"{self._key}.lock").open("a", encoding="ascii")
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                print("envknee: waiting for another trial that compiles the same kernels", file=sys.stderr, flush=True)
                fcntl.flock(lock, fcntl.LOCK_EX)
        except OSError as error:
            print(f"envknee: the kernel cache takes no lock ({error}); going on without", file=sys.stderr, flush=True)
            return
        if self._ready.exists():
            lock.close()
        else:
            self._lock = lock

    def done(self) -> None:
        """Note that the kernels are compiled, and let the others go on. Calling it again does nothing."""
        if self._lock is not None:
            self._ready.touch()
            self._lock.close()
            self._lock = None

    @property
    def _ready(self) -> Path:
        assert self._folder is not None, "wait comes first"
        return self._folder / f"{self._key}.ready"
