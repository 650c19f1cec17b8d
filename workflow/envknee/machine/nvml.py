"""One GPU in NVIDIA's management library (NVML), found by its UUID, because indices change with CUDA_VISIBLE_DEVICES. Imports no torch."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pynvml

from envknee.study.errors import UserError

GB = 1e9

UNTOLD = (pynvml.NVMLError, pynvml.NVMLLibraryMismatchError)
"""NVML's errors for a value that a GPU, a MIG instance or an old driver does not provide."""

THROTTLING = {
    "power cap": pynvml.nvmlClocksEventReasonSwPowerCap,
    "hardware": pynvml.nvmlClocksEventReasonHwSlowdown,
    "temperature": pynvml.nvmlClocksEventReasonSwThermalSlowdown,
    "temperature (hardware)": pynvml.nvmlClocksEventReasonHwThermalSlowdown,
    "power brake": pynvml.nvmlClocksEventReasonHwPowerBrakeSlowdown,
}
"""Reasons for a reduced clock of a working GPU."""


def start() -> None:
    """Load NVML, or raise a UserError that says what to install or mount. Calling it again does nothing."""
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
    return pynvml.nvmlSystemGetDriverVersion(), (cuda // 1000, cuda % 1000 // 10)


def is_only_gpu(name: str) -> bool:
    """Tell whether a full name is that of the only GPU which this container, job or machine has. A MIG instance has no other name."""
    try:
        start()
        return name.startswith("GPU-") and "," not in name and pynvml.nvmlDeviceGetCount() == 1
    except (UserError, *UNTOLD):
        return False


@dataclass(frozen=True)
class Gpu:
    """One GPU, or one MIG instance."""

    uuid: str
    handle: Any

    @staticmethod
    def named(uuid: str) -> "Gpu | None":
        """Return the GPU or MIG instance of a full name (`GPU-...`, `MIG-...`), or None if NVML does not know it."""
        try:
            start()
            return Gpu(uuid, pynvml.nvmlDeviceGetHandleByUUID(uuid.encode()))
        except (UserError, *UNTOLD):
            return None

    def name(self) -> str:
        """Return the GPU's name."""
        return pynvml.nvmlDeviceGetName(self.handle)

    def compute_capability(self) -> str | None:
        """Return the compute capability, such as '9.0'; None if NVML does not know it."""
        capability = self._told(pynvml.nvmlDeviceGetCudaComputeCapability)
        return capability and "{}.{}".format(*capability)

    def total_gb(self) -> float:
        """Return the size of the memory."""
        memory: Any = pynvml.nvmlDeviceGetMemoryInfo(self.handle, version=pynvml.nvmlMemory_v2)
        return memory.total / GB

    def used_gb(self) -> float:
        """Return the memory that all processes use, without the driver's own."""
        memory: Any = pynvml.nvmlDeviceGetMemoryInfo(self.handle, version=pynvml.nvmlMemory_v2)
        return memory.used / GB

    def busy_percent(self) -> float | None:
        """Return the share of the last sampling period in which a kernel ran; None on a MIG instance."""
        rates = self._told(pynvml.nvmlDeviceGetUtilizationRates)
        return None if rates is None else float(rates.gpu)

    def power_w(self) -> float | None:
        """Return the mean power over at most the last second; None on a MIG instance."""
        milliwatts = self._told(pynvml.nvmlDeviceGetPowerUsage)
        return None if milliwatts is None else milliwatts / 1000

    def energy_j(self) -> float | None:
        """Return the energy since the driver was loaded; None before Volta and on a MIG instance."""
        millijoules = self._told(pynvml.nvmlDeviceGetTotalEnergyConsumption)
        return None if millijoules is None else millijoules / 1000

    def clocks(self) -> dict[str, Any]:
        """Return clock, temperature and reasons for a reduced clock, by their names in `Shared`, as far as NVML knows them."""
        reasons = self._told(pynvml.nvmlDeviceGetCurrentClocksEventReasons)
        readings = {
            "sm_mhz": self._told(pynvml.nvmlDeviceGetClockInfo, pynvml.NVML_CLOCK_SM),
            "temperature_c": self._told(pynvml.nvmlDeviceGetTemperature, pynvml.NVML_TEMPERATURE_GPU),
            "throttled_by": None if reasons is None else [name for name, bit in THROTTLING.items() if reasons & bit],
        }
        return {name: reading for name, reading in readings.items() if reading is not None}

    def _told(self, ask: Callable[..., Any], *more: int) -> Any:
        """Return NVML's answer about this GPU, or None if it has none."""
        try:
            return ask(self.handle, *more)
        except UNTOLD:
            return None

    def check_usable(self) -> None:
        """Raise a UserError if this GPU's compute mode forbids every process, or another process has it exclusively."""
        mode = self._told(pynvml.nvmlDeviceGetComputeMode)
        pids = [process.pid for process in self._told(pynvml.nvmlDeviceGetComputeRunningProcesses) or []]
        others = [pid for pid in pids if pid != os.getpid()]
        if mode == pynvml.NVML_COMPUTEMODE_PROHIBITED:
            raise UserError(
                f"GPU {self.uuid} takes no process (compute mode PROHIBITED). Ask its administrator for another mode"
            )
        if mode == pynvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS and others:
            raise UserError(
                f"GPU {self.uuid} is in exclusive use by process {others[0]} (compute mode EXCLUSIVE_PROCESS)."
                " Wait for that process, or choose another GPU with CUDA_VISIBLE_DEVICES"
            )
