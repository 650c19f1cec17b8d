"""How busy a process is, on average over an iteration, with its GPU: a thread asks the driver, so that no iteration waits for it.

Input: a GPU as `envknee.machine.nvml` finds it. Output: a `Load` whenever one is asked for. Knows neither torch nor Isaac Lab.
"""

import threading
from collections.abc import Sequence
from statistics import fmean

import psutil

from envknee.machine.nvml import Gpu
from envknee.record.schema import Load

PERIOD_S = 0.25
"""Between two looks at a GPU. What NVML tells is an average itself, over up to a second."""


class LoadWatch:
    """Watches this process and one GPU."""

    def __init__(self, gpu: Gpu | None) -> None:
        """Watch `gpu`, where there is one, once started."""
        self._gpu = gpu
        self._process = psutil.Process()
        self._seen: list[dict[str, float | None]] = []
        """What the GPU told, by the name in `Load`, since the last load was taken."""
        self._newest: dict[str, float | None] | None = None
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
            return Load(cpu_percent=cpu_percent)
        with self._lock:
            seen, self._seen = self._seen, []
            newest = self._newest or _look(self._gpu)
        means = {name: _mean([look[name] for look in seen or [newest]]) for name in newest}
        return Load(cpu_percent=cpu_percent, **means)

    def close(self) -> None:
        """Let the thread end."""
        self._ended.set()

    def _watch(self, gpu: Gpu) -> None:
        while not self._ended.wait(PERIOD_S):
            figures = _look(gpu)
            with self._lock:
                self._newest = figures
                self._seen.append(figures)


def _look(gpu: Gpu) -> dict[str, float | None]:
    """Return a GPU's figures of now, by their names in `Load`; None for what the driver does not tell."""
    return {"gpu_percent": gpu.busy_percent(), "gpu_power_w": gpu.power_w()}


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None
