"""What a node of the cluster sees, from inside a tiny job: driver, GPUs, folders, room. Started by `envknee.slurm.preflight`.

Input: the study's folder, a word that was written there, what its arm says of GPUs. Output: a line of JSON.

    python -m envknee.slurm.probe --folder results/<study> --nonce WORD --gpus 1 [--scratch '$SLURM_TMPDIR']
        [--runtime apptainer --image FILE]
"""

import argparse
import os
import shutil
import socket
import tempfile
from pathlib import Path
from typing import Literal, get_args

import warp

from envknee import environment, nvml
from envknee.config import Runtime
from envknee.enter import entrance_for
from envknee.errors import UserError, run_command
from envknee.gpus import visible_uuids
from envknee.scratch import scratch_folder
from envknee.slurm.probe_report import MARK, NONCE, Seen


def look(
    folder: Path, nonce: str, gpus: Literal["auto"] | int, scratch: str | None, runtime: Runtime, image: Path | None
) -> Seen:
    """Look around; what is missing is said, and stops nothing."""
    device = problem = driver = None
    try:
        device = environment.choose_device(gpus)
    except UserError as error:
        problem = str(error)
    names = []
    uuids = visible_uuids()
    if uuids:
        try:
            version, cuda = nvml.driver_version()
            driver = f"{version}, CUDA {cuda[0]}.{cuda[1]}"
        except UserError as error:
            problem = problem or str(error)
    for uuid in uuids:
        gpu = nvml.Gpu.named(uuid)
        names.append(f"{gpu.name()} {gpu.total_gb():.0f} GB" if gpu else uuid)
    sees, folder_problem = _sees(folder, nonce)
    room, scratch_free_gb, scratch_problem = _scratch(scratch)
    found_image, image_problem = _image(runtime, image)
    cache = Path(os.environ.get("WARP_CACHE_PATH") or _warp_cache())
    return Seen(
        host=socket.gethostname(),
        job_id=os.environ.get("SLURM_JOB_ID"),
        device=device,
        problem=problem,
        driver=driver,
        gpus=names,
        sees_folder=sees,
        folder_problem=folder_problem,
        scratch=room,
        scratch_free_gb=scratch_free_gb,
        scratch_problem=scratch_problem,
        image=found_image,
        image_problem=image_problem,
        kernel_cache=str(cache),
        kernel_cache_entries=len(list(cache.glob("envknee/*.ready"))),
    )


def _sees(folder: Path, nonce: str) -> tuple[bool, str | None]:
    try:
        found = (folder / NONCE).read_text(encoding="utf-8")
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        return False, f"{error.strerror} ({error.filename or folder})"
    return (True, None) if found == nonce else (False, f"{folder / NONCE} is another file there")


def _scratch(scratch: str | None) -> tuple[str, float | None, str | None]:
    try:
        folder = scratch_folder(scratch)
    except UserError as error:
        return scratch or tempfile.gettempdir(), None, str(error)
    return str(folder), shutil.disk_usage(folder).free / 1e9, None


def _image(runtime: Runtime, given: Path | None) -> tuple[str | None, str | None]:
    try:
        entrance = entrance_for(runtime, given)
    except UserError as error:
        return None, str(error)
    return (f"{runtime}, content {entrance.image.content_sha256[:12]}", None) if entrance else (None, None)


def _warp_cache() -> str:
    warp.config.quiet = True
    warp.init()
    return str(warp.config.kernel_cache_dir)


def _gpus(text: str) -> Literal["auto"] | int:
    return "auto" if text == "auto" else int(text)


def main() -> None:
    """Print what this node sees, as a line of JSON."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="the study's folder, as the head knows it")
    parser.add_argument("--nonce", required=True, help="what the head wrote there")
    parser.add_argument("--gpus", type=_gpus, required=True, help="what the arm says: auto, 0 for the CPU, 1, 2, ...")
    parser.add_argument("--scratch", help="the site's folder for temporary files")
    parser.add_argument("--runtime", choices=get_args(Runtime), default="host", help="where trials would run")
    parser.add_argument("--image", type=Path, help="the image, as the launcher is given it")
    given = parser.parse_args()
    seen = look(given.folder, given.nonce, given.gpus, given.scratch, given.runtime, given.image)
    print(MARK + seen.model_dump_json(), flush=True)


if __name__ == "__main__":
    run_command(main)
