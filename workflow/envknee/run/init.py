"""`envknee init FOLDER`: a first study of a task, with its own settings and sizes for this machine's GPU; or a project around a study.

Input: the name of a registered task, or a study's file. Output: FOLDER/study.yaml, and the plan of that study; with --workflow a project
that holds the study as config/config.yaml.
"""

import argparse
import contextlib
import os
import sys
from pathlib import Path
from typing import NamedTuple

import yaml

from envknee import commands
from envknee.ask.plan import lines_here, plan_of
from envknee.machine import gpus, nvml
from envknee.run import project
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


def check_empty(folder: Path) -> None:
    """Check that nothing would be overwritten.

    Raises:
        UserError: when something lies there already.
    """
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file, and a folder is made there. Name another one")
    if folder.is_dir() and (there := sorted(path.name for path in folder.iterdir())):
        more = "" if len(there) == 1 else f" and {len(there) - 1} more"
        raise UserError(
            f"{folder} is not empty: it has {there[0]}{more}, and nothing is overwritten. Name a new folder"
        )


def check_folder(folder: Path) -> str:
    """Return the name of the study that a folder will hold.

    Raises:
        UserError: when something lies there already, or the folder's name is none for a study.
    """
    check_empty(folder)
    name = folder.resolve().name
    try:
        return study_name(name)
    except ValueError as error:
        raise UserError(f"{folder}: its name {name!r} is the study's, too: {error}. Name the folder so") from error


class FirstStudy(NamedTuple):
    """A study to begin with."""

    text: str
    own: OwnSettings | None
    """What its task brings; None where the study was given, or is the default one."""


def study_of_task(folder: Path, task: str, device: Device) -> FirstStudy:
    """Return the first study of a task, named as a new or empty folder.

    Raises:
        UserError: as `check_folder` and `own_settings` do; without Isaac Lab, which has the task's settings.
    """
    name = check_folder(folder)
    commands.need_isaac_lab("envknee init")
    from envknee.tasks.own_settings import own_settings  # late: it imports Isaac Lab

    with contextlib.redirect_stdout(sys.stderr):  # Isaac Lab prints while it reads configurations
        own = own_settings(task)
    text = text_of(name, own, sizes_of(own, device.gpu_gb), device)
    parse_study(yaml.safe_load(text), FILE)
    return FirstStudy(text, own)


def study_of_file(path: Path) -> FirstStudy:
    """Return a copy of a study's file.

    Raises:
        UserError: when it is no legal study.
    """
    read_study(path)
    return FirstStudy(path.read_text(encoding="utf-8"), None)


def write(folder: Path, task: str, device: Device) -> OwnSettings:
    """Write the first study of a task into a new or empty folder, and return what the task brings.

    Raises:
        UserError: as `study_of_task`.
    """
    text, own = study_of_task(folder, task, device)
    assert own is not None
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / FILE, text)
    return own


def study_for_project(given: argparse.Namespace) -> FirstStudy:
    """Return the study that a project begins with: of a task, of a file, or the one that explains every key.

    Raises:
        UserError: as `study_of_task` and `study_of_file`.
    """
    if given.task is not None:
        return study_of_task(given.folder, given.task, device_of(given.gpu_gb))
    if given.study is not None:
        return study_of_file(given.study)
    return FirstStudy(project.shipped_study(), None)


def write_project(folder: Path, study: FirstStudy) -> Path:
    """Write a project into a new or empty folder, say what it has, and return the path of its study."""
    names = project.write_project(folder, study.text)
    print(f"wrote a project into {folder}: {', '.join(names)}")
    return folder / project.CONFIG


def arguments() -> argparse.Namespace:
    """Return what was typed."""
    parser = argparse.ArgumentParser(
        description="Write FOLDER/study.yaml: a study of a task with its own settings, and sizes for this machine's GPU or CPU."
        " FOLDER's name is the study's. With --workflow write a project with the study: Snakefile, config, profiles, slurm/site.yaml."
        " A folder that holds something is left alone.",
        epilog="example: envknee init my-ant --task Isaac-Ant && envknee sweep my-ant/study.yaml",
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="a new or empty folder, such as my-ant")
    parser.add_argument(
        "--task",
        help="a registered Isaac Lab task (`envknee tasks` lists them), MODULE:TASK for one of your own, or"
        f" {' or '.join(sorted(SHORT_TASKS))} (default: {Task().id}; with --workflow the study that explains every key)",
    )
    parser.add_argument(
        "--workflow", action="store_true", help="write a project in which `envknee sweep` and `snakemake` run"
    )
    parser.add_argument("--study", type=Path, metavar="FILE", help="with --workflow: take this study")
    parser.add_argument(
        "--gpu-gb",
        type=float,
        metavar="GB",
        help="sizes for a GPU with so much memory, which need not be here; 0: for the CPU (default: this machine's)",
    )
    given = parser.parse_args()
    if given.study is not None and (given.task is not None or not given.workflow):
        parser.error("--study goes with --workflow, and without --task: it names the task itself")
    if given.gpu_gb is not None and given.workflow and given.task is None:
        parser.error("--gpu-gb chooses sizes for a task: name it with --task")
    return given


def print_plan(path: Path, gpu_gb: float | None) -> None:
    """Say what a study would measure: on this machine, or on a GPU of `gpu_gb`."""
    study = read_study(path)
    lines = lines_here(study, Path("results")) if gpu_gb is None else plan_lines(plan_of(study, on_cpu=gpu_gb == 0))
    print("\n".join(lines))


def print_next(given: argparse.Namespace, path: Path, own: OwnSettings | None) -> None:
    """Say what to do with what was written."""
    if own is not None and own.files:
        print(
            f"first: the task needs files that envknee lacks ({len(own.files)}). {path} lists them, and says where to name them"
        )
    if not given.workflow:
        print(f"next: look at the file, then `envknee sweep {path}`", flush=True)
        return
    if given.task is None and given.study is None:
        needed = "" if commands.has_isaac_lab() else ", which is not installed here: pip install 'envknee[isaaclab]'"
        print(
            f"{path} is envknee's example, which explains every key. It trains with Isaac Lab{needed}. A study of your own command:"
            " `envknee knee --dry-run ...` writes one, and --study takes it"
        )
    print(
        f"next: look at {path} and {given.folder / project.SITE}, then in {given.folder}: `envknee sweep`, on a cluster"
        " `envknee sweep --profile slurm`",
        flush=True,
    )


def main() -> None:
    """Write the first study of a task, or a project."""
    given = arguments()
    check_empty(given.folder)
    if not given.workflow:
        own = write(given.folder, given.task or Task().id, device_of(given.gpu_gb))
        path = given.folder / FILE
        print(f"wrote {path}")
    else:
        study = study_for_project(given)
        own, path = study.own, write_project(given.folder, study)
    print_plan(path, given.gpu_gb)
    print_next(given, path, own)
    os._exit(0)  # skips the shutdown of Isaac Lab and PyTorch, which may fail
