"""What would make CUDA fail later is told before anything starts."""

from contextlib import nullcontext
from types import SimpleNamespace

import pynvml
import pytest
from envknee.machine import nvml
from envknee.machine.nvml import Gpu
from envknee.study.errors import UserError


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
