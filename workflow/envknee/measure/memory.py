"""Measures a trial's memory: its use for each row, and a map by purpose at the end or when memory runs out."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import psutil
import torch
import warp

from envknee.machine.nvml import GB
from envknee.record.schema import MemoryMap, MemoryUse

ASKED_EVERY_S = 1.0
"""The driver is asked for the GPU's memory so often, and whenever PyTorch's has changed: it answers in milliseconds, and the GPU may
wait meanwhile."""


class Allocator(NamedTuple):
    """Memory of PyTorch's allocator on a GPU [GB]. It has no accounts on a CPU, where the resident set stands for both."""

    allocated: float
    allocated_peak: float
    reserved: float
    reserved_peak: float


class MemoryWatch:
    """Watches the memory of this process on one device. Create it before the first allocation there. 1 GB is 1e9 bytes."""

    def __init__(self, device: torch.device, cap_gb: float | None = None, before_gb: float = 0.0) -> None:
        """`before_gb` is the GPU memory in use by others, before this process had a context there.

        The process may use `cap_gb` from `environment_begins` on.
        """
        self._cap_gb = cap_gb
        self.device = device
        self._ballast: warp.array | None = None
        self._ballast_gb = 0.0
        self._process = psutil.Process()
        self._before_gb = before_gb
        self._static_gb: float | None = None
        self._static_allocated_gb = 0.0
        self._static_outside_gb = 0.0
        self._rollout_gb = 0.0
        self._model_tensors: Callable[[], Iterable[torch.Tensor]] = tuple
        self._before_learning_gb: float | None = None
        """Allocated at the start of the current learning; None outside learning."""
        self._learning_peak_gb = 0.0
        """Largest allocation of any learning; the next two belong to it."""
        self._collecting_gb = 0.0
        self._learner_gb = 0.0
        self._peak_allocated_gb = 0.0
        self._peak_reserved_gb = 0.0
        self._peak_outside_gb = 0.0
        self._peak_used_gb = 0.0
        self._told_gb = 0.0
        """The driver's newest answer: memory in use by all processes."""
        self._told_at: tuple[float, float] | None = None
        """(reserved memory, clock) at that answer."""

    def environment_begins(self) -> None:
        """Make the GPU as small as the cap, by allocating the rest of its memory.

        All allocators (PyTorch's, Warp's, CUDA's own for kernels and libraries) then run out of memory as on a GPU of that size, and
        react as they would there: PyTorch's frees its cache first, cuDNN takes an algorithm that needs less.

        Raises:
            MemoryError: if a CUDA context alone takes more than the cap.
        """
        if self._cap_gb is None or self.device.type != "cuda":
            return
        used_gb, total_gb = self._device_used_gb(), torch.cuda.get_device_properties(self.device).total_memory / GB
        left_gb = self._cap_gb - (used_gb - self._before_gb)
        if left_gb <= 0:
            raise MemoryError(f"a CUDA context alone takes more than memory_cap_gb, which is {self._cap_gb:g}")
        rest_gb = total_gb - used_gb - left_gb
        device = warp.device_from_torch(self.device)
        with warp.ScopedMempool(device, enable=False):  # Warp would reuse memory of a pool
            self._ballast = warp.empty((max(0, int(rest_gb * GB / 2**20)), 2**18), dtype=float, device=device)
        self._ballast_gb = self._device_used_gb() - used_gb

    def release(self) -> None:
        """Free the memory that `environment_begins` allocated."""
        self._ballast = None
        self._ballast_gb = 0.0

    def environment_made(self) -> None:
        """Measure the memory of simulation and renderer."""
        allocator, self._told_at = self._allocator(), None
        self._static_allocated_gb = allocator.allocated
        self._static_outside_gb = self._outside_gb(allocator.reserved)
        # Without the allocator's slack, which later allocations may use.
        self._static_gb = self._static_outside_gb + self._static_allocated_gb
        self.check_cap()

    def check_cap(self) -> None:
        """Check the cap on a CPU; on a GPU `environment_begins` enforces it.

        Raises:
            MemoryError: if the peak is above the cap; names both.
        """
        self._take_peaks()
        if self._cap_gb is None or self.device.type == "cuda":
            return
        used_gb = self._peak_used_gb - self._before_gb
        if used_gb > self._cap_gb:
            raise MemoryError(f"{used_gb:.2f} GB were in use, and memory_cap_gb is {self._cap_gb:g}")

    def learner_made(self, rollout_bytes: int, model_tensors: Callable[[], Iterable[torch.Tensor]]) -> None:
        """Take the size of the rollout storage, and a function that returns parameters, gradients and optimizer state."""
        self._rollout_gb = rollout_bytes / GB
        self._model_tensors = model_tensors
        self.check_cap()

    def learning_begins(self) -> None:
        """Measure the memory in use before learning: memory above it is the learner's."""
        self.check_cap()
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.device)
        else:
            reset_peak_rss()
        self._before_learning_gb = self._allocator().allocated

    def learning_ended(self) -> None:
        """Update the peaks at the end of learning."""
        self.check_cap()
        self._before_learning_gb = None

    def clear_cache(self) -> None:
        """Free the GPU memory that PyTorch caches."""
        torch.cuda.empty_cache()

    def use(self) -> MemoryUse:
        """Return the memory in use now, and the peaks so far; the driver's figures are at most `ASKED_EVERY_S` old."""
        self._take_peaks()
        rss_gb = self._rss_gb()
        if self.device.type != "cuda":
            return MemoryUse(rss_gb=rss_gb, peak_rss_gb=self._peak_used_gb)
        device = warp.device_from_torch(self.device)
        return MemoryUse(
            rss_gb=rss_gb,
            peak_rss_gb=_peak_rss_gb(),
            torch_peak_allocated_gb=self._peak_allocated_gb,
            torch_peak_reserved_gb=self._peak_reserved_gb,
            device_used_gb=self._told_gb,
            warp_pool_peak_gb=warp.get_mempool_used_mem_high(device) / GB if warp.is_mempool_enabled(device) else None,
        )

    def map(self) -> MemoryMap | None:
        """Return the memory by purpose so far; None before the environment was made."""
        if self._static_gb is None:
            return None
        self._told_at = None
        self._take_peaks()
        parts = {
            "static_gb": self._static_gb,
            "rollout_gb": self._rollout_gb,
            # Before the first learning, all memory beyond the known parts belongs to collecting.
            "collecting_gb": self._collecting_gb
            if self._learning_peak_gb
            else self._unknown_gb(self._peak_allocated_gb),
            "model_gb": self._model_gb(),
            "learner_gb": self._learner_gb,
            "libraries_gb": self._peak_outside_gb - self._static_outside_gb,
            "slack_gb": self._peak_reserved_gb - self._peak_allocated_gb,
            "other_processes_gb": self._before_gb,
        }
        unattributed_gb = self._peak_used_gb - sum(parts.values())
        return MemoryMap(**parts, unattributed_gb=unattributed_gb, device_used_gb=self._peak_used_gb)

    def _take_peaks(self) -> None:
        """Update the peaks; PyTorch's own are reset at the start of each learning."""
        allocator = self._allocator()
        outside_gb = self._outside_gb(allocator.reserved)
        self._peak_reserved_gb = max(self._peak_reserved_gb, allocator.reserved_peak)
        self._peak_outside_gb = max(self._peak_outside_gb, outside_gb)
        # PyTorch's peak may have occurred between two measurements of the device.
        self._peak_used_gb = max(self._peak_used_gb, self._before_gb + outside_gb + allocator.reserved_peak)
        self._peak_allocated_gb = max(self._peak_allocated_gb, allocator.allocated_peak)
        before_gb = self._before_learning_gb
        if before_gb is not None and allocator.allocated_peak > self._learning_peak_gb:
            self._learning_peak_gb = allocator.allocated_peak
            self._learner_gb = allocator.allocated_peak - before_gb
            self._collecting_gb = self._unknown_gb(before_gb)

    def _unknown_gb(self, allocated_gb: float) -> float:
        """Return the part of an allocation that belongs to neither environment nor rollout nor model."""
        return max(0.0, allocated_gb - self._static_allocated_gb - self._rollout_gb - self._model_gb())

    def _model_gb(self) -> float:
        return sum(tensor.nbytes for tensor in self._model_tensors()) / GB

    def _outside_gb(self, reserved_gb: float) -> float:
        """Return this process's memory outside PyTorch's allocator: context, Warp, libraries. The resident set has none outside.

        It comes from the driver's newest answer if nothing suggests another one.
        """
        if self.device.type != "cuda":
            return 0.0
        now = time.monotonic()
        if self._told_at is None or self._told_at[0] != reserved_gb or now - self._told_at[1] >= ASKED_EVERY_S:
            self._told_gb, self._told_at = self._device_used_gb(), (reserved_gb, now)
        return self._told_gb - self._before_gb - reserved_gb

    def _device_used_gb(self) -> float:
        free_bytes, total_bytes = torch.cuda.mem_get_info(self.device)
        return (total_bytes - free_bytes) / GB - self._ballast_gb

    def _rss_gb(self) -> float:
        return self._process.memory_info().rss / GB

    def _allocator(self) -> Allocator:
        if self.device.type != "cuda":
            resident = (self._rss_gb(), _peak_rss_gb())
            return Allocator(*resident, *resident)
        # Only once, because the GPU waits meanwhile. `torch.cuda.memory_allocated` would flatten and sort all statistics first.
        stats = torch.cuda.memory_stats_as_nested_dict(self.device)
        kinds = (stats["allocated_bytes"]["all"], stats["reserved_bytes"]["all"])
        return Allocator(*(kind[when] / GB for kind in kinds for when in ("current", "peak")))


def model_tensors(
    learned: Mapping[str, torch.Tensor], optimizers: Iterable[torch.optim.Optimizer]
) -> Iterator[torch.Tensor]:
    """Yield the learned tensors (each once: networks may share some), their gradients, and the optimizers' state."""
    for tensor in dict.fromkeys(learned.values()):
        yield tensor
        if tensor.grad is not None:
            yield tensor.grad
    for optimizer in optimizers:
        for state in optimizer.state.values():
            yield from (value for value in state.values() if isinstance(value, torch.Tensor))


def reset_peak_rss() -> None:
    """Let the largest resident set count from now on (proc(5), clear_refs). A sandbox without that file keeps earlier peaks."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def _peak_rss_gb() -> float:
    """Return the largest resident set of this process so far (VmHWM of proc(5))."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024 / GB
    raise OSError("/proc/self/status has no VmHWM line")
