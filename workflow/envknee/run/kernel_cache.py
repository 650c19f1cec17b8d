"""Kernels are compiled once: the first process that needs them compiles, and others wait.

Input: everything that the kernels of a trial depend on. Output: two small files beside Warp's cache, KEY.lock and KEY.ready.

Warp's cache is safe without it: Warp compiles into a new folder and then renames it (warp-lang 1.17, build.py). But N processes that
start together would each compile the same kernels, for a minute. WARP_CACHE_PATH moves the cache, for example to a disk that all nodes
of a cluster share.
"""

import hashlib
import json
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import warp
from warp._src import context

from envknee.machine.lock import locked


def remove_headers() -> None:
    """Remove Warp's folders of precompiled headers in /tmp (wp_pch_*, 4 MB each); if it compiles again, it makes new ones.

    Python's own end would remove them, which a trial's process never reaches. Warp has no public name for them (warp-lang 1.17,
    context.py).
    """
    folders = getattr(context.runtime, "_pch_dirs", {})
    while folders:
        _thread, folder = folders.popitem()
        folder.cleanup()


class OneCompiles:
    """The right to compile one set of kernels, held from `wait` to `done`, or to the end of the process."""

    def __init__(self, decisive: Any, folder: Path | None = None) -> None:
        """Take everything that the kernels depend on, as plain data: a hash of it is their name."""
        self._key = hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()[:16]
        self._folder = folder  # None: Warp's cache
        self._lock = ExitStack()
        self.is_compiling = False
        """Whether this process is the one that compiles."""

    def wait(self) -> None:
        """Return once the kernels are compiled, or no other process compiles them.

        On a disk without locks, or without permission to write, nobody waits and each process compiles for itself.
        """
        if self._folder is None:
            warp.init()  # resolves the folder
            self._folder = Path(warp.config.kernel_cache_dir or "") / "envknee"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            if self._ready.exists():
                return
            waits = "envknee: waiting for another trial that compiles the same kernels"
            self._lock.enter_context(locked(self._folder / f"{self._key}.lock", waits))
        except OSError as error:
            print(f"envknee: the kernel cache takes no lock ({error}); going on without", file=sys.stderr, flush=True)
            return
        self.is_compiling = not self._ready.exists()
        if not self.is_compiling:
            self._lock.close()

    def done(self) -> None:
        """Note that the kernels are compiled, so that others go on. Calling it again does nothing."""
        if self.is_compiling:
            self._ready.touch()
            self._lock.close()
            self.is_compiling = False

    @property
    def _ready(self) -> Path:
        assert self._folder is not None, "wait comes first"
        return self._folder / f"{self._key}.ready"
