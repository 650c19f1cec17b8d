"""Reserves GPUs for a trial, among those that CUDA_VISIBLE_DEVICES allows: no two trials on a machine share a GPU.

Input: the number of GPUs. Output: their UUIDs, locked until the caller is done. Imports no torch, and creates no CUDA context.

Locks are files in /tmp (TMPDIR does not matter), which all users of a machine share; a container with its own /tmp does not. Trials on
the CPU also take turns if they may use the same cores. In a SLURM job, CUDA shows only the job's own GPUs, whose locks are free, and
SLURM assigns cores, so there are no locks for the CPU. If a cluster gives one GPU to several jobs (MPS, shards), their trials take
turns by locks in a shared /tmp.
"""

import argparse
import ctypes
import fcntl
import hashlib
import os
import shutil
import stat
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Literal

from envknee.machine import lock, nvml
from envknee.study.errors import ToMend, UserError

POLL_S = 0.5

NO_GPU_WANTED = ("", "-1", "NoDevFiles")
"""Values of CUDA_VISIBLE_DEVICES that hide all GPUs, set by a user, or by SLURM for a job without GPUs."""

DRIVER = Path("/proc/driver/nvidia/version")
"""Exists while NVIDIA's kernel module is loaded, also in containers."""


def visible_uuids() -> list[str]:
    """Return the GPUs that CUDA shows to this process, in CUDA's order: `GPU-...`, or `MIG-...` as the scheduler named them.

    They come from the driver: an index in CUDA_VISIBLE_DEVICES counts in CUDA's order, which is not NVML's.
    Upstream: CUDA Driver API 12, cuDeviceGetUuid_v2.
    """
    listed = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    if listed[0].startswith("MIG-"):
        return listed[:1]  # CUDA shows only one MIG instance to a process
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return []
    count, device, raw = ctypes.c_int(), ctypes.c_int(), (ctypes.c_ubyte * 16)()
    if cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count)):
        return []  # a driver without a GPU
    uuids = []
    for index in range(count.value):
        if cuda.cuDeviceGet(ctypes.byref(device), index) or cuda.cuDeviceGetUuid_v2(raw, device):
            raise UserError(f"CUDA counts {count.value} GPUs and does not tell the UUID of number {index}")
        uuids.append(full_name(uuid.UUID(bytes=bytes(raw))))
    return uuids


def full_name(given: uuid.UUID) -> str:
    """Return the name of a UUID of CUDA's in CUDA_VISIBLE_DEVICES. If the GPU is split, it is the UUID of a MIG instance.

    Upstream: CUDA Driver API 12, cuDeviceGetUuid_v2. Kubernetes and `docker --gpus` show an instance without naming it.
    """
    is_instance = nvml.Gpu.named(f"GPU-{given}") is None and nvml.Gpu.named(f"MIG-{given}") is not None
    return f"{'MIG' if is_instance else 'GPU'}-{given}"


def check_enough(asked: Literal["auto"] | int, visible: int, seen: str = "") -> None:
    """Raise a ToMend if fewer GPUs are visible than an arm's `gpus:` asks for. `seen` adds details.

    With 'auto', if none is, and the machine seems to have one that CUDA_VISIBLE_DEVICES does not hide on purpose: the CPU would be
    measured instead.
    """
    listed = os.environ.get("CUDA_VISIBLE_DEVICES", "unset")
    here = f"here (CUDA_VISIBLE_DEVICES={listed}{seen})"
    if asked != "auto" and asked > visible:
        raise ToMend(
            f"gpus: {asked} was asked for, and {visible or 'no'} GPU{'s are' if visible > 1 else ' is'} visible {here}. Use gpus: 0 to"
            f" run on the CPU, or start on a machine with {asked} NVIDIA GPU{'s' if asked > 1 else ''} and a CUDA build of torch"
        )
    sign = shutil.which("nvidia-smi") or (DRIVER if DRIVER.exists() else None)
    if asked == "auto" and not visible and sign and listed.strip() not in NO_GPU_WANTED:
        raise ToMend(
            f"gpus: auto finds no GPU {here}, and this machine seems to have one: it has {sign}. Repair the driver until `nvidia-smi -L`"
            " lists the GPU (a container is started with --nv or --gpus), set up a CUDA build of torch (`make setup TORCH=cuda`), and"
            " run this again; to measure the CPU, say gpus: 0"
        )


LOCKS, OTHER_LOCKS = Path("/tmp"), "ENVKNEE_LOCKS"  # noqa: S108  see _open_lock
"""The folder of locks, and the variable that names another folder. Only processes with the same folder respect each other's locks."""


def cpu_name() -> str:
    """Return the name of the lock for this process's cores."""
    cores = sorted(os.sched_getaffinity(0))
    return f"cpu-{hashlib.sha256(str(cores).encode()).hexdigest()[:8]}"


@contextmanager
def reserved(count: int, uuids: list[str]) -> Iterator[list[str]]:
    """Lock `count` of the devices `uuids`, waiting until that many are free, and yield their UUIDs.

    It takes all at once or none, so that two trials never wait for each other. The locks end with the process.

    Raises:
        UserError: when a lock's path holds something else.
    """
    folder, is_told = Path(os.environ.get(OTHER_LOCKS, LOCKS)), False
    while True:
        with ExitStack() as held:
            locked = (name for name in uuids if _try_lock(_lock_of(folder, name), held))
            taken = list(islice(locked, count))
            if len(taken) == count:
                yield taken
                return
        if not is_told:
            print(
                f"envknee: waiting for {count} of {len(uuids)} devices: other trials measure on them"
                f" ({'; '.join(_holders(folder, uuids))})",
                file=sys.stderr,
                flush=True,
            )
            is_told = True
        time.sleep(POLL_S)


@contextmanager
def reserved_for(asked: Literal["auto"] | int, most: int = 1) -> Iterator[list[str]]:
    """Lock the GPUs that an arm's `gpus:` asks for (auto: up to `most` of those visible), and yield their UUIDs.

    Raises:
        UserError: when there are too few. With 'auto', also when CUDA shows none although the machine has one.
    """
    visible = visible_uuids()
    check_enough(asked, len(visible))  # in the launcher, too: it hides all GPUs from a trial on the CPU
    count = min(most, len(visible)) if asked == "auto" else asked
    cores = [] if count or "SLURM_JOB_ID" in os.environ else [cpu_name()]
    with reserved(count or len(cores), visible if count else cores) as taken:
        yield taken if count else []


def _holders(folder: Path, uuids: Sequence[str]) -> list[str]:
    """Return who holds each lock: a path, and the process and user if the kernel shows them."""
    holders = []
    for name in uuids:
        path = _lock_of(folder, name)
        with suppress(OSError):  # it was removed, or the kernel shows no locks
            if holder := lock.holder(path):
                holders.append(f"{path}: {holder}")
    return holders or [str(_lock_of(folder, uuids[0]))]


def _lock_of(folder: Path, name: str) -> Path:
    return folder / f"envknee-{name}.lock"


def _try_lock(path: Path, held: ExitStack) -> bool:
    descriptor = _open_lock(path)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # A lock that was removed meanwhile does not count.
        is_held = path.exists() and os.path.samestat(path.stat(), os.fstat(descriptor))
    except BlockingIOError:
        is_held = False
    if is_held:
        held.callback(os.close, descriptor)
        held.enter_context(lock.noted(descriptor))
    else:
        os.close(descriptor)
    return is_held


def _open_lock(path: Path) -> int:
    """Open a lock that any user may have made, in a folder that all may write to. It is never written to.

    Links and what else is no plain file are refused: waiting for them would never end.
    """
    if not path.parent.is_dir():
        raise UserError(
            f"{OTHER_LOCKS}={path.parent}: expected a folder that all users of this machine may write to, and there is none."
            " Make it, or take the variable away"
        )
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    before = os.umask(0)  # each user must be able to open it
    try:
        try:
            descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o444)
        except FileExistsError:
            descriptor = os.open(path, flags)
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return descriptor
        os.close(descriptor)
        why = "it is no plain file"
    except OSError as error:
        why = error.strerror
    finally:
        os.umask(before)
    owner = path.lstat().st_uid if path.is_symlink() or path.exists() else "nobody"
    raise UserError(
        f"{path} keeps trials off a device that another one measures, and cannot be opened ({why}; it belongs to user {owner})."
        f" Have it removed, or name a folder for locks that all users of this machine share in {OTHER_LOCKS}"
    )


def main() -> None:
    """Print how many trials can run side by side here: a number of GPUs, or 1 for the CPU."""
    argparse.ArgumentParser(description=main.__doc__).parse_args()
    print(max(1, len(visible_uuids())))
