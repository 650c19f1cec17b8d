"""Paths of a study's files, which no other module names, and of the project's."""

from dataclasses import dataclass
from pathlib import Path

_PACKAGE = Path(__file__).parents[1]

PROJECT = _PACKAGE.parents[1] if (_PACKAGE.parents[1] / "Snakefile").is_file() else _PACKAGE / "project"
"""The folder with the Snakefile, `workflow/rules`, `workflow/report` and `workflow/profiles`: the checkout, or a part of the wheel."""


def shipped(name: str) -> str:
    """Return how a message names a file of the project: as seen from its folder if that is the working one, else by its whole path."""
    return name if Path(name).is_file() else str(PROJECT / name)


@dataclass(frozen=True)
class Folder:
    """A folder whose files have fixed names."""

    root: Path


class In:
    """A file or folder of this name in a `Folder`."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, folder: Folder, kind: type) -> Path:
        return folder.root / self.name


RECEIVED = "archives"
"""The folder in results/ into which archives are unpacked."""


class StudyFolder(Folder):
    """The files of one study, results/<study>/."""

    study = In("study.json")
    """The study that these results were measured with."""
    resolved = In("resolved.yaml")
    """Every field of each arm's environment and agent, as checked before the first trial."""
    image = In("image.json")
    """The image in which `runtime: docker` runs trials."""
    journal = In(".asked.journal")
    """What asking needs of earlier trials, in short (`envknee.ask.journal`). It may be deleted."""
    replayed = In("replayed.jsonl")
    """The requests that a replay runs again, one per line."""
    closing = In(".closing")
    """Names the SLURM job that ends soon, so that no further trial begins in it."""
    time_over = In(".time-over")
    """Which trial was not begun, because the time of `envknee knee --time` had no room for it."""
    trials = In("trials")
    """The folder of all trials."""
    archive = In("trials.zip")
    """In place of `trials`, for a study that `envknee keep` published: requests and measurements, with a hash of each file."""
    job_logs = In("logs/slurm")
    """What the study's jobs print on a SLURM cluster, in a folder for each rule."""
    records_csv = In("records.csv")
    """One line per trial."""
    verdict = In("verdict.json")
    """The thresholds."""
    figures = In("figures")
    """The folder of all figures."""
    published = In("published.json")
    """Record of what was sent to MLflow, with addresses."""
    report = In("report.html")
    """The report for a person."""

    def trial(self, number: int) -> "TrialFolder":
        """Return the folder of one trial."""
        return TrialFolder(self.trials / trial_name(number))

    @property
    def is_received(self) -> bool:
        """Whether the study came as an archive, and so may be somebody else's."""
        return self.root.absolute().parent.name == RECEIVED

    def pool_lock(self, pool: int) -> Path:
        """Return the file that is locked while a worker of a pool chooses its next trial."""
        return self.root / f".pool-{trial_name(pool)}.lock"

    def lane_lock(self, pool: int, lane: int) -> Path:
        """Return the file that is locked while a worker has a lane of a pool, or measures one of its trials."""
        return self.root / f".pool-{trial_name(pool)}-lane-{lane}.lock"

    def trial_files(self, name: str) -> list[Path]:
        """Return the file `name` of every trial that has it, sorted by number. A copy (`0007.old`, `00007`) is no trial."""
        numbered = ((number_of(path.parent), path) for path in self.trials.glob(f"*/{name}"))
        return [path for _, path in sorted((number, path) for number, path in numbered if number is not None)]


def trial_name(number: int) -> str:
    """Return the name of a trial's folder: `0007`."""
    return f"{number:04d}"


def number_of(trial: Path) -> int | None:
    """Return a trial's number from its folder's name; None for another folder."""
    name = trial.name
    return int(name) if name.isascii() and name.isdecimal() and name == f"{int(name):04d}" else None


class TrialFolder(Folder):
    """The files of one trial, results/<study>/trials/<number>/."""

    request = In("request.json")
    """The trial's request."""
    metrics = In("metrics.jsonl")
    """A line per iteration, flushed as it happens."""
    environment = In("environment.json")
    """Machine, devices and versions of the trial's process, written at its start."""
    outcome = In("outcome.json")
    """How the trial ended; written at its end."""
    cost = In("cost.json")
    """The trial's GPUs, time, energy and job. Results of earlier versions and refused trials have none."""
    attempts = In("attempts.json")
    """Failed attempts so far; deleted once an attempt has a result."""
    record = In("record.json")
    """The result, computed from request, metrics, outcome and cost."""
    bundle = In("training.json")
    """The result as Isaac Lab's own benchmark writes it (`envknee bundle`)."""
    frames = In("frames.png")
    """Frames that the policy saw: for tasks with a camera, in the first repeat of a point."""
    policy = In("policy.pt")
    """A learning trial's policy, as TorchScript (`trainer: rsl_rl`)."""
    lock = In(".lock")
    """Locked while a process measures this trial."""
    log = In("trial.log")
    """Everything that the trial's process printed."""
    run = In("run")
    """The folder in which the program of `trainer: command` runs."""

    def rank_outcome(self, rank: int) -> Path:
        """How one of several ranks ended; the outcome combines them."""
        return self.root / f"rank-{rank}.json"
