"""`envknee sweep FILE`: run a study, or go on with it, and say what was found. Snakemake does the work underneath.

Input: a study's file, and how trials are started (a profile). Output: what the rules make in results/<study>/ of the working directory,
and a line with the place of it. `make sweep` does the same in a clone, once it is set up.
"""

import argparse
import importlib.util
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from envknee.machine.gpus import visible_uuids
from envknee.machine.processes import own_python_first
from envknee.run import live
from envknee.study.errors import UserError, nearest
from envknee.study.load import read_study
from envknee.study.paths import PROJECT, StudyFolder

DEFAULT = "config/config.yaml"

SLURM_PLUGIN = "snakemake_executor_plugin_slurm"
"""Snakemake's executor for `--profile slurm`, which the extra `slurm` installs."""

DIRECTORY = frozenset({"-d", "--directory"})
"""Snakemake's options for another working directory, in which the live view and the answer would not find the results."""

SHIPPED = PROJECT / "workflow/profiles"
"""The profiles that envknee brings."""


def profile_of(name: str, folder: Path) -> str:
    """Return what Snakemake is given for a profile: the name of a folder's own, or the path of the one that envknee ships.

    Raises:
        UserError: when there is none of this name, or the plugin of `slurm` is not installed.
    """
    shipped = sorted(path.name for path in SHIPPED.iterdir() if path.name != "default")
    if name == "slurm" and importlib.util.find_spec(SLURM_PLUGIN) is None:
        raise UserError(
            "--profile slurm needs Snakemake's SLURM plugin, which is not installed: pip install 'envknee[slurm]'"
        )
    if (folder / name / "config.yaml").is_file():
        return name
    if name in shipped:
        return str(SHIPPED / name)
    raise UserError(
        f"--profile {name}: no such profile{nearest(name, shipped)}. Expected {', '.join(shipped)}, or a folder here"
    )


def default_profile(folder: Path) -> str:
    """Return the path of what holds for every sweep: a folder's own profile, or the one that envknee ships."""
    own = folder / "profiles/default"
    return str(own if own.is_dir() else SHIPPED / "default")


def devices_here() -> list[str]:
    """Return the words that tell Snakemake how many trials run side by side on this machine."""
    return ["--resources", f"device={max(1, len(visible_uuids()))}"]


def snakemake_words(study: Path, workflow_profile: str, where: Sequence[str], targets: Sequence[str] = ()) -> list[str]:
    """Return the words behind `snakemake` for a sweep of the working directory. Whatever follows them is an option, too.

    `where` says on what trials run. Targets stand before --configfile, which takes every word behind it.
    """
    return [
        *targets, "--snakefile", str(PROJECT / "Snakefile"), "--directory", str(Path.cwd()),
        "--workflow-profile", workflow_profile, "--configfile", str(study.resolve()), *where,
    ]  # fmt: skip


def run_snakemake(words: Sequence[str], environment: dict[str, str] | None = None) -> int:
    """Run Snakemake until it ends, and return its exit status. Ctrl-C reaches it, too: this process waits for its end."""
    with live.interrupts_left_to_children():
        return live.start(_command(words), environment=environment).wait()


def _command(words: Sequence[str]) -> list[str]:
    """Return the command that runs Snakemake with these words behind its name."""
    return [sys.executable, "-m", "envknee.run.snakemake_here", *words]


def split_words(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the words before the first `--`, and those behind it, which are Snakemake's. Pure."""
    place = words.index("--") if "--" in words else len(words)
    return list(words[:place]), list(words[place + 1 :])


def main() -> int:
    """Run a study, or go on with it, and say what was found."""
    parser = argparse.ArgumentParser(
        description="Run a study, or go on with it, and say what was found. Results go to results/<study>/ of this folder.",
        usage="%(prog)s [-h] [--profile NAME] [--prepare] [--plain] [-n] [FILE] [-- OPTION ...]",
        epilog="What stands behind -- goes to snakemake as it stands. example: envknee sweep my-ant/study.yaml",
    )
    parser.add_argument(
        "file", nargs="?", type=Path, metavar="FILE", help=f"a study file (default: {DEFAULT} of this folder)"
    )
    parser.add_argument(
        "--profile", metavar="NAME", help="slurm: as jobs of a cluster; allocation: as steps on nodes that you have"
    )
    parser.add_argument("--prepare", action="store_true", help="run the smallest trial of each arm, and nothing else")
    parser.add_argument(
        "--plain", action="store_true", help="on a terminal, print lines in place of the live view, as in a pipe"
    )
    parser.add_argument("-n", "--dry-run", action="store_true", help="say what would run, and nothing else")
    words, more = split_words(sys.argv[1:])
    given = parser.parse_args(words)
    if given.file is None and not Path(DEFAULT).is_file():
        raise UserError(
            f"no study was named, and this folder has no {DEFAULT}. Name a study file, or make a project: envknee init FOLDER --workflow"
        )
    file = given.file or Path(DEFAULT)
    if elsewhere := DIRECTORY.intersection(word.partition("=")[0] for word in more):
        raise UserError(
            f"{min(elsewhere)} behind --: results go to the folder in which envknee starts. Start it there, without this option"
        )
    study = read_study(file).study
    here = Path.cwd()
    where = ["--profile", profile_of(given.profile, here)] if given.profile else devices_here()
    options = [*where, *(["-n"] if given.dry_run else []), *more]
    words = snakemake_words(file, default_profile(here), options, ["prepare"] if given.prepare else [])
    own_python_first()
    print(f"envknee: study {study}", flush=True)
    results = StudyFolder(Path("results") / study)
    status = run_snakemake(words) if given.prepare else live.run(_command(words), words, results, given.plain)
    if status or given.dry_run or given.prepare:
        return status
    summary = [sys.executable, "-m", "envknee", "summary", "--where", str(results.root)]
    return subprocess.run(summary, check=False).returncode
