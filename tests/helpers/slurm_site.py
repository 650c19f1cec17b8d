"""A clone of the project beside a real SLURM, whose user has edited a handful of lines."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from environment import ENVIRONMENT
from places import ROOT
from programs import a_program
from slurm_cluster import Cluster
from workspaces import Workspace

SITE = {"cpus_per_gpu": "1", "mem_gb_per_gpu": "1.5", "gpu_type": "h100", "max_gpus": "4"}
PROFILE = {"slurm-init-seconds-before-status-checks": "1", "latency-wait": "5"}

# Snakemake as it is, but for when it looks at its jobs: each look without news comes 10 s later than the one before.
SNAKEMAKE = f"""#!{sys.executable}
from snakemake.cli import main
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor
assert isinstance(RemoteExecutor.next_seconds_between_status_checks, property)
RemoteExecutor.next_seconds_between_status_checks = property(lambda executor: 2, lambda executor, seconds: None)
main()
"""


class Site(Workspace):
    """A clone of the project, whose user has edited a handful of lines."""

    def __init__(self, folder: Path, cluster: Cluster) -> None:
        super().__init__(folder)
        self.started: list[subprocess.Popen[str]] = []
        bin_folder = ENVIRONMENT["PATH"].partition(os.pathsep)[0]
        self.environment = ENVIRONMENT | cluster.environment | {
            "PATH": os.pathsep.join([str(folder / "bin"), bin_folder, cluster.environment["PATH"]]),
            "PYTHONPATH": str(folder / "workflow"),
        }  # fmt: skip
        for name in ("config", "workflow"):
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.local.yaml"))
        for name in ("Snakefile", "Makefile", "profiles", "slurm", "allocation"):
            shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)  # the last three are links
        snakemake = folder / "bin/snakemake"
        snakemake.parent.mkdir()
        snakemake.write_text(SNAKEMAKE, encoding="utf-8")
        snakemake.chmod(0o755)
        self.profile = "slurm"
        edit(folder / "slurm/config.yaml", **PROFILE)
        edit(folder / "allocation/config.yaml", **{"latency-wait": "5"})
        self.edit_site(**SITE)

    def command(self, study: Path, *arguments: str) -> list[str]:
        return ["snakemake", *arguments, "--profile", self.profile, "--configfile", study.name]

    def make(self, study: Path) -> "subprocess.Popen[str]":
        """Start a sweep with make. What set-up would install is here: this Python, and its Snakemake."""
        (self.folder / "workflow/setup.sh").write_text("exit 0\n", encoding="utf-8")
        for name, real in (("python", sys.executable), ("snakemake", self.folder / "bin/snakemake")):
            a_program(self.folder / ".venv/bin", name, f'PYTHONPATH={self.folder}/workflow exec {real} "$@"')
        return self.begin(["make", "sweep", f"PROFILE={self.profile}", f"CONFIG={study.name}"])

    def begin(self, command: list[str]) -> "subprocess.Popen[str]":
        self.started.append(super().begin(command))
        return self.started[-1]

    def edit_site(self, **lines: str) -> None:
        edit(self.folder / "slurm/site.yaml", **lines)


def edit(path: Path, **lines: str) -> None:
    """Give keys of a YAML file other values, as a person does: every other line stays."""
    text = path.read_text(encoding="utf-8").splitlines()
    for key, value in lines.items():
        (place,) = [number for number, line in enumerate(text) if line.startswith(f"{key}:")]
        text[place] = f"{key}: {value}"
    path.write_text("\n".join(text) + "\n", encoding="utf-8")
