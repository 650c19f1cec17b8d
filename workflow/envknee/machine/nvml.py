"""What NVIDIA's management library (NVML) says of one GPU, found by its UUID: indices change with CUDA_VISIBLE_DEVICES.

Input: the UUID that CUDA gives for a device. Output: memory, load, compute mode, driver. Knows neither torch nor Isaac Lab.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pynvml

from envknee.study.errors import UserError

GB = 1e9

UNTOLD = (pynvml.NVMLError, pynvml.NVMLLibraryMismatchError)
"""What NVML raises where a GPU, a MIG instance or an old driver does not tell something."""

THROTTLING = {
    "power cap": pynvml.nvmlClocksEventReasonSwPowerCap,
    "hardware": pynvml.nvmlClocksEventReasonHwSlowdown,
    "temperature": pynvml.nvmlClocksEventReasonSwThermalSlowdown,
    "temperature (hardware)": pynvml.nvmlClocksEventReasonHwThermalSlowdown,
    "power brake": pynvml.nvmlClocksEventReasonHwPowerBrakeSlowdown,
}
"""Why a clock is held back though the GPU works."""

PROHIBITED, EXCLUSIVE = pynvml.NVML_COMPUTEMODE_PROHIBITED, pynvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS


def start() -> None:
    """Load NVML; calling it again does nothing more.

    Raises:
        UserError: when the library is missing or finds no driver, with what to install or mount.
    """
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise UserError(
            f"NVML does not start ({error}): without it neither memory nor other users of the GPU can be seen."
            " Install the driver's libnvidia-ml.so.1 (in a container: start it with --nv or --gpus)"
        ) from error


def driver_version() -> tuple[str, tuple[int, int]]:
    """Return the driver's version and the newest CUDA (major, minor) that it runs."""
    start()
    cuda = pynvml.nvmlSystemGetCudaDriverVersion_v2()
    return _text(pynvml.nvmlSystemGetDriverVersion()), (cuda // 1000, cuda % 1000 // 10)


def gpu_names() -> list[str]:
    """Return the names of all GPUs of the host, visible to CUDA or not; none where NVML does not start."""
    try:
        start()
        handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
        return [_text(pynvml.nvmlDeviceGetName(handle)) for handle in handles]
    except (UserError, pynvml.NVMLError):
        return []


@dataclass(frozen=True)
class Gpu:
    """One GPU, or one MIG instance."""

    uuid: str
    handle: Any

    @staticmethod
    def find(cuda_uuid: str, index: int = 0) -> "Gpu":
        """Return the GPU of CUDA device `index`; `cuda_uuid` is what torch's properties of it hold, without a prefix.

        A MIG instance is named by its own UUID in CUDA_VISIBLE_DEVICES, which alone tells it from its siblings.

        Raises:
            UserError: when NVML knows no such GPU.
        """
        start()
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
        named = visible[index] if index < len(visible) else ""
        names = [named] if named.startswith("MIG-") else [f"GPU-{cuda_uuid}", f"MIG-{cuda_uuid}"]
        for name in names:
            with suppress(pynvml.NVMLError):
                return Gpu(name, pynvml.nvmlDeviceGetHandleByUUID(name.encode()))
        raise UserError(
            f"NVML knows no GPU {' or '.join(names)}, which CUDA uses. Is the driver's library of another version?"
        )

    @staticmethod
    def named(uuid: str) -> "Gpu | None":
        """Return the GPU or MIG instance of a full name (`GPU-...`, `MIG-...`), or None where NVML does not tell."""
        try:
            start()
            return Gpu(uuid, pynvml.nvmlDeviceGetHandleByUUID(uuid.encode()))
        except (UserError, *UNTOLD):
            return None

    def name(self) -> str:
        """Return what its maker calls it."""
        return _text(pynvml.nvmlDeviceGetName(self.handle))

    def compute_capability(self) -> str | None:
        """Return the version of its instruction set, such as '9.0'; None where NVML does not tell."""
        try:
            return "{}.{}".format(*pynvml.nvmlDeviceGetCudaComputeCapability(self.handle))
        except UNTOLD:
            return None

    def total_gb(self) -> float:
        """Return the memory that it has."""
        memory: Any = pynvml.nvmlDeviceGetMemoryInfo(self.handle, version=pynvml.nvmlMemory_v2)
        return memory.total / GB

    def used_gb(self) -> float:
        """Return what all processes use, without what the driver itself reserves."""
        memory: Any = pynvml.nvmlDeviceGetMemoryInfo(self.handle, version=pynvml.nvmlMemory_v2)
        return memory.used / GB

    def process_gb(self, pid: int) -> float | None:
        """Return what a process uses; None where NVML does not tell: process numbers are the host's, not a container's."""
        try:
            processes = pynvml.nvmlDeviceGetComputeRunningProcesses(self.handle)
        except UNTOLD:
            return None
        used = [process.usedGpuMemory for process in processes if process.pid == pid]
        return used[0] / GB if used and used[0] is not None else None

    def busy_percent(self) -> float | None:
        """Return in how much of the last sampling period some kernel ran; None on a MIG instance."""
        try:
            return float(pynvml.nvmlDeviceGetUtilizationRates(self.handle).gpu)
        except UNTOLD:
            return None

    def power_w(self) -> float | None:
        """Return what the GPU draws, on average over the last second at most; None on a MIG instance."""
        try:
            return pynvml.nvmlDeviceGetPowerUsage(self.handle) / 1000  # of milliwatts
        except UNTOLD:
            return None

    def energy_j(self) -> float | None:
        """Return what the GPU has taken since its driver was loaded; None before Volta and on a MIG instance.

        Upstream: nvmlDeviceGetTotalEnergyConsumption, which counts millijoules.
        """
        try:
            return pynvml.nvmlDeviceGetTotalEnergyConsumption(self.handle) / 1000
        except UNTOLD:
            return None

    def clocks(self) -> dict[str, Any]:
        """Return the clock, the temperature and what holds the clock back, by their names in a `Shared`; None for what is not told."""
        readings: dict[str, Any] = {}
        with suppress(*UNTOLD):
            readings["sm_mhz"] = pynvml.nvmlDeviceGetClockInfo(self.handle, pynvml.NVML_CLOCK_SM)
        with suppress(*UNTOLD):
            readings["temperature_c"] = pynvml.nvmlDeviceGetTemperature(self.handle, pynvml.NVML_TEMPERATURE_GPU)
        with suppress(*UNTOLD):
            reasons = pynvml.nvmlDeviceGetCurrentClocksEventReasons(self.handle)
            readings["throttled_by"] = [name for name, bit in THROTTLING.items() if reasons & bit]
        return readings

    def check_usable(self) -> None:
        """Say what would make CUDA fail later, before a simulation is started.

        Raises:
            UserError: when the GPU's compute mode forbids every process, or another process has it exclusively.
        """
        try:
            mode = pynvml.nvmlDeviceGetComputeMode(self.handle)
            others = [process.pid for process in pynvml.nvmlDeviceGetComputeRunningProcesses(self.handle)]
        except UNTOLD:
            return
        problem = why_not_usable(mode, [pid for pid in others if pid != os.getpid()])
        if problem:
            raise UserError(f"GPU {self.uuid} {problem}")


def why_not_usable(mode: int, others: Sequence[int]) -> str | None:
    """Return why CUDA would fail on a GPU in NVML's compute mode `mode`, with the processes `others` on it. Pure."""
    if mode == PROHIBITED:
        return "takes no process (compute mode PROHIBITED). Ask its administrator for another mode"
    if mode == EXCLUSIVE and others:
        return (
            f"is in exclusive use by process {others[0]} (compute mode EXCLUSIVE_PROCESS)."
            " Wait for that process, or choose another GPU with CUDA_VISIBLE_DEVICES"
        )
    return None


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
