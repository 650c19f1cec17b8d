"""The image of `runtime: docker`: its ID, and how Docker or Podman runs a command in it.

Input: the name of an image on this machine (containers/Dockerfile), and docker or podman on PATH. Output: a file that pins the
image for the trials of a study, and command lines.

Tests run it with Podman. It was NEVER run with Docker, nor with a GPU: for those, tests only compare the command lines.
"""

import argparse
import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from envknee.machine.schema import Image
from envknee.record.schema import Frozen
from envknee.run.container.apptainer import KEPT, mounts
from envknee.study.errors import UserError
from envknee.study.files import canonical_json, write_atomically

Program = Literal["docker", "podman"]
PROGRAMS: tuple[Program, ...] = ("docker", "podman")

SHARED_MEMORY = "8g"
"""Most shared memory for NCCL and PyTorch; the default of 64 MB is too little for several ranks."""

BUILD = (
    "Build it on this machine, as the first lines of containers/Dockerfile say, and name it with `image:`, or use"
    " runtime: apptainer or host."
)


class Pinned(Frozen):
    """A study's image: its name, and the image of that name when the study began."""

    name: str
    image: Image


def pin(name: str) -> Pinned:
    """Return the image called `name` on this machine now. Raises a UserError if it has none of that name."""
    return Pinned(name=name, image=find(name)[1])


def find(name: str) -> tuple[Program, Image]:
    """Return the image called `name` (or with that ID), and the program that has it.

    Raises:
        UserError: when neither Docker nor Podman has it.
    """
    answers: dict[str, str] = {}
    for program in PROGRAMS:
        if shutil.which(program) is None:
            continue
        # The double dash: a name is never read as an option.
        asked = [program, "image", "inspect", "--", name]
        done = subprocess.run(asked, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return program, described(json.loads(done.stdout)[0])
        answers[program] = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
    if not answers:
        raise UserError(
            "runtime: docker was asked for, and there is neither docker nor podman on PATH. Install one of them, or use"
            " runtime: apptainer or host."
        )
    said = "; ".join(f"{program} says: {answer}" for program, answer in answers.items())
    raise UserError(f"image {name!r} is not there, and runtime: docker runs trials in it ({said}). {BUILD}")


def described(inspected: Mapping[str, object]) -> Image:
    """Return an image from the output of `docker image inspect`. Pure."""
    config = inspected.get("Config")
    labels = (config.get("Labels") if isinstance(config, Mapping) else None) or {}
    return Image(
        sif_sha256=None,
        content_sha256=str(inspected["Id"]).removeprefix("sha256:"),
        labels={name: value for name, value in labels.items() if name.startswith("org.envknee.")},
    )


def command_in(
    program: Program,
    image: Image,
    command: Sequence[str],
    *,
    container: str,
    user: tuple[int, int],
    variables: Mapping[str, str],
    inside: Mapping[str, str],
    writable: Sequence[Path],
    readable: Sequence[Path],
    folder: Path,
    gpus: Sequence[str],
    network: bool,
) -> list[str]:
    """Return the command line that runs `command` in the image. Pure, except that it resolves links in paths.

    The image is named by its ID: its name may have moved to another one. `container` is the name by which the container can be ended,
    `user` its user and group, `folder` its working directory. Of `variables` (the program's own environment) those in `KEPT` reach the
    image, by name, because values may be secrets; those of `inside` hold none.
    """
    words = [program, "run", "--rm", "--pull=never", f"--name={container}", f"--user={user[0]}:{user[1]}"]
    # With the host's process numbers the launcher reads the ranks' CPU time, NVML reads the GPU memory of a process, and SIGTERM
    # ends the trial (a container's first process would ignore it).
    words += ["--pid=host", "--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges"]
    if program == "podman" and user[0] != 0:
        words.append("--userns=keep-id")  # without root, Podman maps users to other numbers
    words += [f"--shm-size={SHARED_MEMORY}", f"--network={'host' if network else 'none'}", "--entrypoint="]
    if gpus and program == "docker":
        words.append(f'--gpus="device={",".join(gpus)}"')  # the quotes are Docker's own: the list is one value of CSV
    elif gpus:
        # CUDA_VISIBLE_DEVICES chooses: the toolkit's names differ by version.
        words.append("--device=nvidia.com/gpu=all")
    words.append(f"--workdir={folder.resolve()}")
    words += [f"--mount={mount}" for mount in mounts(readable, writable)]
    words += [f"--env={name}" for name in sorted(variables) if KEPT.fullmatch(name) and name not in inside]
    words += [f"--env={name}={value}" for name, value in sorted(inside.items())]
    return [*words, image.content_sha256, *command]


def main() -> None:
    """Pin the image that has a name now."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("name", help="the image's name, such as envknee")
    parser.add_argument("file", type=Path, help="where to write it, such as results/<study>/image.json")
    arguments = parser.parse_args()
    arguments.file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(arguments.file, canonical_json(pin(arguments.name)))
