"""The image of `runtime: apptainer`: its hashes, whether it fits this checkout, how a command runs in it. Imports no torch."""

import argparse
import csv
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from envknee.machine.processes import dying_with_parent
from envknee.machine.schema import Image
from envknee.study.errors import ToMend, UserError
from envknee.study.files import canonical_json, sha256_of, write_atomically
from envknee.study.paths import PROJECT

LOCKS = tuple(PROJECT / f"containers/requirements{group}.lock" for group in ("", "-cpu", "-cuda", "-trainers"))

OLDEST = (1, 2)
"""The first Apptainer with build arguments (June 2023); `--mount` and `--no-privs` are older."""

KEPT = re.compile(
    r"(OMP|MKL)_NUM_THREADS|PYTHON(UNBUFFERED|SAFEPATH|HASHSEED)|(CUDA|CUBLAS|NCCL|GLOO|PYTORCH|OMNI|ENVKNEE)_\w+"
)
"""Environment variables that also reach the image; all others of the host stay out (--cleanenv)."""

ADDED = re.compile(r"(APPTAINER|SINGULARITY)(ENV_|_BIND|_MOUNT|_NV|_HOME)")
"""A user's own settings that would bring more into the image."""

NO_NETWORK = {False: ("--net", "--network=none"), True: ()}
"""Options, by whether a trial needs the network. Every user may ask for this network, with and without a setuid installation."""

BUILD = "Build one with `bash containers/build.sh FILE`, or leave `image:` out: the workflow then builds it."


def require_apptainer() -> None:
    """Make sure that Apptainer is installed and new enough. Raises UserError if not."""
    remedy = (
        f"Install Apptainer {'.'.join(map(str, OLDEST))} or newer (on Debian 12: containers/install-apptainer.sh),"
        " or use runtime: host."
    )
    if shutil.which("apptainer") is None:
        raise ToMend(f"runtime: apptainer was asked for, and there is no apptainer on PATH. {remedy}")
    answer = _apptainer("--version")
    version = re.search(r"(\d+)\.(\d+)", answer)
    if version is None or (int(version[1]), int(version[2])) < OLDEST:
        raise ToMend(f"runtime: apptainer was asked for, and what is installed is {answer.strip()!r}. {remedy}")


def describe(sif: Path) -> Image:
    """Return hashes and labels of an image.

    Hashing a large image takes a while. The result is kept in a file beside it, and used while the image's size and time are the same.

    Raises:
        UserError: when the file is missing or no image.
    """
    try:
        stat = sif.stat()
    except OSError as error:
        raise UserError(f"{sif} is not there, and runtime: apptainer runs trials in it. {BUILD}") from error
    key = f"{stat.st_size} {stat.st_mtime_ns}"
    description = sif.with_name(f"{sif.name}.json")
    try:
        known = json.loads(description.read_text(encoding="utf-8"))
        if known["of"] == key:
            return Image.model_validate(known["image"])
    except (OSError, ValueError, KeyError, TypeError):
        pass  # not described yet, or by another version
    content = content_sha256(sif)
    labels = json.loads(_apptainer("inspect", "--json", "--labels", str(sif)))["data"]["attributes"].get("labels") or {}
    image = Image(
        sif_sha256=sha256_of(sif),
        content_sha256=content,
        labels={name: value for name, value in labels.items() if name.startswith("org.envknee.")},
    )
    if os.access(sif.parent, os.W_OK):
        write_atomically(description, canonical_json({"of": key, "image": image.model_dump(mode="json")}))
    return image


def content_sha256(sif: Path) -> str:
    """Return the sha256 of an image's file system: equal for two builds of one commit.

    The hash of the file differs, because its header holds a random identity and the time.

    Raises:
        UserError: when the file holds no file system.
    """
    listed = re.search(r"^\s*(\d+)\s*\|.*Squashfs", _apptainer("sif", "list", str(sif)), re.MULTILINE)
    if listed is None:
        raise UserError(f"{sif} holds no file system, and an image with one was expected. {BUILD}")
    with subprocess.Popen(["apptainer", "sif", "dump", listed[1], str(sif)], stdout=subprocess.PIPE) as dump:
        digest = hashlib.file_digest(cast("io.BufferedReader", dump.stdout), "sha256")
    if dump.returncode:
        raise UserError(f"{sif} cannot be read to its end (apptainer sif dump: exit status {dump.returncode}). {BUILD}")
    return digest.hexdigest()


def lock_sha256() -> str:
    """Return the sha256 of the lock files of this checkout's images."""
    return hashlib.sha256(b"".join(lock.read_bytes() for lock in LOCKS)).hexdigest()


def check_fits(name: Path | str, image: Image, build: str = BUILD) -> None:
    """Raise a UserError if an image was made from other lock files than this checkout's; it ends with `build`, how to make one."""
    built_from, expected = image.labels.get("org.envknee.lock-sha256", "no label"), lock_sha256()
    if built_from != expected:
        commit = image.labels.get("org.envknee.git-commit", "unknown")
        raise UserError(
            f"{name} was built from other lock files ({built_from[:12]}, commit {commit[:12]}) than this checkout's"
            f" ({expected[:12]}): its packages are not the pinned ones. {build}"
        )


def guarded(scratch: Path, program: str, container: str, command: Sequence[str]) -> list[str]:
    """Return a command line that runs a command, and ends it when the launcher is killed (see guard.sh)."""
    guard = str(Path(__file__).with_name("guard.sh"))
    return [*dying_with_parent("USR1"), "bash", guard, str(scratch), program, container, *command]


def command_in(
    sif: Path,
    command: Sequence[str],
    *,
    writable: Sequence[Path],
    readable: Sequence[Path],
    folder: Path,
    gpus: bool,
    network: bool,
) -> list[str]:
    """Return the command line that runs `command` in the image.

    Only the named files of the host are visible inside: no home, no /tmp, no device except GPUs. For environment variables see
    `variables_for`. Mounted files have the same path inside, so that messages name paths that exist outside, too. `folder` is the
    working directory; `gpus` says whether the host's NVIDIA driver is needed, `network` whether the host's network is. Without it, not even
    servers on 127.0.0.1 are reached.
    """
    words = ["apptainer", "--quiet", "exec"]
    # Like --containall, but with the host's process numbers: the launcher reads the ranks' CPU time by them, and NVML the GPU
    # memory of a process.
    words += ["--cleanenv", "--contain", "--ipc"]
    # no-privs: no root privileges, even if root starts it. no-eval: values are used literally.
    words += [
        "--no-privs",
        "--no-eval",
        *(["--nv"] if gpus else []),
        *NO_NETWORK[network],
        "--cwd",
        str(folder.resolve()),
    ]
    for mount in mounts(readable, writable):
        words += ["--mount", mount]
    return [*words, str(sif.resolve()), *command]


def variables_for(variables: Mapping[str, str], inside: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for apptainer itself. Inside the image it gives `inside` and the `variables` in `KEPT`. Pure.

    The option --env would split values at commas, and show them to everybody in the list of processes.
    """
    outside = {name: value for name, value in variables.items() if not ADDED.match(name)}
    passed_on = {name: value for name, value in variables.items() if KEPT.fullmatch(name)}
    return outside | {f"APPTAINERENV_{name}": value for name, value in (passed_on | dict(inside)).items()}


def mounts(readable: Sequence[Path], writable: Sequence[Path]) -> list[str]:
    """Return the value of --mount for each folder, with the same path inside: a line of CSV, as a path may hold a comma.

    Apptainer, Docker and Podman read the same form.
    """
    binds = []
    for path in (*readable, *writable):
        line = io.StringIO()
        fields = ["type=bind", f"src={path.resolve()}", f"dst={path.resolve()}", *(["ro"] if path in readable else [])]
        csv.writer(line, lineterminator="").writerow(fields)
        binds.append(line.getvalue())
    return binds


def _apptainer(*words: str) -> str:
    """Return what apptainer prints."""
    done = subprocess.run(["apptainer", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise UserError(f"apptainer {' '.join(words)} failed: {last}. Is the file a whole image? {BUILD}")
    return done.stdout


def main() -> None:
    """Print an image's hashes and labels."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("image", type=Path, help="a SIF file, such as containers/isaaclab.sif")
    arguments = parser.parse_args()
    require_apptainer()
    print(canonical_json(describe(arguments.image)), end="")
