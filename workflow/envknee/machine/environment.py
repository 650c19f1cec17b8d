"""Host, device, versions and git state of a trial, as an `Environment` for its record."""

import os
import platform
import shutil
import socket
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

import psutil

from envknee.machine import control_group, nvml
from envknee.machine.gpus import check_enough, visible_uuids
from envknee.machine.nvml import Gpu
from envknee.machine.schema import Device, Environment, Image
from envknee.study.errors import UserError

PACKAGES = (
    "isaaclab", "newton", "mujoco-warp", "mujoco", "warp-lang", "torch", "rsl-rl-lib", "tensordict", "gymnasium",
    "numpy", "usd-exchange", "optuna", "snakemake",
    "skrl", "stable-baselines3", "rl-games", "torchrl", "ray", "ovphysx", "ovstage",
)  # fmt: skip
"""Packages whose version can change a result."""

COMMIT = "ENVKNEE_GIT_COMMIT"
"""Environment variable with the commit of the running code, such as `4816d1b-dirty`: in an image, or on a node without the history."""

IMAGE = "ENVKNEE_IMAGE"
"""Environment variable with which the launcher describes a trial's image: its hashes cannot be read from inside."""


def choose_device(gpus: Literal["auto"] | int, local_rank: int = 0) -> str:
    """Return the torch device of a rank: 'cuda:0', 'cuda:1', ... or 'cpu'.

    Raises:
        UserError: when fewer GPUs are visible than asked for, or the rank's GPU cannot be used. With 'auto', also when the machine
            has a GPU that is not visible: the CPU would be measured instead.
    """
    import torch  # imported in functions: a machine that measures foreign commands may have no torch

    visible = torch.cuda.device_count()
    check_enough(gpus, visible, f", torch {torch.__version__}, its CUDA: {torch.version.cuda or 'none'}")
    if not visible or gpus == 0:
        return "cpu"
    device = f"cuda:{local_rank}"
    try:
        torch.cuda.get_device_properties(device)
    except RuntimeError as error:  # torch names what to update if the driver is too old for its build
        raise UserError(
            f"torch {torch.__version__} cannot use {device}: {error}. To run on the CPU, use gpus: 0"
        ) from error
    gpu = gpu_of(device)
    assert gpu is not None, "a CUDA device has a GPU"
    gpu.check_usable()
    return device


def use(device: str, gpu: Gpu | None) -> float:
    """Make this process compute on `device`, with the settings of every trial. Return the GB in use there before, 0 on the CPU."""
    if gpu is None:
        return 0.0
    import torch

    before_gb = gpu.used_gb()  # without this process's own context, which the next line makes
    # Before the first tensor: PyTorch would also make a context on the first GPU, which takes 0.55 GB of an H100 (torch 2.11).
    torch.cuda.set_device(device)
    # Every trainer multiplies float32 matrices as TF32, as `isaaclab train` does with RSL-RL
    # (isaaclab_rl/entrypoints/backends/train_rsl_rl.py of Isaac Lab 3.0.0), and PyTorch in convolutions.
    torch.backends.cuda.matmul.allow_tf32 = True
    return before_gb


def gpu_of(device: str) -> Gpu | None:
    """Return NVML's view of a torch device ('cuda:0', ...), or None for the CPU.

    Raises:
        UserError: when NVML does not start, or knows no such GPU.
    """
    if device == "cpu":
        return None
    nvml.start()
    uuid = visible_uuids()[int(device.removeprefix("cuda:"))]
    if gpu := Gpu.named(uuid):
        return gpu
    raise UserError(f"NVML knows no GPU {uuid}, which CUDA uses. Is the driver's library of another version?")


def device_name() -> str:
    """Return the name of this machine's first GPU that CUDA shows, or without one of its CPU. Needs no torch."""
    gpu = next((found for uuid in visible_uuids() if (found := Gpu.named(uuid))), None)
    return _cpu_model() if gpu is None else gpu.name()


def observe(device: str, memory_cap_gb: float | None = None) -> Environment:
    """Return the environment of this process on `device` ('cpu', 'cuda:0', ...), with at most `memory_cap_gb` of its memory.

    Raises:
        UserError: when the cap is more than the device has.
    """
    import torch

    seen = _cpu()
    if device.startswith("cuda"):
        properties = torch.cuda.get_device_properties(device)
        seen = Device(
            type="cuda",
            name=properties.name,
            uuid=str(properties.uuid),
            memory_gb=properties.total_memory / 1e9,
            compute_capability=f"{properties.major}.{properties.minor}",
            driver=nvml.driver_version()[0],
        )
    if memory_cap_gb is not None and memory_cap_gb > seen.memory_gb:
        raise UserError(
            f"memory_cap_gb {memory_cap_gb:g} is more than {seen.name} has ({seen.memory_gb:.1f} GB):"
            " a device can be made smaller, not larger"
        )
    device_used = seen if memory_cap_gb is None else seen.model_copy(update={"memory_gb": memory_cap_gb})
    installed = {}
    for package in PACKAGES:
        with suppress(PackageNotFoundError):
            installed[package] = version(package)
    return _environment(device_used, torch.get_num_threads(), installed)


def observe_from_outside(gpus: Sequence[Gpu], packages: Mapping[str, str]) -> Environment:
    """Return the environment of another program on this machine: its GPUs (none for the CPU), its own packages. Needs no torch."""
    threads = int(os.environ.get("OMP_NUM_THREADS") or len(os.sched_getaffinity(0)))
    device = _cpu()
    if gpus:
        device = Device(
            type="cuda",
            name=gpus[0].name(),
            uuid=gpus[0].uuid.removeprefix("GPU-").removeprefix("MIG-"),  # as torch names it
            memory_gb=gpus[0].total_gb(),
            compute_capability=gpus[0].compute_capability(),
            driver=nvml.driver_version()[0],
        )
    return _environment(device, threads, packages)


def _environment(device: Device, threads: int, packages: Mapping[str, str]) -> Environment:
    commit, dirty, branch = git_state()
    return Environment(
        host=socket.gethostname(),
        device=device,
        cpu_model=_cpu_model(),
        cpu_cores=len(os.sched_getaffinity(0)),
        cpu_threads=threads,
        python=platform.python_version(),
        packages=dict(packages),
        git_commit=commit,
        git_dirty=dirty,
        git_branch=branch,
        host_memory_gb=_host_memory_bytes() / 1e9,
        image=Image.model_validate_json(image) if (image := os.environ.get(IMAGE)) else None,
    )


def git_state() -> tuple[str | None, bool | None, str | None]:
    """Return (commit, whether tracked files differ from it, branch) of this package's checkout, or three times None."""
    given = os.environ.get(COMMIT)
    if given:
        return given.removesuffix("-dirty"), given.endswith("-dirty"), None
    git = shutil.which("git")
    if git is None:
        return None, None, None
    asked = (["rev-parse", "HEAD"], ["status", "--porcelain", "-uno"], ["rev-parse", "--abbrev-ref", "HEAD"])
    answers = [
        subprocess.run([git, "-C", str(Path(__file__).parent), *words], capture_output=True, text=True, check=False)
        for words in asked
    ]
    if any(answer.returncode for answer in answers):
        return None, None, None
    commit, status, branch = (answer.stdout.strip() for answer in answers)
    return commit, bool(status), branch


def commit_for_inside() -> dict[str, str]:
    """Return `COMMIT` for processes without git; empty without a commit."""
    commit, dirty, _ = git_state()
    if not commit:
        return {}
    return {COMMIT: f"{commit}-dirty" if dirty else commit}


def _cpu() -> Device:
    return Device(type="cpu", name=_cpu_model(), uuid=None, memory_gb=_host_memory_bytes() / 1e9)


def _host_memory_bytes() -> int:
    """Return the host's memory, or the control group's limit if smaller (a SLURM job, a container)."""
    total = psutil.virtual_memory().total
    limit = control_group.memory_limit_bytes()
    return total if limit is None else min(total, limit)


def _cpu_model() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
