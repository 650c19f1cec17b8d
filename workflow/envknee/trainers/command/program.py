"""The arguments and environment variables of a foreign command, with placeholders replaced."""

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from envknee.base.point import rollout_size
from envknee.measure.rows import MOST_TIMES
from envknee.record.schema import Request
from envknee.study import space
from envknee.study.command import PLACEHOLDER, Command
from envknee.study.errors import ToMend, nearest

USERS_PATH = "ENVKNEE_PATH"
"""The variable with the user's PATH. In PATH itself envknee's own Python comes first and would hide the user's."""


def command_of(request: Request) -> Command:
    """Return the command of a request that has one."""
    assert request.command is not None, "trainer: command has a command"
    return request.command


def iterations(request: Request) -> int:
    """Return the iterations to request from the program: one more than are counted, because the last may not be logged.

    How many are timed by `timed_share` is known only while it runs: it is told the most, and ended before.
    """
    if request.iterations is None:
        return command_of(request).learning_iterations
    times = 1 if request.timed_share is None else MOST_TIMES
    return request.untimed_iterations + times * request.iterations + 1


def values(request: Request, run_dir: Path, gpus: int) -> dict[str, str]:
    """Return the value of each placeholder that has one: those of a batch and of a scaling rule may have none. Pure.

    The command runs in `run_dir`, with `gpus` GPUs (0 on a CPU).
    """
    rollout = rollout_size(request.num_envs, request.horizon)
    placeholders = {
        "num_envs": request.num_envs,
        "num_envs_total": request.num_envs * request.world_size,
        "horizon": request.horizon,
        "rollout": rollout,
        "iterations": iterations(request),
        "evaluations": iterations(request) + 1,
        "frames": iterations(request) * rollout * request.world_size,
        "seed": request.seed,
        "gpus": gpus,
        "ranks": request.world_size,
        "device": "cuda:0" if gpus else "cpu",
        "gpu_ids": "all" if gpus else "None",
        "run_dir": run_dir,
    }
    if request.batch_size is not None:
        placeholders["batch_size"] = request.batch_size
        placeholders["batch_envs"] = max(1, request.batch_size // request.horizon)
        placeholders["num_mini_batches"] = space.num_mini_batches(
            request.num_envs, request.horizon, request.batch_size, request.world_size
        )
    placeholders |= {"learning_rate": request.learning_rate, "epochs": request.epochs}
    return {name: str(value) for name, value in placeholders.items() if value is not None}


def filled(text: str, known: Mapping[str, str]) -> str:
    """Return `text` with its placeholders replaced, and doubled braces turned into single ones. Pure."""
    return PLACEHOLDER.sub(lambda match: known[match[1]] if match[1] else match[0][0], text)


def arguments(request: Request, run_dir: Path, gpus: int) -> list[str]:
    """Return the study's program and arguments, with placeholders replaced. Pure."""
    command, known = command_of(request), values(request, run_dir, gpus)
    of_batch = [] if request.batch_size is None else command.batch_arguments
    return [filled(text, known) for text in (*command.argv, *command.arguments, *of_batch)]


def variables(request: Request, run_dir: Path, gpus: int) -> dict[str, str]:
    """Return the study's environment variables, with placeholders replaced. Pure."""
    known = values(request, run_dir, gpus)
    return {name: filled(value, known) for name, value in command_of(request).env.items()}


def users_path(environment: Mapping[str, str]) -> str:
    """Return the user's PATH."""
    return environment.get(USERS_PATH) or environment.get("PATH", os.defpath)


def located(argv: Sequence[str], path: str, start: Path) -> list[str]:
    """Return `argv` with full paths of the program and of files below `start`, because the command runs in another folder.

    Raises:
        ToMend: when the program does not exist.
    """
    program = argv[0]
    executable = shutil.which(str(start / program) if "/" in program else program, path=path)
    if executable is None:
        folders = [Path(folder) for folder in path.split(os.pathsep) if Path(folder).is_dir()]
        beside = {file.name for folder in folders for file in folder.iterdir()}
        raise ToMend(
            f"command.argv: there is no program {program!r} on this machine{nearest(program, beside)}. Expected a name on PATH, or a"
            f" path such as /home/me/venv/bin/{Path(program).name}. PATH is {path}"
        )

    def is_file(text: str) -> bool:
        return not text.startswith(("-", "/")) and len(text) <= 1000 and (start / text).is_file()

    return [executable, *(str(start / text) if is_file(text) else text for text in argv[1:])]


def packages_beside(program: str, names: Sequence[str]) -> dict[str, str]:
    """Return the versions of packages in a program's virtual environment, without running anything."""
    versions = {}
    for info in Path(program).parent.parent.glob("lib/python3*/site-packages/*.dist-info"):
        name, _, version = info.name.removesuffix(".dist-info").rpartition("-")
        if (plain := name.lower().replace("_", "-")) in names:
            versions[plain] = version
    return versions
