"""The program of a foreign command: its arguments and variables with everything filled in.

Input: a request. Output: an argument list and environment variables. Pure but for where programs and files are looked for.
"""

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from envknee.record.schema import Request
from envknee.study import space
from envknee.study.command import PLACEHOLDER, Command
from envknee.study.errors import UserError, nearest

USERS_PATH = "ENVKNEE_PATH"
"""PATH as the user has it. envknee's own Python comes first in PATH, and would be taken for the user's."""


def command_of(request: Request) -> Command:
    """Return the command of a request that has one."""
    assert request.command is not None, "trainer: command has a command"
    return request.command


def iterations(request: Request) -> int:
    """Return how many rollouts the command is asked for: one more than are counted, as the last may not be logged."""
    if request.iterations is None:
        return command_of(request).learning_iterations
    return request.untimed_iterations + request.iterations + 1


def values(request: Request, run_dir: Path, gpus: int) -> dict[str, str]:
    """Return what each placeholder becomes, those of a batch only where it has a size. Pure.

    Args:
        request: what the trial is to run
        run_dir: the folder that the command runs in
        gpus: how many it may use; 0 on a CPU
    """
    rollout = space.rollout_size(request.num_envs, request.horizon)
    every = {
        "num_envs": request.num_envs,
        "num_envs_total": request.num_envs * request.world_size,
        "horizon": request.horizon,
        "rollout": rollout,
        "iterations": iterations(request),
        "evaluations": iterations(request) + 1,
        "frames": iterations(request) * rollout * request.world_size,
        "seed": request.seed,
        "gpus": gpus,
        "device": "cuda:0" if gpus else "cpu",
        "gpu_ids": "all" if gpus else "None",
        "run_dir": run_dir,
    }
    if request.batch_size is not None:
        every["batch_size"] = request.batch_size
        every["batch_envs"] = max(1, request.batch_size // request.horizon)
        every["num_mini_batches"] = space.num_mini_batches(
            request.num_envs, request.horizon, request.batch_size, request.world_size
        )
    return {name: str(value) for name, value in every.items()}


def filled(text: str, known: Mapping[str, str]) -> str:
    """Return `text` with its placeholders replaced, and doubled braces made single. Pure."""
    return PLACEHOLDER.sub(lambda match: known[match[1]] if match[1] else match[0][0], text)


def arguments(request: Request, run_dir: Path, gpus: int) -> list[str]:
    """Return the program and its arguments as the study names them, filled in. Pure."""
    command, known = command_of(request), values(request, run_dir, gpus)
    of_batch = [] if request.batch_size is None else command.batch_arguments
    return [filled(text, known) for text in (*command.argv, *command.arguments, *of_batch)]


def variables(request: Request, run_dir: Path, gpus: int) -> dict[str, str]:
    """Return the environment variables that the study names, filled in. Pure."""
    known = values(request, run_dir, gpus)
    return {name: filled(value, known) for name, value in command_of(request).env.items()}


def users_path(environment: Mapping[str, str]) -> str:
    """Return PATH as the user has it."""
    return environment.get(USERS_PATH) or environment.get("PATH", os.defpath)


def located(argv: Sequence[str], path: str, start: Path) -> list[str]:
    """Return `argv` with the program's whole path, and those of files that lie below `start`: the command runs elsewhere.

    Raises:
        UserError: when there is no such program.
    """
    program = argv[0]
    executable = shutil.which(str(start / program) if "/" in program else program, path=path)
    if executable is None:
        folders = [Path(folder) for folder in path.split(os.pathsep) if Path(folder).is_dir()]
        beside = {file.name for folder in folders for file in folder.iterdir()}
        raise UserError(
            f"command.argv: there is no program {program!r} on this machine{nearest(program, beside)}. Expected a name on PATH, or a"
            f" path such as /home/me/venv/bin/{Path(program).name}. PATH is {path}"
        )
    files = [str(start / text) if _is_file(start, text) else text for text in argv[1:]]
    return [executable, *files]


def _is_file(start: Path, text: str) -> bool:
    """Tell whether an argument names a file by a path below `start`."""
    if text.startswith(("-", "/")) or len(text) > 1000:
        return False
    return (start / text).is_file()


def packages_beside(program: str, names: Sequence[str]) -> dict[str, str]:
    """Return the versions of packages in the virtual environment that a program lies in, without running anything."""
    versions = {}
    for info in Path(program).parent.parent.glob("lib/python3*/site-packages/*.dist-info"):
        name, _, version = info.name.removesuffix(".dist-info").rpartition("-")
        if (plain := name.lower().replace("_", "-")) in names:
            versions[plain] = version
    return versions
