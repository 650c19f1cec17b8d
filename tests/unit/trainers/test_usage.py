"""Memory of a foreign command, sampled from outside: quickly around its first iterations, for each GPU."""

import io
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from envknee.decide.study import decide
from envknee.record.read import load_record
from envknee.show import report, terminal
from envknee.study.paths import StudyFolder
from envknee.tracking.describe import describe_trial
from envknee.tracking.system import system_metrics
from envknee.trainers.command.usage import FIRST_PERIOD_S, FIRST_ROWS, PERIOD_S, Usage, period_s, resident_bytes
from envknee.words.gpu_peaks import gpu_peaks_table
from places import PROGRAMS
from records import GPU, Trial, a_study, a_trial, records_of, write_study
from rich.console import Console

WAITS = ("-c", "input()")


@contextmanager
def watched(usage: Usage, *program: str) -> Iterator["subprocess.Popen[str]"]:
    """Watch a Python process; by default one that waits for a line."""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, *(program or WAITS)], stdin=pipe, stdout=pipe, text=True) as process:
        usage.start(process.pid)
        try:
            yield process
        finally:
            usage.close()
            process.kill()


class FakeGpu:
    """A GPU that says how often it was asked."""

    def __init__(self, used_gb: Sequence[float], busy: float | None = None) -> None:
        self.answers, self.asked, self.busy = list(used_gb), 0, busy

    def used_gb(self) -> float:
        answer = self.answers[min(self.asked, len(self.answers) - 1)]
        self.asked += 1
        return answer

    def busy_percent(self) -> float | None:
        return self.busy

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


@pytest.mark.alone
def test_a_peak_of_host_memory_between_two_looks_is_seen():
    with watched(usage := usage_of(), str(PROGRAMS / "hold_memory.py")) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "freed\n"
        time.sleep(0.3)
        memory, _ = usage.take()
    assert memory.rss_gb < 0.15 and memory.peak_rss_gb > 0.2
    assert memory.device_used_gb is None


def test_the_resident_set_is_that_of_the_system():
    own = psutil.Process().memory_info().rss
    assert resident_bytes(os.getpid()) == pytest.approx(own, rel=0.05)
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pass
    assert resident_bytes(ended.pid) == 0


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


def test_of_several_gpus_each_has_its_peak_and_the_fullest_counts():
    gpus = FakeGpu([1.0, 3.5, 2.0]), FakeGpu([2.0, 2.5])
    with watched(usage := usage_of(*gpus)):
        time.sleep(0.3)
        memory, _ = usage.take()
    assert memory.gpus_used_gb == [2.5, 0.5], "less what was in use before"
    assert memory.device_used_gb == 2.5
    with watched(alone := usage_of(FakeGpu([1.0, 3.5]))):
        memory, _ = alone.take()
    assert (memory.device_used_gb, memory.gpus_used_gb) == (2.5, None)
    assert "gpus_used_gb" not in memory.model_dump_json(), "rows of earlier versions stay the same"


@pytest.mark.parametrize(
    ("busy", "mean", "each"), [((60.0, 0.0), 30.0, [60.0, 0.0]), ((60.0,), 60.0, None), ((60.0, None), 60.0, None)]
)
def test_of_several_gpus_each_has_its_load(busy: Sequence[float | None], mean: float, each: list[float] | None):
    with watched(usage := usage_of(*(FakeGpu([1.0], share) for share in busy))):
        time.sleep(0.3)
        _, load = usage.take()
    assert (load.gpu_percent, load.gpus_percent) == (mean, each)


def of_two_gpus(num_envs: int, *peaks_gb: list[float], **about: Any) -> Trial:
    """Return a trial whose rows have the memory of each GPU."""
    trial = a_trial(num_envs, device=GPU, memory_gb=1.0, **about)
    rows = [
        row.model_copy(update={"memory": row.memory.model_copy(update={"device_used_gb": max(gb), "gpus_used_gb": gb})})
        for row, gb in zip(trial.rows, (*peaks_gb, *[peaks_gb[-1]] * len(trial.rows)), strict=False)
    ]
    return replace(trial, rows=rows)


def test_the_table_of_gpus_has_the_largest_of_all_rows_and_repeats():
    trials = [
        of_two_gpus(16, [9.0, 4.0], [8.0, 5.0]),
        of_two_gpus(16, [8.0, 6.0], number=1, repeat=1),
        of_two_gpus(32, [12.0, 10.0], number=2),
        of_two_gpus(64, [1.0, 1.0], number=3, status="oom"),
        a_trial(128, number=4, device=GPU),
    ]
    records = records_of(trials)
    assert [record.gpu_peaks_gb for record in records[:3]] == [[9.0, 5.0], [8.0, 6.0], [12.0, 10.0]]
    assert records[4].gpu_peaks_gb is None and "gpu_peaks_gb" not in records[4].model_dump_json()
    verdict = decide(records, a_study())
    assert gpu_peaks_table(verdict).columns[-2:] == ("GPU 0", "GPU 1")
    assert gpu_peaks_table(verdict).rows == [
        ("stock", "16", "8", "128", "9.00", "6.00"),
        ("stock", "32", "8", "128", "12.00", "10.00"),
    ]
    stream = io.StringIO()
    terminal.print_summary(verdict, StudyFolder(Path("results/demo")), Console(file=stream, width=100))
    assert "Peak memory of each GPU, GB" in stream.getvalue() and "9.00" in stream.getvalue()
    page = report.page(verdict, [], {})
    assert "<summary>Peak memory of each GPU, GB</summary>" in page and "<td>6.00</td>" in page


def test_each_gpu_of_a_command_has_a_curve_and_a_peak_in_mlflow(tmp_path):
    folder = write_study(tmp_path / "demo", a_study(), [of_two_gpus(16, [9.0, 4.0], [8.0, 5.0])])
    latest = {metric.key: metric.value for metric in describe_trial(load_record(folder.trial(0)), folder).metrics}
    assert [latest[f"memory/gpus_used_gb/{gpu}"] for gpu in (0, 1)] == [8.0, 5.0]
    assert [latest[f"summary/gpu_peaks_gb/{gpu}"] for gpu in (0, 1)] == [9.0, 5.0]


def test_a_study_without_such_a_command_has_no_table_of_gpus():
    verdict = decide(records_of([a_trial(16, device=GPU)]), a_study())
    assert gpu_peaks_table(verdict).rows == [] and "gpu_peaks" not in verdict.model_dump_json()
    assert "Peak memory of each GPU" not in report.page(verdict, [], {})


def test_mlflow_has_a_curve_for_each_gpu():
    shown = system_metrics(of_two_gpus(16, [42.5, 17.0]).rows[0], GPU)
    assert [shown[f"system/gpu_{gpu}_memory_usage_megabytes"] for gpu in (0, 1)] == [42_500.0, 17_000.0]
    assert shown["system/gpu_1_memory_usage_percentage"] == pytest.approx(20.0)
