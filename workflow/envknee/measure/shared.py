"""Watches a process that measures several trials, and decides whether it may measure another.

The device is back at its baseline when no tensor and no array of the previous trial is left. Libraries stay: kernels, cuDNN, cuBLAS
and their workspaces. A fresh process loads them too, so they count equally in both peaks.
"""

import ctypes
import gc
import os
import socket
from contextlib import suppress

import psutil
import torch
import warp

from envknee.base.point import Point
from envknee.machine.nvml import GB, Gpu
from envknee.measure.memory import reset_peak_rss
from envknee.record.schema import Outcome, Request, Shared
from envknee.record.status import TRAINED

MOST_KEPT_GB = 0.15
"""Limit of tensors, and of Warp's arrays, left after a trial: workspaces of cuBLAS and Warp's own buffers are a few MB each."""

MOST_LIBRARIES_GB = 1.0
"""Limit of other GPU memory above the use before the process: kernels and libraries that stay loaded."""

MOST_NCCL_GB = 1.0
"""Added to that limit if ranks train together: NCCL's buffers of each connection stay as long as the ranks."""

MOST_RESIDENT_SHARE = 0.02
"""Limit of the growth of a CPU's resident set, relative to its size after the first trial, which has loaded all libraries."""


class SharedProcess:
    """Watches one process, which measures all its trials on one device."""

    def __init__(self, world_size: int) -> None:
        self._most_outside_gb = MOST_LIBRARIES_GB + (MOST_NCCL_GB if world_size > 1 else 0.0)
        self._name = f"{socket.gethostname()}:{os.getpid()}:{psutil.Process().create_time():.2f}"
        self.measured = 0
        """How many trials it has measured."""
        self.before_gb = 0.0
        """GPU memory in use by others before this process had a context there."""
        self._previous: Request | None = None
        self._points = set[Point]()
        """What it has measured."""
        self._baseline_resident_gb: float | None = None
        """Resident set after the first trial, on a CPU."""

    def begin(self, device: str, gpu: Gpu | None, point: Point) -> None:
        """Measure the memory left by earlier trials, and reset all peaks; before the first trial, the memory of other processes."""
        self._device, self._gpu = torch.device(device), gpu
        if self.measured == 0:
            self.before_gb = gpu.used_gb() if gpu else 0.0
        torch_gb = warp_gb = outside_gb = 0.0
        counts = True
        if self._device.type != "cuda":
            if baseline_gb := self._baseline_resident_gb:
                outside_gb = self._resident_gb() - baseline_gb
                counts = outside_gb <= MOST_RESIDENT_SHARE * baseline_gb
            reset_peak_rss()
        elif self.measured > 0:
            torch_gb, warp_gb = self._held_gb()
            outside_gb = self._outside_gb()
            torch.cuda.reset_peak_memory_stats(self._device)
            counts = max(torch_gb, warp_gb) <= MOST_KEPT_GB and outside_gb <= self._most_outside_gb
        self._at_begin = Shared(
            process=self._name,
            position=self.measured,
            previous_num_envs=self._previous.num_envs if self._previous else None,
            kept_torch_gb=torch_gb,
            kept_warp_gb=warp_gb,
            kept_outside_gb=outside_gb,
            memory_counts=counts,
            measured_before=point in self._points,
        )

    def state(self) -> Shared:
        """Return the state of the process at the trial's start, with the GPU's current clocks."""
        return self._at_begin.model_copy(update=self._gpu.clocks() if self._gpu else {})

    def end(self, request: Request, outcome: Outcome) -> str | None:
        """Free memory that the trial has left; return why this process must not measure another, or None."""
        self.measured += 1
        self._previous = request
        self._points.add(request.point)
        if outcome.status not in TRAINED:
            return f"its last trial ended with {outcome.status}"
        if self.measured == 1:
            gc.unfreeze()  # the process froze what it had imported, and with it what had begun of the trial
        gc.collect()
        if self.measured == 1:
            gc.freeze()  # a million objects of imports, which are looked through in a second, and only once
        if self._device.type != "cuda":
            with suppress(OSError, AttributeError):  # not every C library has malloc_trim
                ctypes.CDLL(None).malloc_trim(0)
            self._baseline_resident_gb = self._baseline_resident_gb or self._resident_gb()
            return None
        torch.cuda.synchronize(self._device)
        torch._C._cuda_clearCublasWorkspaces()  # 34 MB per stream; cuBLAS makes them again when needed
        torch.cuda.empty_cache()
        torch_gb, warp_gb = self._held_gb()
        if max(torch_gb, warp_gb) > MOST_KEPT_GB:
            return f"{torch_gb:.2f} GB of tensors and {warp_gb:.2f} GB of Warp's arrays of its last trial are left"
        outside_gb = self._outside_gb()
        if outside_gb > self._most_outside_gb:
            return f"{outside_gb:.2f} GB beside tensors and arrays are left, and {self._most_outside_gb:g} is the most"
        return None

    def _held_gb(self) -> tuple[float, float]:
        """Return GPU memory of PyTorch's tensors, and of Warp's arrays."""
        device = warp.device_from_torch(self._device)
        pool = warp.get_mempool_used_mem_current(device) if warp.is_mempool_enabled(device) else 0
        return torch.cuda.memory_allocated(self._device) / GB, pool / GB

    def _outside_gb(self) -> float:
        """Return GPU memory in use above the amount before this process, without PyTorch's reserved memory."""
        free_bytes, total_bytes = torch.cuda.mem_get_info(self._device)
        outside_bytes = total_bytes - free_bytes - torch.cuda.memory_reserved(self._device)
        return outside_bytes / GB - self.before_gb

    def _resident_gb(self) -> float:
        return psutil.Process().memory_info().rss / GB
