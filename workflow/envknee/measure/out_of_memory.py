"""How a trial's end by lack of memory is recognized: by the exception, by Ray's exception, or by the kernel's kill.

Input: an exception, or how a process ended. Output: whether memory ran out, and how much was asked for.
The launcher imports this too, so PyTorch and Ray are imported only in the trial's process.
"""

import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from envknee.machine import control_group

TEXTS = ("can't allocate memory", "failed to allocate", "out of memory", "cudaerrormemoryallocation", "alloc_failed")
"""What a RuntimeError about memory says, in lower case: PyTorch's CPU allocator, Warp 1.17 ("Failed to allocate N bytes on device"),
CUDA, and cuBLAS and cuDNN (CUBLAS_STATUS_ALLOC_FAILED)."""

REQUESTED = re.compile(r"(?:tried to allocate|failed to allocate)\s+([\d.]+)\s*(bytes|KiB|MiB|GiB)?", re.IGNORECASE)
"""How PyTorch 2.11 ("Tried to allocate 20.00 GiB", on a CPU "you tried to allocate 123 bytes") and Warp 1.17 ("Failed to
allocate 123 bytes") name the request that failed."""

BYTES = {"bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


class CapExceeded(MemoryError):
    """More memory is in use than the study's `memory_cap_gb` allows."""


def is_out_of_memory(error: BaseException) -> bool:
    """Tell whether an exception means that device or host memory ran out.

    NumPy and Python raise a MemoryError; PyTorch an OutOfMemoryError on a GPU; all others a RuntimeError with one of `TEXTS`.
    """
    import torch

    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(text in str(error).lower() for text in TEXTS)


def requested_gb(message: str) -> float | None:
    """Return how many GB (1e9 bytes) an out-of-memory error says were asked for, or None where it does not say."""
    request = REQUESTED.search(message)
    return float(request[1]) * BYTES[request[2] or "bytes"] / 1e9 if request else None


@contextmanager
def own_errors_of_ray() -> Iterator[None]:
    """Raise what happened in a Ray worker as that, not as Ray's wrapping of it; memory that ran out there as a MemoryError."""
    from ray.exceptions import OutOfMemoryError, RayTaskError

    try:
        yield
    except RayTaskError as error:
        raise error.cause from error
    except OutOfMemoryError as error:
        raise MemoryError(str(error)) from error


@dataclass(frozen=True)
class KernelKills:
    """Watches, from before a process starts, whether the kernel kills it because host memory ran out."""

    anywhere: bool
    """Count on the whole machine: for processes in control groups of their own."""
    before: int = field(init=False)

    def __post_init__(self) -> None:
        """Note how many kills there were before."""
        object.__setattr__(self, "before", control_group.oom_kills(anywhere=self.anywhere))

    def explain(self, returncode: int | None, log_of_ranks: Path | None) -> bool:
        """Tell whether a process that ended so was killed, and the kernel has killed one for memory since.

        Args:
            returncode: of the process. Apptainer and Docker end as the process in them did, or with a shell's number
            log_of_ranks: what torchrun said, which names the signal that ended a rank; None where one process ran alone
        """
        killed = returncode in (-signal.SIGKILL, 128 + signal.SIGKILL) or (
            log_of_ranks is not None and "SIGKILL" in log_of_ranks.read_text(encoding="utf-8", errors="replace")
        )
        return killed and control_group.oom_kills(anywhere=self.anywhere) > self.before
