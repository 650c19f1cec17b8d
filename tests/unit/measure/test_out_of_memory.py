"""Lack of memory is recognized by the errors that libraries really raise. Kills by the kernel: test_launch, test_machine."""

import importlib

import numpy
import pytest
import torch
from envknee.measure.out_of_memory import is_out_of_memory, own_errors_of_ray, requested_gb
from needs import need


def test_real_errors_are_recognized_and_others_are_not():
    with pytest.raises(RuntimeError) as of_torch:
        torch.empty(2**60, dtype=torch.uint8)
    assert is_out_of_memory(of_torch.value) and requested_gb(str(of_torch.value)) == 2**60 / 1e9
    with pytest.raises(MemoryError) as of_numpy:
        numpy.empty(2**60, dtype=numpy.uint8)
    assert is_out_of_memory(of_numpy.value)
    assert is_out_of_memory(torch.OutOfMemoryError("without the usual words"))
    assert not is_out_of_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
    assert not is_out_of_memory(ValueError("out of memory"))


@pytest.mark.parametrize(
    ("message", "gb"),
    [
        ("CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 79.18 GiB", 20 * 2**30 / 1e9),
        ("CUDA out of memory. Tried to allocate 2.50 MiB.", 2.5 * 2**20 / 1e9),
        ("Failed to allocate 1234000000 bytes on device 'cuda:0'", 1.234),
        ("mat1 and mat2 shapes cannot be multiplied", None),
    ],
)
def test_what_was_asked_for_is_read_from_the_error(message, gb):
    assert requested_gb(message) == gb


def test_an_error_in_a_worker_of_ray_is_the_workers_own():
    need("ray")
    exceptions = importlib.import_module("ray.exceptions")
    with pytest.raises(MemoryError, match="the node ran low"), own_errors_of_ray():
        raise exceptions.OutOfMemoryError("the node ran low")
    with pytest.raises(KeyError), own_errors_of_ray():
        raise exceptions.RayTaskError("collect", "its traceback", KeyError("joint"))
