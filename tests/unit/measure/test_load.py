"""A load is an average over what a thread saw since the last one; the GPU's figures are given, the thread and process are real."""

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from envknee.machine.nvml import Gpu
from envknee.measure import load
from envknee.measure.load import LoadWatch


@dataclass(frozen=True)
class Given(Gpu):
    """A GPU whose figures are known beforehand."""

    percents: Iterator[float | None]
    powers_w: Iterator[float | None]

    def busy_percent(self) -> float | None:
        return next(self.percents)

    def power_w(self) -> float | None:
        return next(self.powers_w)


def given(percents: list[float | None], powers_w: list[float | None]) -> Given:
    return Given("GPU-given", None, iter(percents), iter(powers_w))


def test_a_load_is_the_mean_since_the_last_one_and_the_newest_where_nothing_is_newer(monkeypatch):
    monkeypatch.setattr(load, "PERIOD_S", 0.01)
    watch = LoadWatch(given([10.0, 30.0, *[50.0] * 1000], [100.0, None, *[200.0] * 1000]))
    others = set(threading.enumerate())
    watch.start()
    deadline = time.monotonic() + 10
    while len(watch._samples) < 4 and time.monotonic() < deadline:
        time.sleep(0.001)
    watch.close()
    for thread in set(threading.enumerate()) - others:
        thread.join()
    count = len(watch._samples)
    first, second = watch.take(), watch.take()
    assert first.gpu_percent == pytest.approx((40.0 + 50.0 * (count - 2)) / count)
    assert first.gpu_power_w == pytest.approx((100.0 + 200.0 * (count - 2)) / (count - 1))
    assert (second.gpu_percent, second.gpu_power_w) == (50.0, 200.0)


@pytest.mark.alone
def test_before_the_first_look_the_driver_is_asked_and_what_it_does_not_tell_is_none():
    watch = LoadWatch(given([70.0], [None]))
    first = watch.take()
    assert (first.gpu_percent, first.gpu_power_w) == (70.0, None)
    alone = LoadWatch(None)
    alone.start()
    began = time.perf_counter()
    while time.perf_counter() - began < 0.2:
        pass
    sample = alone.take()
    assert sample.cpu_percent is not None and sample.cpu_percent > 10
    assert (sample.gpu_percent, sample.gpu_power_w) == (None, None)


def times(**seconds: float) -> Any:
    """Return CPU seconds since boot as psutil does; those that are not named are 0."""
    now = psutil.cpu_times()
    return now._replace(**dict.fromkeys(now._fields, 0.0) | seconds)


@pytest.mark.parametrize(
    ("own", "machine", "percent"),
    [
        (1.0, times(user=2.0), 100.0),  # both cores of two are busy, one of them for others
        (1.0, times(user=3.0, idle=29.0), 0.0),  # of 32 cores most are free
        (0.5, times(user=0.5, steal=0.75, idle=0.5, iowait=0.25), 0.0),
        (1.0, times(user=1.0, steal=1.0), 100.0),
    ],
)
def test_what_others_use_counts_only_where_no_core_is_free(monkeypatch, own, machine, percent):
    process = SimpleNamespace(cpu_times=iter([times(), times(user=own)]).__next__, cpu_percent=lambda: 0.0)
    monkeypatch.setattr(load.psutil, "Process", lambda: process)
    monkeypatch.setattr(load.time, "monotonic", iter([0.0, 1.0]).__next__)
    monkeypatch.setattr(load.psutil, "cpu_times", iter([times(), machine]).__next__)
    assert LoadWatch(None).take().others_cpu_percent == pytest.approx(percent)


def test_a_kernel_that_hides_its_load_is_told_and_stops_no_trial(monkeypatch):
    def hidden() -> None:
        raise PermissionError("/proc/stat")

    monkeypatch.setattr(load.psutil, "cpu_times", hidden)
    watch = LoadWatch(None)
    watch.start()
    assert watch.take().others_cpu_percent is None
    assert watch.warnings == [load.UNREADABLE]
    assert LoadWatch(None, is_alone=False).warnings == [], "among ranks nobody reads it"
    watch.close()
