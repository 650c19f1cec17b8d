"""How a trial enters its study's image: the command line around its command, with variables and files; and whether it is there."""

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from envknee.machine.environment import IMAGE, commit_for_inside
from envknee.machine.schema import Image
from envknee.record.schema import Request
from envknee.run.container import apptainer, docker
from envknee.study.errors import UserError
from envknee.study.files import read_model
from envknee.study.paths import TrialFolder
from envknee.study.value_types import Runtime

PACKAGE = Path(__file__).parents[3]
"""The folder of this package, which the image does not have."""

NEVER_SHOWN = ("/etc", "/proc", "/sys", "/dev", "/run", "/boot")
DOCKERS_MARK = Path("/.dockerenv")
"""A file that Docker puts into each container; Podman sets the variable `container`."""

USD = (".usd", ".usda", ".usdc", ".usdz")

MADE_BY_TOOLS = frozenset({".thumbs", ".DS_Store"})
"""Hidden entries that NVIDIA's and Apple's tools put beside assets. They hold pictures and places of icons."""

MOST_ENTRIES = 1_000_000
"""Most files and folders below a folder that an image reads whole. NVIDIA's tree has fewer."""

ROOT_USER = 0


@dataclass(frozen=True)
class Entrance:
    """An image that fits this checkout, and how to run it."""

    image: Image
    runner: Path | docker.Program
    """A SIF file for Apptainer, or the program that has the image."""


def entrance_for(runtime: Runtime, given: Path | None) -> Entrance | None:
    """Return the image in which a trial runs; None on the host. `given` is a SIF file, or the file that pins an image of Docker's.

    Raises:
        UserError: when no image was named, or it is missing or does not fit this checkout.
    """
    if runtime == "host":
        return None
    if given is None:
        raise UserError(
            f"this trial is to run in an image (runtime: {runtime}), and none was named."
            " Start it with `envknee launch TRIAL IMAGE`"
        )
    if runtime == "docker":
        pinned = read_model(given, docker.Pinned, "Run the sweep again: it finds the image anew.")
        program, image = docker.find(pinned.image.content_sha256)
        apptainer.check_fits(pinned.name, image, docker.BUILD)
        return Entrance(image, program)
    apptainer.require_apptainer()
    image = apptainer.describe(given)
    apptainer.check_fits(given, image)
    return Entrance(image, given)


def check_runtime(runtime: Runtime) -> None:
    """Raise a UserError if this process does not run in the study's runtime. A container of Docker or Podman may also be the host."""
    inside, named = os.environ.get("APPTAINER_CONTAINER"), os.environ.get(IMAGE)
    in_docker = DOCKERS_MARK.exists() or os.environ.get("container") == "podman"  # noqa: SIM112  Podman writes it so
    fits = {"host": not inside, "apptainer": inside, "docker": in_docker and named and not inside}
    if not fits[runtime]:
        where = "outside of any container"
        if in_docker:
            where = f"in a container of Docker or Podman ({IMAGE} is {'set' if named else 'not set'})"
        raise UserError(
            f"runtime: {runtime} was asked for, and this trial runs {f'inside the image {inside}' if inside else where}."
            " Start it on the host with `envknee launch TRIAL IMAGE`, which enters the image, or change `runtime:`"
        )


def shown(named: str) -> Path:
    """Return the path to mount for a file that a study names: the file or its folder.

    A USD file may refer to others beside it, so its folder is mounted, unless that holds the home folder or many users' files.

    Raises:
        UserError: when the file lies in a folder of keys, settings or devices, or its folder holds hidden files or is another user's.
    """
    file = _showable(named)
    if file.suffix not in USD or _is_wide(file.parent):
        return file
    if file.parent.is_dir() and file.parent.stat().st_uid not in (ROOT_USER, os.getuid()):
        raise UserError(
            f"the study names {named}, and an image reads the whole folder of a USD file. {file.parent} belongs to another user, whose"
            " other files stay out of images. Copy what the robot needs into a folder of your own"
        )
    _refuse_hidden(named, file.parent)
    return file.parent


def shown_folder(named: str) -> Path:
    """Return the folder to mount for `task.asset_root`.

    Raises:
        UserError: when it holds keys, settings, devices, hidden files or many users' files.
    """
    folder = _showable(named)
    if _is_wide(folder):
        raise UserError(
            f"task.asset_root: {named} ({folder}) holds much more than a robot's files, and images get to read only those. Put"
            " them into a folder of their own"
        )
    _refuse_hidden(named, folder)
    return folder


def _refuse_hidden(named: str, folder: Path) -> None:
    """Make sure that a folder, which is mounted whole, holds no hidden entry at any depth.

    Raises:
        UserError: names the first one, or says that the folder has too many entries to look at.
    """
    looked_at = 0
    for path, folders, files in os.walk(folder):  # follows no link, and neither does a mount
        for name in sorted([*folders, *files]):
            if name.startswith(".") and name not in MADE_BY_TOOLS:
                raise UserError(
                    f"the study names {named}, and an image would read all of {folder}, where {Path(path) / name} lies. Hidden files stay"
                    " out of images: keys and settings lie there. Put what the robot needs into a folder of its own"
                )
        looked_at += len(folders) + len(files)
        if looked_at > MOST_ENTRIES:
            raise UserError(
                f"the study names {named}, and an image would read all of {folder}, which has more than {MOST_ENTRIES:,} entries. Put"
                " what the robot needs into a folder of its own"
            )


def _is_wide(folder: Path) -> bool:
    """Tell whether a folder holds the home folder or many users' files."""
    return len(folder.parts) <= 2 or Path.home().resolve().is_relative_to(folder)


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
    """Return the command line that runs the command of a trial or block in an image, and its environment variables.

    The command may read the project's code and the files that the task names. It may write to its trials' folders and to `scratch`,
    an empty folder that is removed after it. With WARP_CACHE_PATH, kernels are kept there instead.
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
    inside = commit_for_inside() | {
        "PYTHONPATH": str(PACKAGE.resolve()),
        "PYTHONDONTWRITEBYTECODE": "1",
        "TMPDIR": str(scratch / "tmp"),
        "XDG_CACHE_HOME": str(scratch / "cache"),
        "TRITON_CACHE_DIR": str(scratch / "cache/triton"),
        IMAGE: entrance.image.model_dump_json(),
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
    folder = here if roots[0].is_relative_to(here) else roots[0]  # the host's working directory, if it exists inside
    gpus = [uuid for uuid in variables.get("CUDA_VISIBLE_DEVICES", "").split(",") if uuid]
    downloads = request.asset == "nucleus" and request.asset_root is None
    if isinstance(entrance.runner, Path):
        words = apptainer.command_in(
            entrance.runner,
            command,
            writable=writable,
            readable=readable,
            folder=folder,
            gpus=bool(gpus),
            network=downloads or request.processes > 1,  # ranks meet at the host's own name
        )
        return apptainer.guarded(scratch, "", "", words), apptainer.variables_for(variables, inside)
    # In Docker, a user that the image does not know has neither a home nor a name, and PyTorch needs both.
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
        network=downloads,
    )
    return apptainer.guarded(scratch, entrance.runner, scratch.name, words), variables


def leave(entrance: Entrance | None, scratch: Path) -> None:
    """End the container that `command_line` started for `scratch`, if it outlives its process."""
    if entrance is not None and not isinstance(entrance.runner, Path):
        subprocess.run([entrance.runner, "rm", "--force", scratch.name], capture_output=True, check=False)
