"""Measures the mean load of a process and its GPU over an iteration. On a GPU a thread asks, so that no iteration waits."""

import threading
import time
from collections import deque
from collections.abc import Sequence
from statistics import fmean

import psutil

from envknee.machine.nvml import Gpu
from envknee.record.schema import Load

PERIOD_S = 1.0
"""Time between two samples. NVML's figures are averages over up to a second themselves, and a thread that asks more often makes the
one that trains wait: 1% at 1,024 environments with lean frames on an H100."""


UNREADABLE = (
    "the load of other processes cannot be read here (as in some containers): verdicts take this machine as undisturbed, so run nothing"
    " beside a study"
)


class LoadWatch:
    """Watches this process and one GPU."""

    def __init__(self, gpu: Gpu | None, is_alone: bool = True) -> None:
        """Prepare to watch this process, `gpu` if given, and the CPU time of others if this rank `is_alone` on its machine."""
        self._gpu = gpu
        self._is_alone = is_alone
        self._process = psutil.Process()
        self._cpu_times = self._now()
        self._samples: deque[dict[str, float | None]] = deque()  # the thread appends while `take` pops
        """Figures since the last `take`, by their names in `Load`."""
        self._newest: dict[str, float | None] | None = None
        self._asking = threading.Lock()
        self._ended = threading.Event()

    def start(self) -> None:
        """Start measuring."""
        self._process.cpu_percent()
        self._cpu_times = self._now()
        if self._gpu is not None:  # on a CPU an iteration is long, and asking the kernel alone takes no time
            threading.Thread(target=self._watch, name="load", daemon=True).start()

    def take(self) -> Load:
        """Return the mean load since the last call. Without a new sample it holds the newest one."""
        samples = [self._samples.popleft() for _ in range(len(self._samples))] or [self._newest or self._sample()]
        return Load.model_validate({name: _mean([sample[name] for sample in samples]) for name in samples[0]})

    def close(self) -> None:
        """End the thread."""
        self._ended.set()

    def _watch(self) -> None:
        while not self._ended.wait(PERIOD_S):
            self._newest = self._sample()
            self._samples.append(self._newest)

    def _sample(self) -> dict[str, float | None]:
        """Return the load since the last sample by its names in `Load`; None for figures that kernel or driver do not know."""
        with self._asking:
            return {
                "cpu_percent": self._process.cpu_percent(),
                "others_cpu_percent": self._others_percent() if self._is_alone else None,
                "gpu_percent": self._gpu.busy_percent() if self._gpu else None,
                "gpu_power_w": self._gpu.power_w() if self._gpu else None,
            }

    def _others_percent(self) -> float | None:
        """Return the CPU time of all other processes since the last sample, 100 being one core; None if no time has passed.

        It is the time beyond cores that were free (on a machine of 32 cores a process next door takes nothing from a trial), with time
        stolen by other virtual machines (proc_stat(5)).
        """
        before, self._cpu_times = self._cpu_times, self._now()
        if before is None or self._cpu_times is None:
            return None
        wall_s, others_s = (end - begin for end, begin in zip(self._cpu_times, before, strict=True))
        return max(0.0, 100 * others_s / wall_s) if wall_s > 0 else None

    @property
    def warnings(self) -> list[str]:
        """What a reader must know about the figures."""
        return [UNREADABLE] if self._is_alone and self._cpu_times is None else []

    def _now(self) -> tuple[float, float] | None:
        """Return the monotonic clock, and the CPU seconds of others less those of free cores since boot; None where a kernel hides them."""
        try:
            machine, process = psutil.cpu_times(), self._process.cpu_times()
        except (OSError, psutil.Error, AttributeError, NotImplementedError):
            return None
        busy = machine.user + machine.nice + machine.system + machine.irq + machine.softirq + machine.steal
        return time.monotonic(), busy - process.user - process.system - machine.idle - machine.iowait


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None
