"""Checks whether `fused` runs here: an NVIDIA GPU with tensor cores, Triton, a C compiler and Python's headers for Triton."""

import importlib.util
import os
import shutil
import sysconfig
from pathlib import Path

import torch


def why_not(device: torch.device) -> str | None:
    """Return why networks on a device cannot use `leanframes.fused`, or None."""
    if device.type != "cuda" or torch.version.cuda is None:
        return f"it needs an NVIDIA GPU, and this is {device}"
    capability = torch.cuda.get_device_capability(device)
    if capability < (8, 0):
        return f"it needs tensor cores for bfloat16, compute capability 8.0 or newer, and this GPU has {capability}"
    if importlib.util.find_spec("triton") is None:
        return "it needs Triton, which comes with PyTorch for CUDA"
    if not can_build_launchers():
        return "Triton needs a C compiler and Python's headers (on Debian: apt-get install gcc libc6-dev python3-dev)"
    return None


def can_build_launchers() -> bool:
    """Return whether Triton can compile the C code that launches its kernels (triton 3.6, runtime/build.py)."""
    compiler = os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")
    return compiler is not None and (Path(sysconfig.get_paths()["include"]) / "Python.h").exists()
