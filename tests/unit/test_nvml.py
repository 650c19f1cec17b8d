"""What would make CUDA fail later is told before anything starts."""

import re

import pynvml
import pytest
from envknee.machine import nvml
from envknee.machine.nvml import why_not_usable
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
    assert nvml.gpu_names() == []


@pytest.mark.parametrize(
    ("mode", "others", "words"),
    [
        (pynvml.NVML_COMPUTEMODE_DEFAULT, [12], None),
        (pynvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS, [], None),
        (pynvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS, [12, 13], "exclusive use by process 12 .*choose another GPU"),
        (pynvml.NVML_COMPUTEMODE_PROHIBITED, [], "takes no process .*administrator"),
    ],
)
def test_a_gpu_that_takes_no_other_process_is_told(mode, others, words):
    problem = why_not_usable(mode, others)
    assert (problem is None) if words is None else re.search(words, problem or "") is not None
