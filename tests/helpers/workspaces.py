"""A folder in which sweeps run, as in a clone of the project: the project's own Snakefile, real Isaac Lab."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml
from environment import ENVIRONMENT, SNAKEMAKE
from envknee.study.paths import StudyFolder
from places import ROOT
from programs import ran

TINY = ROOT / "tests/fixtures/tiny.yaml"


class Workspace:
    """A folder in which sweeps run, as a clone of the project would be."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = ENVIRONMENT

    def study(self, **changes: Any) -> Path:
        """Write the tiny study with some of its sections replaced; None leaves a section out."""
        study = yaml.safe_load(TINY.read_text(encoding="utf-8")) | changes
        if study.get("throughput"):
            study["throughput"] = {"wait_for_others": False} | study["throughput"]  # other tests are always busy
        path = self.folder / f"{study['study']}.yaml"
        path.write_text(
            yaml.safe_dump({key: value for key, value in study.items() if value is not None}), encoding="utf-8"
        )
        return path

    def results(self, name: str = "tiny") -> StudyFolder:
        return StudyFolder(self.folder / "results" / name)

    def prepared(self, name: str = "tiny") -> StudyFolder:
        """Return the folder of a study that was prepared before: whole sweeps show that, and it takes a trial per arm."""
        folder = self.results(name)
        folder.root.mkdir(parents=True, exist_ok=True)
        folder.resolved.write_text("stock: {}\n", encoding="utf-8")
        return folder

    def command(self, study: Path, *arguments: str) -> list[str]:
        return [
            SNAKEMAKE, *arguments, "--snakefile", str(ROOT / "Snakefile"), "--directory", str(self.folder),
            "--configfile", str(study),
        ]  # fmt: skip

    def verdict_of(self, study: Path) -> str:
        """Return the target of a sweep that needs no figures, no runs in MLflow and no report: they take as long as a trial."""
        return str(self.results(study.stem).verdict.relative_to(self.folder))

    def measure(self, study: Path, timeout_s: float = 900) -> subprocess.CompletedProcess[str]:
        return self.sweep(study, self.verdict_of(study), timeout_s=timeout_s)

    def sweep(self, study: Path, *arguments: str, timeout_s: float = 900) -> subprocess.CompletedProcess[str]:
        """Run a sweep to its end; stdout and stderr come together."""
        return self.run(self.command(study, *arguments), timeout_s)

    def start(self, study: Path, *arguments: str) -> "subprocess.Popen[str]":
        return self.begin(self.command(study, *arguments))

    def begin(self, command: list[str]) -> "subprocess.Popen[str]":
        """Start a command in a process group of its own, as a terminal does."""
        return subprocess.Popen(
            command, cwd=self.folder, env=self.environment, text=True, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def module(self, name: str, *arguments: str, timeout_s: float = 300) -> subprocess.CompletedProcess[str]:
        """Run `envknee <name>`."""
        return self.run([sys.executable, "-m", "envknee", name, *arguments], timeout_s)

    def run(self, command: list[str], timeout_s: float) -> subprocess.CompletedProcess[str]:
        return ran(command, cwd=self.folder, env=self.environment, timeout=timeout_s, stderr=subprocess.STDOUT)
