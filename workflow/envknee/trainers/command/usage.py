"""Measures memory, power and load of a foreign command from outside: of its processes, and of the GPUs locked for it.

Input: a process and GPUs. Output: `MemoryUse` and `Load` for a row. A thread samples four times a second, and memory 25 times until
the third row: a peak between two samples can be missed. NVML's list of processes fails in containers. So the GPU memory used before the
command started is subtracted instead.
"""

import os
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from statistics import fmean

import psutil

from envknee.machine.nvml import GB, Gpu
from envknee.record.schema import Load, MemoryUse

PERIOD_S, LEAST_S = 0.25, 0.1
"""Time between samples; and the age at which a row replaces the last sample by a new one, so that short programs are sampled too."""

FIRST_ROWS, FIRST_PERIOD_S = 3, 0.04
"""Until so many rows, memory is sampled 25 times a second: a first iteration's peak is short, and often the largest."""

MOST_SHARE = 0.05
"""Most CPU time of quick samples, as a share of one core. One takes 15 us for each process: of more than 100 they are fewer."""

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

SAMPLED = f"memory was sampled every {PERIOD_S:g} s from outside: a peak between two samples can be missed"


@dataclass
class Peaks:
    """Samples since the last row."""

    began_s: float = field(default_factory=time.monotonic)
    cpu_s: float = 0.0
    used_gb: list[float] | None = None
    """Of each GPU."""
    busy: list[list[float]] = field(default_factory=list)
    """Samples, each with the share of each GPU that says one."""
    power_w: list[float] = field(default_factory=list)


class Usage:
    """Watches a process with its descendants, and GPUs."""

    def __init__(self, gpus: Sequence[Gpu]) -> None:
        """Note the GPU memory in use before the command starts."""
        self._gpus = gpus
        self._before_gb = [gpu.used_gb() for gpu in gpus]
        self._peaks = Peaks()
        self._rss_gb = self._peak_rss_gb = 0.0
        self._cpu_s: dict[int, float] = {}
        self._looked_s = time.monotonic()
        self._processes: list[psutil.Process] = []
        """The process tree at the last look."""
        self._sample_s = 0.0
        """CPU time that the last quick sample took."""
        self._lock = threading.RLock()
        self._ended = threading.Event()
        self._rows = 0
        self._process: psutil.Process | None = None

    @property
    def gpus(self) -> int:
        """GPUs that are watched."""
        return len(self._gpus)

    @property
    def before_gb(self) -> float | None:
        """Memory in use on the fullest GPU before the command started; None on a CPU."""
        return max(self._before_gb, default=None)

    def start(self, pid: int) -> None:
        """Start to watch a process and its descendants."""
        self._process = psutil.Process(pid)
        self._peaks = Peaks()
        self._look()
        threading.Thread(target=self._watch, name="usage", daemon=True).start()

    def take(self) -> tuple[MemoryUse, Load]:
        """Return memory and load since the last call."""
        now_s = time.monotonic()
        with self._lock:
            self._rows += 1
            if now_s - self._looked_s >= LEAST_S:
                self._look()
            peaks, self._peaks = self._peaks, Peaks(began_s=now_s)
            if peaks.used_gb is None and self._gpus:
                peaks.used_gb = self._used_gb()
            used_gb = peaks.used_gb or []
            elapsed_s = now_s - peaks.began_s
            memory = MemoryUse(
                rss_gb=self._rss_gb,
                peak_rss_gb=self._peak_rss_gb,
                device_used_gb=max(used_gb, default=None),
                gpus_used_gb=used_gb if len(used_gb) > 1 else None,
            )
        # Rows that arrive together have too little time between them for a load.
        load = Load(
            cpu_percent=100.0 * peaks.cpu_s / elapsed_s if elapsed_s >= PERIOD_S else None,
            gpu_percent=fmean(map(fmean, peaks.busy)) if peaks.busy else None,
            gpus_percent=self._busy_of_each(peaks.busy),
            gpu_power_w=fmean(peaks.power_w) if peaks.power_w else None,
        )
        return memory, load

    def close(self) -> None:
        """End the thread."""
        self._ended.set()

    def _watch(self) -> None:
        due_s = time.monotonic()
        while not self._ended.wait(max(0.0, due_s - time.monotonic())):
            due_s = time.monotonic() + period_s(self._rows, self._sample_s)
            if time.monotonic() - self._looked_s > PERIOD_S - FIRST_PERIOD_S:
                self._look()
            else:
                began_s = time.thread_time()
                self._sample_memory()
                self._sample_s = time.thread_time() - began_s

    def _look(self) -> None:
        with self._lock:
            self._looked_s = time.monotonic()
            self._processes = self._tree()
            self._sample_memory()
            self._add_cpu_time()
            if busy := [share for gpu in self._gpus if (share := gpu.busy_percent()) is not None]:
                self._peaks.busy.append(busy)
            if power_w := [watts for gpu in self._gpus if (watts := gpu.power_w()) is not None]:
                self._peaks.power_w.append(sum(power_w))

    def _busy_of_each(self, samples: Sequence[Sequence[float]]) -> list[float] | None:
        """Return each GPU's mean share; None with one GPU, or unless all of them say theirs."""
        whole = [sample for sample in samples if len(sample) == len(self._gpus)]
        return [fmean(shares) for shares in zip(*whole, strict=True)] if whole and len(self._gpus) > 1 else None

    def _sample_memory(self) -> None:
        """Update the peaks. The process tree is that of the last look: listing it takes ten times as long as reading its memory."""
        with self._lock:
            rss_gb = self._resident_gb()
            if rss_gb > 0.0:
                self._rss_gb, self._peak_rss_gb = rss_gb, max(self._peak_rss_gb, rss_gb)
            if self._gpus:
                used_gb = self._used_gb()
                self._peaks.used_gb = list(map(max, self._peaks.used_gb or used_gb, used_gb))

    def _tree(self) -> list[psutil.Process]:
        """Return the process and its descendants."""
        assert self._process is not None, "start() comes first"
        with suppress(psutil.NoSuchProcess):
            return [self._process, *self._process.children(recursive=True)]
        return []

    def _resident_gb(self) -> float:
        """Return the resident memory of the process tree, with shared pages counted in each process."""
        return sum(resident_bytes(process.pid) for process in self._processes) / GB

    def _add_cpu_time(self) -> None:
        """Add the CPU time of the process tree since the last look."""
        for process in self._processes:
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                times = process.cpu_times()
                seconds = times.user + times.system
                self._peaks.cpu_s += seconds - self._cpu_s.get(process.pid, 0.0)
                self._cpu_s[process.pid] = seconds

    def _used_gb(self) -> list[float]:
        """Return the memory [GB] added on each GPU since before the command."""
        pairs = zip(self._gpus, self._before_gb, strict=True)
        return [max(0.0, gpu.used_gb() - before_gb) for gpu, before_gb in pairs]


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process, 0 if it has ended (proc(5), statm). psutil and pathlib take twice as long."""
    try:
        statm = os.open(f"/proc/{pid}/statm", os.O_RDONLY)
    except OSError:
        return 0
    try:
        return int(os.read(statm, 128).split()[1]) * PAGE_BYTES
    except OSError:
        return 0
    finally:
        os.close(statm)


def period_s(rows: int, sample_s: float) -> float:
    """Return the time until the next sample, after so many rows, where a sample takes `sample_s` of CPU time."""
    if rows >= FIRST_ROWS:
        return PERIOD_S
    return min(PERIOD_S, max(FIRST_PERIOD_S, sample_s / MOST_SHARE))
