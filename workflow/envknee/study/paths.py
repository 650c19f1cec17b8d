"""Paths of a study's files. No other module names them."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class StudyFolder:
    """The files of one study, results/<study>/."""

    root: Path

    @property
    def study(self) -> Path:
        """The study that these results were measured with."""
        return self.root / "study.json"

    @property
    def resolved(self) -> Path:
        """Every field of each arm's environment and agent, as checked before the first trial."""
        return self.root / "resolved.yaml"

    @property
    def image(self) -> Path:
        """The image in which `runtime: docker` runs trials."""
        return self.root / "image.json"

    @property
    def replayed(self) -> Path:
        """The requests that a replay runs again, one per line."""
        return self.root / "replayed.jsonl"

    @property
    def closing(self) -> Path:
        """Names the SLURM job that ends soon, so that no further trial begins in it."""
        return self.root / ".closing"

    @property
    def trials(self) -> Path:
        """The folder of all trials."""
        return self.root / "trials"

    def trial(self, number: int) -> "TrialFolder":
        """Return the folder of one trial."""
        return TrialFolder(self.trials / f"{number:04d}")

    def trial_files(self, name: str) -> list[Path]:
        """Return the file `name` of every trial that has it, sorted by number. A copy (`0007.old`, `00007`) is no trial."""
        return sorted(path for path in self.trials.glob(f"*/{name}") if number_of(path.parent) is not None)

    @property
    def records_csv(self) -> Path:
        """One line per trial."""
        return self.root / "records.csv"

    @property
    def verdict(self) -> Path:
        """The thresholds."""
        return self.root / "verdict.json"

    @property
    def figures(self) -> Path:
        """The folder of all figures."""
        return self.root / "figures"

    @property
    def published(self) -> Path:
        """Record of what was sent to MLflow, with addresses."""
        return self.root / "published.json"

    @property
    def report(self) -> Path:
        """The report for a person."""
        return self.root / "report.html"


def number_of(trial: Path) -> int | None:
    """Return a trial's number from its folder's name; None for another folder."""
    name = trial.name
    return int(name) if name.isascii() and name.isdecimal() and name == f"{int(name):04d}" else None


@dataclass(frozen=True)
class TrialFolder:
    """The files of one trial, results/<study>/trials/<number>/."""

    root: Path

    @property
    def request(self) -> Path:
        """The trial's request."""
        return self.root / "request.json"

    @property
    def metrics(self) -> Path:
        """A line per iteration, flushed as it happens."""
        return self.root / "metrics.jsonl"

    @property
    def environment(self) -> Path:
        """Machine, devices and versions of the trial's process, written at its start."""
        return self.root / "environment.json"

    @property
    def outcome(self) -> Path:
        """How the trial ended; written at its end."""
        return self.root / "outcome.json"

    def rank_outcome(self, rank: int) -> Path:
        """How one of several ranks ended; the outcome combines them."""
        return self.root / f"rank-{rank}.json"

    @property
    def cost(self) -> Path:
        """The trial's GPUs, time, energy and job. Results of earlier versions and refused trials have none."""
        return self.root / "cost.json"

    @property
    def attempts(self) -> Path:
        """Failed attempts so far; deleted once an attempt has a result."""
        return self.root / "attempts.json"

    @property
    def record(self) -> Path:
        """The result, computed from request, metrics, outcome and cost."""
        return self.root / "record.json"

    @property
    def bundle(self) -> Path:
        """The result as Isaac Lab's own benchmark writes it (`envknee bundle`)."""
        return self.root / "training.json"

    @property
    def frames(self) -> Path:
        """Frames that the policy saw: for tasks with a camera, in the first repeat of a point."""
        return self.root / "frames.png"

    @property
    def policy(self) -> Path:
        """A learning trial's policy, as TorchScript."""
        return self.root / "policy.pt"

    @property
    def lock(self) -> Path:
        """Locked while a process measures this trial."""
        return self.root / ".lock"

    @property
    def log(self) -> Path:
        """Everything that the trial's process printed."""
        return self.root / "trial.log"
