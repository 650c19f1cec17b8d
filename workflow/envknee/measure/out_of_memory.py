"""Recognizes that a trial ended for lack of memory: by its exception, Ray's exception, or a kill by the kernel.

The launcher imports this module too, so PyTorch and Ray are imported inside functions that only the trial's process calls.
"""

import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from envknee.machine import control_group

TEXTS = ("can't allocate memory", "failed to allocate", "out of memory", "cudaerrormemoryallocation", "alloc_failed")
"""Lower-case parts of a RuntimeError about memory: from PyTorch's CPU allocator, Warp 1.17 ("Failed to allocate N bytes on device"),
CUDA, cuBLAS and cuDNN (CUBLAS_STATUS_ALLOC_FAILED)."""

REQUESTED = re.compile(
    r"(?:tried to allocate|failed to allocate)\s+(\d{1,30}(?:\.\d{1,30})?)\s*(bytes|KiB|MiB|GiB)?", re.IGNORECASE
)
"""The failed request in errors of PyTorch 2.11 ("Tried to allocate 20.00 GiB", on a CPU "you tried to allocate 123 bytes") and
Warp 1.17 ("Failed to allocate 123 bytes")."""

BYTES = {"bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def is_out_of_memory(error: BaseException) -> bool:
    """Tell whether an exception means that device or host memory ran out.

    NumPy and Python raise a MemoryError, PyTorch on a GPU an OutOfMemoryError, all others a RuntimeError with one of `TEXTS`.
    """
    import torch

    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(text in str(error).lower() for text in TEXTS)


def requested_gb(message: str) -> float | None:
    """Return the failed request of an out-of-memory error in GB (1e9 bytes), or None if the message does not name it."""
    request = REQUESTED.search(message)
    return float(request[1]) * BYTES[request[2] or "bytes"] / 1e9 if request else None


@contextmanager
def own_errors_of_ray() -> Iterator[None]:
    """Raise a Ray worker's own exception in place of Ray's wrapper; Ray's OutOfMemoryError becomes a MemoryError."""
    from ray.exceptions import OutOfMemoryError, RayTaskError

    try:
        yield
    except RayTaskError as error:
        raise error.cause from error
    except OutOfMemoryError as error:
        raise MemoryError(str(error)) from error


class KernelKills:
    """Detects that the kernel killed a process because host memory ran out. Create it before the process starts."""

    def __init__(self, anywhere: bool) -> None:
        """Count the kills so far: on the whole machine with `anywhere`, for processes in control groups of their own."""
        self._anywhere = anywhere
        self._before = control_group.oom_kills(anywhere=anywhere)

    def explain(self, returncode: int, log_of_ranks: Path | None) -> bool:
        """Tell whether the process was killed, and the kernel has killed a process for memory since it started.

        Args:
            returncode: the process's own; Apptainer and Docker return that of the process inside, or a shell's 128 + signal
            log_of_ranks: torchrun's log, which names the signal that ended a rank; None if one process ran alone
        """
        killed = returncode in (-signal.SIGKILL, 128 + signal.SIGKILL) or (
            log_of_ranks is not None and "SIGKILL" in log_of_ranks.read_text(encoding="utf-8", errors="replace")
        )
        return killed and control_group.oom_kills(anywhere=self._anywhere) > self._before
