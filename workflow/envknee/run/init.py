"""`envknee init FOLDER --task TASK`: a first study of a task, with its own settings and sizes for this machine's GPU.

Input: the name of a registered task. Output: FOLDER/study.yaml, and the plan of that study.
"""

import argparse
import contextlib
import os
import sys
from pathlib import Path

import yaml

from envknee.ask.plan import lines_here, plan_of
from envknee.machine import gpus, nvml
from envknee.study.errors import UserError
from envknee.study.files import write_atomically
from envknee.study.first_sizes import OwnSettings, sizes_of
from envknee.study.first_study import Device, text_of
from envknee.study.load import parse_study, read_study
from envknee.study.task import SHORT_TASKS, Task
from envknee.study.value_types import study_name
from envknee.words.plan import plan_lines

FILE = "study.yaml"


def device_here() -> Device:
    """Return the first GPU that CUDA shows, or the CPU.

    Raises:
        UserError: when the machine seems to have a GPU, and CUDA shows none.
    """
    uuids = gpus.visible_uuids()
    gpus.check_enough("auto", len(uuids))
    gpu = nvml.Gpu.named(uuids[0]) if uuids else None
    if not uuids:
        return Device("the CPU", None)
    if gpu is None:
        raise UserError(
            f"the driver does not tell the memory of GPU {uuids[0]}. Name it, such as --gpu-gb 80; `nvidia-smi` may show it"
        )
    return Device(f"{gpu.name()} with {gpu.total_gb():.0f} GB", gpu.total_gb())


def device_of(gpu_gb: float | None) -> Device:
    """Return the device that the user names by its memory in GB: 0 is the CPU, None this machine's.

    Raises:
        UserError: when it is no size of a memory.
    """
    if gpu_gb is None:
        return device_here()
    if not 0 <= gpu_gb < float("inf"):
        raise UserError(f"--gpu-gb {gpu_gb:g}: expected the GB of a GPU's memory, such as 80, or 0 for the CPU")
    return Device("the CPU", None) if gpu_gb == 0 else Device(f"a GPU with {gpu_gb:g} GB", gpu_gb)


def check_folder(folder: Path) -> str:
    """Return the name of the study that a folder will hold.

    Raises:
        UserError: when something lies there already, or the folder's name is none for a study.
    """
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file, and a folder is made there. Name another one")
    if folder.is_dir() and (there := sorted(path.name for path in folder.iterdir())):
        more = "" if len(there) == 1 else f" and {len(there) - 1} more"
        raise UserError(
            f"{folder} is not empty: it has {there[0]}{more}, and nothing is overwritten. Name a new folder"
        )
    name = folder.resolve().name
    try:
        return study_name(name)
    except ValueError as error:
        raise UserError(f"{folder}: its name {name!r} is the study's, too: {error}. Name the folder so") from error


def write(folder: Path, task: str, device: Device) -> OwnSettings:
    """Write the first study of a task into a new or empty folder, and return what the task brings.

    Raises:
        UserError: as `check_folder` and `own_settings` do.
    """
    from envknee.tasks.own_settings import own_settings  # late: it imports Isaac Lab

    name = check_folder(folder)
    with contextlib.redirect_stdout(sys.stderr):  # Isaac Lab prints while it reads configurations
        own = own_settings(task)
    text = text_of(name, own, sizes_of(own, device.gpu_gb), device)
    parse_study(yaml.safe_load(text), FILE)
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / FILE, text)
    return own


def main() -> None:
    """Write the first study of a task."""
    parser = argparse.ArgumentParser(
        description="Write FOLDER/study.yaml: a study of a task with its own settings, and sizes for this machine's GPU or CPU."
        " FOLDER's name is the study's. A folder that holds something is left alone.",
        epilog="example: envknee init my-ant --task Isaac-Ant && make sweep CONFIG=my-ant/study.yaml",
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="a new or empty folder, such as my-ant")
    parser.add_argument(
        "--task",
        default=Task().id,
        help="a registered Isaac Lab task (`envknee tasks` lists them), MODULE:TASK for one of your own, or"
        f" {' or '.join(sorted(SHORT_TASKS))} (default: %(default)s)",
    )
    parser.add_argument(
        "--gpu-gb",
        type=float,
        metavar="GB",
        help="sizes for a GPU with so much memory, which need not be here; 0: for the CPU (default: this machine's)",
    )
    arguments = parser.parse_args()
    own = write(arguments.folder, arguments.task, device_of(arguments.gpu_gb))
    path = arguments.folder / FILE
    print(f"wrote {path}")
    study = read_study(path)
    is_here = arguments.gpu_gb is None
    lines = lines_here(study, Path("results")) if is_here else plan_lines(plan_of(study, on_cpu=arguments.gpu_gb == 0))
    print("\n".join(lines))
    if own.files:
        print(
            f"first: the task needs files that envknee lacks ({len(own.files)}). {path} lists them, and says where to name them"
        )
    print(f"next: look at the file, then `make sweep CONFIG={path}`", flush=True)
    os._exit(0)  # skips the shutdown of Isaac Lab and PyTorch, which may fail
