"""How busy a process is, on average over an iteration, with its GPU: a thread asks the driver, so that no iteration waits for it.

Input: a GPU as `envknee.machine.nvml` finds it. Output: a `Load` whenever one is asked for. Knows neither torch nor Isaac Lab.
"""

import threading
import time
from collections.abc import Sequence
from statistics import fmean

import psutil

from envknee.machine.nvml import Gpu
from envknee.record.schema import Load

PERIOD_S = 0.25
"""Between two looks at a GPU. What NVML tells is an average itself, over up to a second."""


class LoadWatch:
    """Watches this process and one GPU."""

    def __init__(self, gpu: Gpu | None, is_alone: bool = True) -> None:
        """Watch `gpu`, where there is one, once started; what others take only where no other rank is among them."""
        self._gpu = gpu
        self._process = psutil.Process()
        self._others = _OthersCpu(self._process) if is_alone else None
        self._seen: list[dict[str, float | None]] = []
        """What the GPU told, by the name in `Load`, since the last load was taken."""
        self._newest: dict[str, float | None] | None = None
        self._lock = threading.Lock()
        self._ended = threading.Event()

    def start(self) -> None:
        """Count from here on."""
        self._process.cpu_percent()
        if self._others is not None:
            self._others.percent()
        if self._gpu is not None:
            threading.Thread(target=self._watch, args=(self._gpu,), name="load", daemon=True).start()

    def take(self) -> Load:
        """Return the load since the last call; of a GPU the newest figures, where the driver was not asked meanwhile."""
        cpu_percent = self._process.cpu_percent()
        others = self._others.percent() if self._others is not None else None
        if self._gpu is None:
            return Load(cpu_percent=cpu_percent, others_cpu_percent=others)
        with self._lock:
            seen, self._seen = self._seen, []
            newest = self._newest or _look(self._gpu)
        means = {name: _mean([look[name] for look in seen or [newest]]) for name in newest}
        return Load(cpu_percent=cpu_percent, others_cpu_percent=others, **means)

    def close(self) -> None:
        """Let the thread end."""
        self._ended.set()

    def _watch(self, gpu: Gpu) -> None:
        while not self._ended.wait(PERIOD_S):
            figures = _look(gpu)
            with self._lock:
                self._newest = figures
                self._seen.append(figures)


class _OthersCpu:
    """CPU time of this machine that was not this process's, what other virtual machines took included (proc_stat(5))."""

    def __init__(self, process: psutil.Process) -> None:
        """Count from here on."""
        self._process = process
        self._before = self._now()

    def percent(self) -> float | None:
        """Return what others took since the last call, 100 being one core; None where no time has passed."""
        began, self._before = self._before, self._now()
        wall_s, others_s = (now - before for now, before in zip(self._before, began, strict=True))
        return max(0.0, 100 * others_s / wall_s) if wall_s > 0 else None

    def _now(self) -> tuple[float, float]:
        """Return the clock, and the CPU seconds of others so far."""
        machine, own = psutil.cpu_times(), self._process.cpu_times()
        busy = machine.user + machine.nice + machine.system + machine.irq + machine.softirq + machine.steal
        return time.monotonic(), busy - own.user - own.system


def _look(gpu: Gpu) -> dict[str, float | None]:
    """Return a GPU's figures of now, by their names in `Load`; None for what the driver does not tell."""
    return {"gpu_percent": gpu.busy_percent(), "gpu_power_w": gpu.power_w()}


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None
