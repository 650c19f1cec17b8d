"""What `envknee best` chooses from, and what it prints, as frozen models: an `Answer` for each arm and question, and a `Best`."""

from typing import Literal

from envknee.base.fields import Kind
from envknee.verdict.schema.card import CardState, TrainingCommand
from envknee.verdict.schema.joint import Setting
from envknee.verdict.series import OfRanks

SCHEMA_VERSION = 1

Aim = Literal["soonest", "fps", "cheapest"]
"""soonest: fewest seconds to the target. fps: most frames per second. cheapest: fewest GPU-seconds to the target."""

Axis = Literal["num_envs", "horizon", "batch_size"]
"""What a study may sweep, and a setting names."""

ANSWERED_BY: dict[Aim, Kind] = {"soonest": "learning", "fps": "throughput", "cheapest": "learning"}
"""The kind of trial that answers each aim."""


class Measured(OfRanks):
    """What was measured where: one arm of a study, on one kind of device."""

    schema_version: int = SCHEMA_VERSION
    study: str
    """The study's name."""
    task_id: str
    """The task, as Isaac Lab registers it or the study names it."""
    arm: str
    """The arm's name."""
    kind: Kind
    """The trials that answer: learning, or throughput."""
    program: str
    """The trainer, or for a program of the user's own its preset, or the program's name."""
    device: str
    """The name of the GPU or CPU."""
    device_memory_gb: float
    """Memory that a trial could use there, in GB (1e9 bytes)."""
    gpus: int
    """GPUs that a trial held; 0 on a CPU."""
    versions: dict[str, str]
    """Package -> version, in the newest trial."""
    measured_unix_s: float
    """When the newest trial ended."""
    swept: list[Axis]
    """Those of num_envs, horizon and batch_size that have several values among the arm's trials."""


class Option(Setting):
    """A setting that an arm may train at, and what it gives."""

    value: float
    """Seconds to the target, or FPS of all ranks."""
    lower: float | None
    """Two-sided interval; None with one repeat or seed."""
    upper: float | None
    repeats: int
    """Repeats, or seeds."""
    is_composed: bool
    """Whether its FPS were put together from parts of other settings' trials, because no trial ran it."""
    peak_gb: float | None
    """Peak memory of one rank: the largest of its trials, or what the memory model gives where none ran. None if unknown."""
    is_beyond_threshold: bool
    """Whether a smaller size of its series is the one from which doubling is shown not to pay."""
    is_best_of_smaller: bool
    """Whether it is shown to be the best one where nothing larger fits."""
    command: TrainingCommand | None
    """The command that trains there; None if none is known."""


class Answer(Measured):
    """One arm's answer to one question, with every setting that may take the place of the best one on a smaller GPU."""

    memory_margin: float
    """Share of the memory to keep free."""
    options: list[Option]
    best: Option | None
    """None if the study has no result, such as before a seed arrived."""
    state: CardState
    """Of the best one."""
    is_limited_by_memory: bool
    """Whether a larger setting did not fit, or is predicted not to."""

    def is_decided(self, memory_gb: float | None = None) -> bool:
        """Tell whether the best setting is shown to be the answer, on a GPU of `memory_gb`, or on the study's own.

        A doubling that still pays leaves nothing to decide where its next size does not fit the memory.
        """
        ends_there = self.is_limited_by_memory and (memory_gb is None or memory_gb <= self.device_memory_gb)
        return self.state == "decided" or (self.state == "still pays" and ends_there)


class Best(Measured):
    """The answer that is printed: a setting, what it gives, and the command that trains there."""

    aim: Aim
    """What was asked for: soonest, fps, or cheapest."""
    num_envs: int
    """Environments on each rank."""
    num_envs_total: int
    """On all ranks together."""
    horizon: int
    """Environment steps per rollout."""
    batch_size: int | None
    """Transitions per optimizer step, all ranks together; None: the library's own."""
    state: CardState
    """decided: this setting is shown to be the answer. still pays: more environments are shown to pay. undecided: neither is shown."""
    value: float
    """What the setting gives, in `unit`."""
    unit: Literal["s", "FPS"]
    """Of `value` and its interval: seconds to the target, or frames per second of all ranks."""
    lower: float | None
    """Two-sided interval; None with one repeat or seed."""
    upper: float | None
    gpu_seconds: float | None
    """GPU-seconds to the target; None on a CPU, and for FPS."""
    repeats: int
    """Repeats, or seeds."""
    is_composed: bool
    """Whether its FPS were put together from parts of other settings' trials, because no trial ran it."""
    memory_gb: float | None
    """Memory of the GPU that was asked for (`--gpu`); None: that of the study."""
    peak_gb: float | None
    """Peak memory of one rank; None if unknown."""
    command: TrainingCommand | None
    """The command that trains there; None if none is known."""
