"""How a trial's command enters its study's image: which variables and files it gets.

Input: the image that the workflow hands to the launcher, a request and a command. Output: the command line around it.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from envknee.machine.git_state import as_told
from envknee.machine.inside import TOLD
from envknee.record.schema import Image, Request
from envknee.run.container import apptainer, docker
from envknee.study.errors import UserError
from envknee.study.paths import TrialFolder
from envknee.study.rules import Runtime

PACKAGE = Path(__file__).parents[3]
"""The folder that Python finds this package in: the image has none of the project's code."""


NEVER_SHOWN = ("/etc", "/proc", "/sys", "/dev", "/run", "/boot")
USD = (".usd", ".usda", ".usdc", ".usdz")


@dataclass(frozen=True)
class Entrance:
    """An image that was found and fits, and who runs it."""

    image: Image
    runner: Path | docker.Program
    """The SIF file, which Apptainer runs, or the program that has the image."""


def entrance_for(runtime: Runtime, given: Path | None) -> Entrance | None:
    """Return the image that a trial is to run in, or None on the host.

    Args:
        runtime: where the trial was told to run
        given: a SIF file, or the file that pins an image of Docker's

    Raises:
        UserError: when it was not named, is not there, or does not fit this checkout.
    """
    if runtime == "host":
        return None
    if given is None:
        raise UserError(
            f"this trial is to run in an image (runtime: {runtime}), and none was named."
            " Start it with `python -m envknee.launch TRIAL IMAGE`"
        )
    if runtime == "docker":
        pinned = docker.read_pinned(given)
        program, image = docker.find(pinned.image.content_sha256)
        apptainer.check_fits(pinned.name, image, docker.BUILD)
        return Entrance(image, program)
    apptainer.require_apptainer()
    image = apptainer.describe(given)
    apptainer.check_fits(given, image)
    return Entrance(image, given)


def shown(named: str) -> Path:
    """Return what of the host's files the image gets to read for one that a study names: that file, or its folder.

    A USD file may name others beside it. Its folder comes in whole unless home, or everybody's files, lie in it.

    Raises:
        UserError: when the file lies where keys, settings or devices do.
    """
    file = _showable(named)
    is_wide = len(file.parent.parts) <= 2 or Path.home().resolve().is_relative_to(file.parent)
    return file.parent if file.suffix in USD and not is_wide else file


def shown_folder(named: str) -> Path:
    """Return the folder of files that a study names, for the image to read whole (`task.asset_root`).

    Raises:
        UserError: when keys, settings or devices lie there, or everybody's files.
    """
    folder = _showable(named)
    if len(folder.parts) <= 2 or Path.home().resolve().is_relative_to(folder):
        raise UserError(
            f"task.asset_root: {named} ({folder}) holds much more than a robot's files, and images get to read only those. Put"
            " them into a folder of their own"
        )
    return folder


def _showable(named: str) -> Path:
    file = Path(named).expanduser().resolve()
    if any(part.startswith(".") for part in file.parts) or any(file.is_relative_to(place) for place in NEVER_SHOWN):
        raise UserError(
            f"the study names {named} ({file}), and files in hidden folders and in {', '.join(NEVER_SHOWN)} stay out of images:"
            " keys and settings lie there. Put the file into a folder of its own"
        )
    return file


def command_line(
    entrance: Entrance,
    trials: Sequence[TrialFolder],
    request: Request,
    command: list[str],
    variables: dict[str, str],
    scratch: Path,
) -> tuple[list[str], dict[str, str]]:
    """Return what runs the command of a trial, or of a block of them, in an image: (command, environment variables).

    It may read the project's code and the files that the task names, and write to its own folders and to `scratch`, which is empty,
    belongs to this process alone and is removed after it. With WARP_CACHE_PATH kernels go there instead, to be kept.
    """
    roots, here = [trial.root.resolve() for trial in trials], Path.cwd()
    readable, writable = [PACKAGE], [*roots, scratch]
    files = [request.asset] if request.asset not in ("local", "nucleus") else []
    files += [
        value for value in request.overrides.values() if isinstance(value, str) and Path(value).expanduser().is_file()
    ]
    readable += [shown(file) for file in files]
    if request.asset_root is not None:
        readable.append(shown_folder(request.asset_root))
    for name in ("kernels", "cache", "tmp"):
        (scratch / name).mkdir()
    inside = as_told() | {
        "PYTHONPATH": str(PACKAGE.resolve()),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
        "PYTHONSAFEPATH": "1",
        "TMPDIR": str(scratch / "tmp"),
        "XDG_CACHE_HOME": str(scratch / "cache"),
        "TRITON_CACHE_DIR": str(scratch / "cache/triton"),
        TOLD: entrance.image.model_dump_json(),
    }
    if request.asset_root is not None:
        inside["ISAACSIM_ASSET_ROOT"] = variables["ISAACSIM_ASSET_ROOT"]
    named = {str(trial.root): str(root) for trial, root in zip(trials, roots, strict=True)}
    command = ["python", *(named.get(word, word) for word in command[1:])]
    kernels = variables.get("WARP_CACHE_PATH")
    if kernels:
        Path(kernels).mkdir(parents=True, exist_ok=True)
        writable.append(Path(kernels))
        inside["WARP_CACHE_PATH"] = str(Path(kernels).resolve())
        inside["TRITON_CACHE_DIR"] = str(Path(kernels).resolve() / "triton")
    else:
        command = ["/opt/envknee/with-kernels.sh", str(scratch / "kernels"), *command]
    folder = here if roots[0].is_relative_to(here) else roots[0]  # as on the host, where that exists inside
    gpus = [uuid for uuid in variables.get("CUDA_VISIBLE_DEVICES", "").split(",") if uuid]
    if isinstance(entrance.runner, Path):
        words = apptainer.command_in(
            entrance.runner, command, writable=writable, readable=readable, folder=folder, gpus=bool(gpus)
        )
        return apptainer.guarded(scratch, "", "", words), apptainer.variables_for(variables, inside)
    # Docker knows neither a home nor the name of a user that the image lacks, and PyTorch asks for both.
    inside |= {"HOME": str(scratch / "tmp"), "LOGNAME": "envknee"}
    words = docker.command_in(
        entrance.runner,
        entrance.image,
        command,
        container=scratch.name,
        user=(os.getuid(), os.getgid()),
        variables=variables,
        inside=inside,
        writable=writable,
        readable=readable,
        folder=folder,
        gpus=gpus,
        network=request.asset == "nucleus" and request.asset_root is None,
    )
    return apptainer.guarded(scratch, entrance.runner, scratch.name, words), variables


def leave(entrance: Entrance, scratch: Path) -> None:
    """Make sure that nothing runs on that `command_line` has started for `scratch`, once its process has ended."""
    if not isinstance(entrance.runner, Path):
        docker.remove(entrance.runner, scratch.name)
