"""A GPU is measured by one trial at a time, by locks of its UUID; what would make CUDA fail later is told before anything starts."""

import os
import re
import stat
import subprocess
import sys
import uuid
from contextlib import ExitStack, nullcontext
from pathlib import Path
from types import SimpleNamespace

import pynvml
import pytest
import torch
from envknee.machine import environment, gpus, nvml
from envknee.machine.nvml import Gpu
from envknee.study.errors import UserError
from programs import a_program
from records import known

UUIDS = ["GPU-a", "GPU-b", "GPU-c"]

HOLDER = """
import sys, time
from envknee.machine import gpus
with gpus.reserved(int(sys.argv[1]), ["GPU-a", "GPU-b", "GPU-c"]) as taken:
    print(*taken, flush=True)
    time.sleep(float(sys.argv[2]))
"""


@pytest.fixture(autouse=True)
def locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let locks of a test be its own."""
    monkeypatch.setenv(gpus.OTHER_LOCKS, str(tmp_path))


def holder(count: int, seconds: float = 60.0) -> "subprocess.Popen[str]":
    """Let another process hold GPUs; its first line names them."""
    command = [sys.executable, "-c", HOLDER, str(count), str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def held_by(process: "subprocess.Popen[str]") -> list[str]:
    return known(process.stdout).readline().split()


def refusal(count: int, uuids: list[str]) -> str:
    with pytest.raises(UserError) as refused, gpus.reserved(count, uuids):
        pass
    return str(refused.value)


def test_trials_side_by_side_get_disjoint_gpus_and_one_that_is_killed_lets_go():
    with gpus.reserved(1, UUIDS) as first, holder(2) as process:
        assert first == ["GPU-a"]
        assert held_by(process) == ["GPU-b", "GPU-c"]
        process.kill()
    with gpus.reserved(3, UUIDS) as taken:
        assert taken == UUIDS


def test_who_finds_too_few_waits_and_takes_none_meanwhile(capsys: pytest.CaptureFixture[str]):
    with holder(2, seconds=1.5) as process:
        assert held_by(process) == ["GPU-a", "GPU-b"]
        with gpus.reserved(2, UUIDS) as taken:
            assert taken == ["GPU-a", "GPU-b"]
        assert capsys.readouterr().err.count("waiting for 2 of 3 devices") == 1


@pytest.mark.parametrize("kind", ["fifo", "link", "folder", "closed"])
def test_what_another_user_put_where_a_lock_belongs_is_told_and_not_waited_for(tmp_path: Path, kind: str):
    lock, elsewhere = tmp_path / "envknee-GPU-a.lock", tmp_path / "elsewhere"
    elsewhere.touch()
    if kind == "fifo":
        os.mkfifo(lock)
    elif kind == "link":
        lock.symlink_to(elsewhere)
    elif kind == "folder":
        lock.mkdir()
    else:
        lock.touch(mode=0o000)
        if os.access(lock, os.R_OK):
            pytest.skip("root opens every file")
    words = r"GPU-a\.lock .*cannot be opened \(.*belongs to user \d+\).*ENVKNEE_LOCKS"
    assert re.search(words, refusal(1, UUIDS))


def test_a_folder_for_locks_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv(gpus.OTHER_LOCKS, str(tmp_path / "none"))
    assert re.search("ENVKNEE_LOCKS=.*/none: expected a folder .* Make it", refusal(1, UUIDS))


def test_every_user_finds_the_same_locks_wherever_temporary_files_go(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """A lock is opened and never written to: one user's is another's, too."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.delenv(gpus.OTHER_LOCKS, raising=False)
    mine, before = gpus.LOCKS / f"envknee-GPU-test-{uuid.uuid4()}.lock", os.umask(0o077)
    try:
        with gpus.reserved(1, [mine.stem.removeprefix("envknee-")]):
            assert stat.S_IMODE(mine.stat().st_mode) == 0o444
    finally:
        os.umask(before)
        mine.unlink()


def test_a_lock_that_was_removed_while_it_was_waited_for_is_none(tmp_path: Path):
    with holder(3) as process:
        assert len(held_by(process)) == 3
        with ExitStack() as held:
            assert not gpus._try_lock(tmp_path / "envknee-GPU-a.lock", held)
            (tmp_path / "envknee-GPU-a.lock").unlink()
            assert gpus._try_lock(tmp_path / "envknee-GPU-a.lock", held)
        process.kill()


def test_trials_on_the_cpu_take_turns_but_not_in_slurms_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    path = tmp_path / f"envknee-{gpus.cpu_name()}.lock"
    with gpus.reserved_for(0) as none, ExitStack() as held:
        assert none == [] and not gpus._try_lock(path, held)
        monkeypatch.setenv("SLURM_JOB_ID", "7")
        with gpus.reserved_for(0) as none:
            assert none == []
    with ExitStack() as held:
        assert gpus._try_lock(path, held)


def test_more_than_there_are_is_refused_and_the_cpu_needs_none():
    for asked, visible, words in (
        (4, 3, "and 3 GPUs are visible .*with 4 NVIDIA GPUs"),
        (1, 0, "and no GPU is visible"),
    ):
        with pytest.raises(UserError, match=f"gpus: {asked} was asked for, {words}"):
            gpus.check_enough(asked, visible)
    with gpus.reserved(0, []) as taken:
        assert taken == []


def test_a_mig_instance_is_known_by_its_own_name(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-1b2c,MIG-9f8e")
    assert gpus.visible_uuids() == ["MIG-1b2c"]


def only_nvidia_smi(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Put a program of that name alone on PATH, and hide no GPU."""
    a_program(folder, "nvidia-smi", "exit 9")
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def test_a_gpu_that_cannot_be_used_is_not_taken_for_a_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)  # here this may be a machine with a GPU that works
    only_nvidia_smi(monkeypatch, tmp_path)
    with pytest.raises(UserError, match=r"gpus: auto finds no GPU.* it has .*/nvidia-smi\..*say gpus: 0"):
        environment.choose_device("auto")
    assert environment.choose_device(0) == "cpu"
    for hidden in gpus.NO_GPU_WANTED:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
        assert environment.choose_device("auto") == "cpu"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")  # one that is not there hides the others by mistake
    with pytest.raises(UserError, match="gpus: auto finds no GPU"):
        environment.choose_device("auto")


def test_a_launcher_does_not_hide_a_gpu_that_is_lost_from_its_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(gpus, "visible_uuids", list)
    only_nvidia_smi(monkeypatch, tmp_path)
    with (
        pytest.raises(UserError, match=r"gpus: auto finds no GPU.* it has .*/nvidia-smi\."),
        gpus.reserved_for("auto"),
    ):
        pass
    with gpus.reserved_for(0) as taken:
        assert taken == []


def test_an_instance_that_nobody_named_is_called_as_nvml_does(monkeypatch: pytest.MonkeyPatch):
    known = {
        "GPU-00000000-0000-0000-0000-000000000007": "a GPU",
        "MIG-00000000-0000-0000-0000-000000000008": "an instance",
    }
    monkeypatch.setattr(gpus.nvml.Gpu, "named", staticmethod(known.get))
    names = {number: gpus.full_name(uuid.UUID(int=number)) for number in (7, 8, 9)}
    assert {name.partition("-")[0] for name in (names[7], names[9])} == {"GPU"} and names[8] in known


def test_without_a_tool_the_loaded_driver_tells_of_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    driver = tmp_path / "version"
    monkeypatch.setattr(gpus, "DRIVER", driver)
    gpus.check_enough("auto", 0)
    driver.write_text("NVRM version: NVIDIA UNIX x86_64 Kernel Module")
    with pytest.raises(UserError, match=f"it has {driver}. Repair the driver"):
        gpus.check_enough("auto", 0)


def has_nvml() -> bool:
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return False
    return True


@pytest.mark.skipif(has_nvml(), reason="this machine has NVIDIA's driver")
def test_a_missing_library_is_told_with_what_to_install():
    with pytest.raises(UserError, match=r"NVML does not start .*libnvidia-ml.so.1 .*--nv"):
        nvml.driver_version()


@pytest.mark.parametrize(
    ("mode", "others", "words"),
    [
        (pynvml.NVML_COMPUTEMODE_DEFAULT, [12], None),
        (pynvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS, [], None),
        (pynvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS, [12, 13], "exclusive use by process 12 .*choose another GPU"),
        (pynvml.NVML_COMPUTEMODE_PROHIBITED, [], "takes no process .*administrator"),
    ],
)
def test_a_gpu_that_takes_no_other_process_is_told(monkeypatch, mode, others, words):
    processes = [SimpleNamespace(pid=pid) for pid in others]
    monkeypatch.setattr(pynvml, "nvmlDeviceGetComputeMode", lambda _: mode)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetComputeRunningProcesses", lambda _: processes)
    with nullcontext() if words is None else pytest.raises(UserError, match=words):
        Gpu("GPU-1", None).check_usable()
