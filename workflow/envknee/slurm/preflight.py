"""Before hours are spent: one tiny job for each number of GPUs that some arm asks for, and what it saw, in a table.

Input: a study's folder with study.json, and the site. Output: a table, what is wrong in sentences, and exit 2 where something is.

    snakemake preflight --profile slurm
    python -m envknee.slurm.preflight results/<study> slurm/site.yaml

Jobs are started by srun itself, not by Snakemake: its own would break without a word on a node that does not see the study's
folder, which is one of the things to be found out.
"""

import argparse
import subprocess
import sys
import uuid
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from pydantic import ValidationError
from rich import box
from rich.console import Console
from rich.table import Table

from envknee import config
from envknee.config import Runtime, Study
from envknee.errors import UserError, run_command
from envknee.files import StudyFolder, write_atomically
from envknee.slurm import checks, facts, jobs, site
from envknee.slurm.jobs import Shape
from envknee.slurm.probe_report import MARK, NONCE, Seen
from envknee.slurm.site import Site

WAIT_S = 3600
"""How long a job may wait in the queue before preflight gives up."""

NOT_SEEN = "envknee-not-seen:"

SCRIPT = f"""
for needed in "$1" "$2"; do if [ ! -e "$needed" ]; then echo "{NOT_SEEN}$needed"; exit 0; fi; done
cd / && export PYTHONPATH="$2" && shift 2 && exec "$@"
"""
"""Runs on the node, whatever that sees: bash is everywhere. Arguments: python, where this package lies, the command."""


def probe_command(
    shape: Shape,
    said: str,
    study_site: Site,
    folder: Path,
    nonce: str,
    runtime: Runtime = "host",
    image: Path | None = None,
) -> list[str]:
    """Return the command that starts a probe and prints what it saw; it needs no folder of the head's on the node.

    Args:
        shape: what the job gets
        said: `gpus:` of the arm that the probe stands for: auto takes the CPU, too
        study_site: the cluster
        folder: the study's, as the head knows it
        nonce: what was written there
        runtime: where trials run
        image: in which image, as the launcher is given it
    """
    package = Path(__file__).resolve().parents[2]
    probe = [
        sys.executable,
        "-m",
        "envknee.slurm.probe",
        "--folder",
        str(folder),
        "--nonce",
        nonce,
        "--gpus",
        said,
    ]
    if study_site.scratch:
        probe += ["--scratch", study_site.scratch]
    if image is not None:
        probe += ["--runtime", runtime, "--image", str(image.resolve())]
    options = jobs.probe_job(shape, study_site).options(study_site)
    return [
        "srun", "--quiet", "--job-name=envknee-preflight", "--chdir=/", "--input=none", *options,
        "bash", "-c", SCRIPT, "envknee-preflight", sys.executable, str(package), *probe,
    ]  # fmt: skip


def read_seen(output: str) -> list[Seen]:
    """Return what the probes of a job printed, one on each of its nodes; what is nothing of the kind is left out."""
    found = []
    for line in output.splitlines():
        if line.startswith(MARK):
            with suppress(ValidationError):
                found.append(Seen.model_validate_json(line.removeprefix(MARK)))
    return found


def problems(seen: Seen, shape: Shape, arms: Sequence[str], study: Study, folder: Path) -> list[str]:
    """Return what is wrong on a node, in sentences. Pure."""
    found = []
    named = f"arms.{arms[0]} on {seen.host}"
    if not seen.sees_folder:
        found.append(
            f"{named}: the node does not see the study's folder {folder} as it is here: {seen.folder_problem}."
            " Start the sweep from a folder that all nodes share"
        )
    if seen.scratch_problem:
        found.append(f"{named}: {seen.scratch_problem}")
    if seen.image_problem:
        found.append(f"{named}: {seen.image_problem}")
    if seen.problem:
        found.append(f"{named}: {seen.problem}")
    elif shape.gpus and len(seen.gpus) < shape.gpus and study.arms[arms[0]].gpus == "auto":
        found.append(
            f"{named}: SLURM gave {shape} and CUDA shows none there, so that trials with gpus: auto would run on"
            " the CPU. Say gpus: 0 if that is meant, gpus: 1 if it is not; and tell the cluster's administrators"
        )
    return found


def table(seen: Sequence[tuple[list[str], Shape, Seen | None]]) -> Table:
    """Return what every probe saw: a column for each node."""
    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    shown.add_column("")
    for arms, shape, _ in seen:
        shown.add_column(f"{', '.join(arms)}: {shape}", overflow="fold")
    rows = {
        "node": lambda s: f"{s.host} (job {s.job_id})",
        "GPUs": lambda s: ", ".join(s.gpus) or "none",
        "driver": lambda s: s.driver or "none",
        "trials run on": lambda s: s.device or "nothing",
        "image": lambda s: s.image or ("NOT USABLE" if s.image_problem else "none (runtime: host)"),
        "study's folder": lambda s: "seen, writable" if s.sees_folder else "NOT SEEN",
        "scratch": lambda s: s.scratch + ("" if s.scratch_free_gb is None else f", {s.scratch_free_gb:,.0f} GB free"),
        "kernel cache": lambda s: f"{s.kernel_cache}, {s.kernel_cache_entries or 'no'} sets compiled",
    }
    for name, cell in rows.items():
        shown.add_row(name, *("no answer" if one is None else cell(one) for _, _, one in seen))
    return shown


def run(study: Study, study_site: Site, folder: StudyFolder, console: Console, image: Path | None = None) -> list[str]:
    """Check the site against the cluster, probe its nodes, print the table, and return what is wrong.

    Raises:
        UserError: when the cluster does not answer, or the study's folder cannot be written to.
    """
    cluster = facts.observe(study_site.partition)
    known = checks.problems(study, study_site, cluster)
    if known:
        return known
    for line in checks.warnings(study_site, cluster):
        console.print(f"note: {line}")
    root, nonce = folder.root.resolve(), uuid.uuid4().hex
    write_atomically(root / NONCE, nonce)
    groups = jobs.arms_by_shape(study)
    print(
        f"envknee: jobs in the queue of partition {study_site.partition}: {len(groups)}",
        file=sys.stderr,
        flush=True,
    )
    running = {
        shape: subprocess.Popen(
            probe_command(shape, _said(arms, study), study_site, root, nonce, study.runtime, image),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for shape, arms in groups.items()
    }
    found, rows = [], []
    try:
        for shape, arms in groups.items():
            seen, wrong = _collect(running[shape], shape, arms)
            rows += [(arms, shape, one) for one in seen or [None]]
            found += wrong + [line for one in seen for line in problems(one, shape, arms, study, root)]
    finally:
        for process in running.values():
            if process.poll() is None:
                process.terminate()  # srun cancels its job
                process.wait()
        (root / NONCE).unlink(missing_ok=True)
    console.print(table(rows))
    return found


def _said(arms: Sequence[str], study: Study) -> str:
    """Return what one of some arms says of GPUs, a number if any does."""
    return str(max((study.arms[arm].gpus for arm in arms), key=lambda gpus: gpus != "auto"))


def _collect(process: "subprocess.Popen[str]", shape: Shape, arms: Sequence[str]) -> tuple[list[Seen], list[str]]:
    """Wait for a job and return what its probes saw, and why one of them did not."""
    named = f"arms.{arms[0]}: the job with {shape}"
    try:
        output, errors = process.communicate(timeout=WAIT_S)
    except subprocess.TimeoutExpired:
        return [], [
            f"{named} waited for {WAIT_S / 60:.0f} minutes. `squeue --me` says why; try again when the cluster is less busy"
        ]
    seen = read_seen(output)
    if len(seen) == shape.nodes:
        return seen, []
    if NOT_SEEN in output:
        unseen = output.partition(NOT_SEEN)[2].splitlines()[0]
        return seen, [
            f"{named}: its node does not see {unseen}. Put the project, with .venv and results/, into a folder that all nodes share"
        ]
    last = (errors.strip() or output.strip() or "it printed nothing").splitlines()
    return seen, [f"{named} ended with status {process.returncode}: {' / '.join(last[-3:])}"]


def main() -> int:
    """Probe the nodes of a cluster before a study is swept there."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("folder", type=Path, help="the study's folder with study.json, such as results/cartpole-cpu")
    parser.add_argument("site", type=Path, help="what describes the cluster, such as slurm/site.yaml")
    parser.add_argument("image", type=Path, nargs="?", help="the image that trials run in, where the study says so")
    arguments = parser.parse_args()
    folder = StudyFolder(arguments.folder)
    found = run(
        config.load(folder.study),
        site.load(arguments.site),
        folder,
        Console(markup=False, highlight=False, emoji=False),
        arguments.image,
    )
    if found:
        raise UserError("this study would not run here:\n" + "\n".join(f"  {line}" for line in found))
    print("preflight: all is well")
    return 0


if __name__ == "__main__":
    run_command(main)
