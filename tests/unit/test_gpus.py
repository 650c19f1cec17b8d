"""A GPU is measured by one trial at a time: locks by UUID."""

import subprocess
import sys
import time
from pathlib import Path

import pytest
from envknee import gpus
from envknee.errors import UserError

UUIDS = ["GPU-a", "GPU-b", "GPU-c"]

HOLDER = """
import sys, time
from pathlib import Path
from envknee import gpus
with gpus.reserved(int(sys.argv[1]), ["GPU-a", "GPU-b", "GPU-c"], Path(sys.argv[2])) as taken:
    print(*taken, flush=True)
    time.sleep(float(sys.argv[3]))
"""


def holder(count: int, folder: Path, seconds: float = 60.0) -> "subprocess.Popen[str]":
    """Let another process hold GPUs; its first line names them."""
    command = [sys.executable, "-c", HOLDER, str(count), str(folder), str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def held_by(process: "subprocess.Popen[str]") -> list[str]:
    assert process.stdout is not None
    return process.stdout.readline().split()


def test_trials_side_by_side_get_disjoint_gpus(tmp_path: Path):
    with gpus.reserved(1, UUIDS, tmp_path) as first, holder(2, tmp_path) as process:
        assert first == ["GPU-a"]
        assert held_by(process) == ["GPU-b", "GPU-c"]
        process.kill()


def test_who_finds_too_few_waits_and_takes_none_meanwhile(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    with holder(2, tmp_path, seconds=1.5) as process:
        assert held_by(process) == ["GPU-a", "GPU-b"]
        began = time.monotonic()
        with gpus.reserved(2, UUIDS, tmp_path) as taken:
            assert taken == ["GPU-a", "GPU-b"] and time.monotonic() - began > 0.5
        assert capsys.readouterr().err.count("waiting for 2 of 3 GPUs") == 1


def test_a_process_that_is_killed_lets_go(tmp_path: Path):
    with holder(3, tmp_path) as process:
        assert len(held_by(process)) == 3
        process.kill()
    with gpus.reserved(3, UUIDS, tmp_path) as taken:
        assert taken == UUIDS


def test_more_than_there_are_is_refused_and_the_cpu_needs_none(tmp_path: Path):
    with (
        pytest.raises(UserError, match=r"gpus: 4 was asked for, and 3 GPUs are visible .*with 4 NVIDIA GPUs"),
        gpus.reserved(4, UUIDS, tmp_path),
    ):
        pass
    with pytest.raises(UserError, match="and no GPU is visible"), gpus.reserved(1, [], tmp_path):
        pass
    with gpus.reserved(0, [], tmp_path) as taken:
        assert taken == []


def test_a_mig_instance_is_known_by_its_own_name(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-1b2c,MIG-9f8e")
    assert gpus.visible_uuids() == ["MIG-1b2c"]
