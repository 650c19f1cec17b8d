"""Memory of a foreign command, sampled from outside: quickly around its first iterations, for each GPU."""

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from envknee.trainers.command.usage import FIRST_PERIOD_S, FIRST_ROWS, PERIOD_S, Usage, period_s

WAITS = "input()"


@contextmanager
def watched(usage: Usage, script: str = WAITS) -> Iterator["subprocess.Popen[str]"]:
    """Watch a Python process that waits for a line."""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", script], stdin=pipe, stdout=pipe, text=True) as process:
        usage.start(process.pid)
        try:
            yield process
        finally:
            usage.close()
            process.kill()


class FakeGpu:
    """A GPU that says how often it was asked."""

    def __init__(self, used_gb: Sequence[float]) -> None:
        self.answers, self.asked = list(used_gb), 0

    def used_gb(self) -> float:
        answer = self.answers[min(self.asked, len(self.answers) - 1)]
        self.asked += 1
        return answer

    def busy_percent(self) -> float | None:
        return None

    def power_w(self) -> float | None:
        return None


def usage_of(*gpus: FakeGpu) -> Usage:
    fakes: Any = gpus
    return Usage(fakes)


def test_samples_are_quick_until_the_third_row_and_take_little_of_a_core():
    assert 1.0 / period_s(0, 0.0) >= 20.0
    assert [period_s(rows, 0.0005) for rows in range(FIRST_ROWS + 1)] == [FIRST_PERIOD_S] * FIRST_ROWS + [PERIOD_S]
    assert period_s(0, 0.007) == pytest.approx(0.14), "256 processes: 5% of one core"
    assert period_s(0, 1.0) == PERIOD_S


def test_a_peak_of_host_memory_between_two_looks_is_seen():
    # It holds 200 MB for 0.15 s, well within the 0.25 s between two looks.
    script = """
import mmap, time
input()
memory = mmap.mmap(-1, 200_000_000)
for page in range(0, len(memory), mmap.PAGESIZE):
    memory[page] = 1
time.sleep(0.15)
memory.close()
print("freed", flush=True)
input()
"""
    with watched(usage := usage_of(), script) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "freed\n"
        time.sleep(0.3)
        memory, _ = usage.take()
    assert memory.rss_gb < 0.15 and memory.peak_rss_gb > 0.2
    assert memory.device_used_gb is None


def test_gpus_are_asked_quickly_until_the_third_row_only():
    gpu = FakeGpu([1.0])

    def asked_in_a_second() -> int:
        before = gpu.asked
        time.sleep(1.0)
        return gpu.asked - before

    with watched(usage := usage_of(gpu)):
        first = asked_in_a_second()
        for _ in range(FIRST_ROWS):
            usage.take()
        time.sleep(FIRST_PERIOD_S)
        later = asked_in_a_second()
    assert first > 2 * later and later <= 6, (first, later)
