"""Where everything of a study lies, named here alone."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class StudyFolder:
    """The files of one study, results/<study>/. Paths are named here and nowhere else."""

    root: Path

    @property
    def study(self) -> Path:
        """The part of the configuration that these results were measured with."""
        return self.root / "study.json"

    @property
    def resolved(self) -> Path:
        """Every field of every arm's environment and agent, as checked before the first trial."""
        return self.root / "resolved.yaml"

    @property
    def image(self) -> Path:
        """Which image `runtime: docker` runs trials in."""
        return self.root / "image.json"

    @property
    def replayed(self) -> Path:
        """The requests that a replay runs again, a line each, as another study recorded them."""
        return self.root / "replayed.jsonl"

    @property
    def closing(self) -> Path:
        """Names the SLURM job in which no further trial begins, because it ends soon."""
        return self.root / ".closing"

    @property
    def trials(self) -> Path:
        """The folder of all trials."""
        return self.root / "trials"

    def trial(self, number: int) -> "TrialFolder":
        """Return the folder of one trial."""
        return TrialFolder(self.trials / f"{number:04d}")

    def trial_files(self, name: str) -> list[Path]:
        """Return the file `name` of every trial that has it, by number. A copy (`0007.old`, `00007`) is no trial."""
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
        """What was sent to MLflow, and where."""
        return self.root / "published.json"

    @property
    def report(self) -> Path:
        """The report for a person."""
        return self.root / "report.html"


def number_of(trial: Path) -> int | None:
    """Return the number that a trial's folder is named by; None where no trial has that name."""
    name = trial.name
    return int(name) if name.isascii() and name.isdecimal() and name == f"{int(name):04d}" else None


@dataclass(frozen=True)
class TrialFolder:
    """The files of one trial, results/<study>/trials/<number>/."""

    root: Path

    @property
    def request(self) -> Path:
        """What to run."""
        return self.root / "request.json"

    @property
    def metrics(self) -> Path:
        """A line per iteration, flushed as it happens."""
        return self.root / "metrics.jsonl"

    @property
    def environment(self) -> Path:
        """Where and with what the trial's process runs, known from its start."""
        return self.root / "environment.json"

    @property
    def outcome(self) -> Path:
        """How the trial ended; exists only once it has."""
        return self.root / "outcome.json"

    def rank_outcome(self, rank: int) -> Path:
        """How one of several ranks ended; the outcome is made of them."""
        return self.root / f"rank-{rank}.json"

    @property
    def cost(self) -> Path:
        """What it took: GPUs, time, energy, its job. Missing in results of earlier versions and of refused trials."""
        return self.root / "cost.json"

    @property
    def attempts(self) -> Path:
        """Attempts without a result so far; there until one has a result."""
        return self.root / "attempts.json"

    @property
    def record(self) -> Path:
        """The result, a pure function of request, metrics, outcome and cost."""
        return self.root / "record.json"

    @property
    def bundle(self) -> Path:
        """The result as Isaac Lab's own benchmark writes it, where `envknee bundle` was run."""
        return self.root / "training.json"

    @property
    def frames(self) -> Path:
        """A sample of what the policy saw; only of the first repeat of a point that a camera looks at."""
        return self.root / "frames.png"

    @property
    def policy(self) -> Path:
        """What a learning trial has learned, as TorchScript."""
        return self.root / "policy.pt"

    @property
    def lock(self) -> Path:
        """Locked for as long as a process measures this trial."""
        return self.root / ".lock"

    @property
    def log(self) -> Path:
        """Everything that the trial's process printed."""
        return self.root / "trial.log"
