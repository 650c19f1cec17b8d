"""How busy a process and its GPU are, on average over an iteration: a thread asks the driver, so that no iteration waits for it.

Input: a GPU as `envknee.nvml` finds it. Output: a `Load` whenever one is asked for. Knows neither torch nor Isaac Lab.
"""

import threading
from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

import psutil

from envknee.nvml import Gpu

PERIOD_S = 0.25
"""Between two looks at a GPU. What NVML tells is an average itself, over up to a second."""


class Load(NamedTuple):
    """Averages since the one before; percent of one core, percent of time and watts."""

    cpu_percent: float
    gpu_percent: float | None
    gpu_power_w: float | None


class LoadWatch:
    """Watches this process and one GPU."""

    def __init__(self, gpu: Gpu | None) -> None:
        """Watch `gpu`, where there is one, once started."""
        self._gpu = gpu
        self._process = psutil.Process()
        self._seen: list[tuple[float | None, float | None]] = []
        """Percent of time and watts, since the last load was taken."""
        self._newest: tuple[float | None, float | None] | None = None
        self._lock = threading.Lock()
        self._ended = threading.Event()

    def start(self) -> None:
        """Count from here on."""
        self._process.cpu_percent()
        if self._gpu is not None:
            threading.Thread(target=self._watch, args=(self._gpu,), name="load", daemon=True).start()

    def take(self) -> Load:
        """Return the load since the last call; of a GPU the newest figures, where the driver was not asked meanwhile."""
        cpu_percent = self._process.cpu_percent()
        if self._gpu is None:
            return Load(cpu_percent, None, None)
        with self._lock:
            seen, self._seen = self._seen, []
            newest = self._newest or _look(self._gpu)
        percents, powers_w = zip(*(seen or [newest]), strict=True)
        return Load(cpu_percent, _mean(percents), _mean(powers_w))

    def close(self) -> None:
        """Let the thread end."""
        self._ended.set()

    def _watch(self, gpu: Gpu) -> None:
        while not self._ended.wait(PERIOD_S):
            found = _look(gpu)
            with self._lock:
                self._newest = found
                self._seen.append(found)


def _look(gpu: Gpu) -> tuple[float | None, float | None]:
    return gpu.busy_percent(), gpu.power_w()


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None
