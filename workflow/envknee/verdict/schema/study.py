"""The verdict of a study, as frozen models: the file verdict.json."""

from typing import Literal

from envknee.base.fields import newer
from envknee.record.schema import Frozen
from envknee.verdict.schema.batch import BatchLaw, PointNoise
from envknee.verdict.schema.learning import Cost, LearningLimit, Rules
from envknee.verdict.schema.levers import Lever, Remedies
from envknee.verdict.schema.memory import MemoryLimit
from envknee.verdict.schema.phases import PhaseLaws
from envknee.verdict.schema.scaling import Scaling
from envknee.verdict.schema.throughput import ThroughputLimit
from envknee.verdict.series import OfPlace, Ranks

Binds = Literal[
    "throughput",
    "memory",
    "learning",
    "none yet: measure more environments",
    "none yet: measure more repeats",
]
"""The limit that is met first when environments are added."""

SCHEMA_VERSION = 2
"""1 held sentences beside its numbers."""


class Headline(OfPlace):
    """The recommendation for one arm, with its threshold and reasons."""

    state: Literal["reached", "still pays", "undecided"]
    """State of the throughput threshold (see `ThroughputLimit`)."""
    threshold_num_envs: int | None
    num_envs: int
    """The recommended number, per rank."""
    fps: float
    """At the recommended point: frames per second of all ranks, collecting and learning."""
    fps_share_of_best: float
    """Share of the largest FPS at any point of this arm."""
    memory_peak_gb: float | None
    """Largest measured peak at the recommended point, on the rank with the most."""
    seconds_to_target: Cost | None
    """At the recommended point, if learning trials ran there."""
    binds: Binds
    because: str
    """Why this point is recommended."""
    what_would_move_it: str = ""
    saves: str | None = None
    """Hours to the target of the recommended point, or else of the soonest point, beside the next larger one."""
    levers: list[Lever] = []
    """Measured effects of a longer horizon, a larger batch and more GPUs."""
    method: str = (
        "the series with the largest measured FPS; its throughput threshold, or its num_envs with the largest FPS where none is"
        " shown, within the memory to keep free"
    )
    statement: str


class ArmVerdict(Frozen):
    """Everything decided about one arm."""

    arm: str
    world_size: int = 1
    """Ranks that train together; num_envs is per rank, FPS are of all ranks."""
    rank_word: Literal["GPU", "rank"] = "GPU"
    """The word for one rank."""
    hardware: list[str]
    trials: int
    headline: Headline | None = None
    """None if no throughput trial was timed to its end."""
    throughput: list[ThroughputLimit]
    """By FPS of collecting and learning together."""
    learning: list[LearningLimit]
    memory: MemoryLimit | None
    phases: list[PhaseLaws] = []
    """Laws of each series with phases."""
    batch: list[BatchLaw] = []
    """Optimizer steps and frames to the target, by batch size."""
    noise_scales: list[PointNoise] = []
    """Gradient noise scales, for arms with several ranks."""
    notes: list[str]

    @property
    def ranks(self) -> Ranks:
        """The ranks of this arm, in words."""
        return Ranks(self.world_size, self.rank_word)


class Energy(Frozen):
    """Energy of some trials, of those whose counters could be read."""

    kwh: float
    trials: int


class QueueWait(Frozen):
    """How long SLURM's jobs of some trials waited to start."""

    median_s: float
    largest_s: float


class LostAttempts(Frozen):
    """Attempts that ended without a result, and were repeated."""

    attempts: int
    gpu_hours: float
    """None of `Spending.gpu_hours`."""


class Spending(Frozen):
    """Resources of some trials."""

    arm: str | None
    """None: all arms together."""
    trials: int
    hours: float
    """Hours that trials took, start-up included."""
    gpu_hours: float
    """GPUs x hours for which trials held them, start-up included."""
    energy_kwh: float | None
    """Energy of the GPUs, by their own counters; None if unknown for all trials."""
    energy: Energy | None = None
    """The same, with the number of trials whose energy is known."""
    node_energy: Energy | None = None
    """Energy of whole nodes, by their sensors."""
    queue_wait: QueueWait | None = None
    """None outside SLURM."""
    lost: LostAttempts | None = None
    """None if no attempt was lost."""


class Broken(Frozen):
    """A failure of some trials of an arm, with hints."""

    arm: str
    tensor: str
    trials: list[int]
    """Their numbers."""
    reason: str
    """The first trial's reason."""
    dump: str | None
    """The file with its tensors, relative to the study's folder."""
    hints: list[str]


class Verdict(Frozen):
    """The verdict of a study."""

    schema_version: int = SCHEMA_VERSION
    study: str
    task_id: str
    trials_measured: int
    trials_planned: int
    statuses: dict[str, int]
    delta: float
    delta_learning: float
    confidence: float
    memory_margin: float
    arms: list[ArmVerdict]
    scaling: list[Scaling] = []
    """Efficiency of each arm with several ranks."""
    spending: list[Spending] = []
    """Resources of each arm's trials, and at the end of all arms together."""
    drill: str | None = newer(None)
    """In a drill, the fault that was injected: nothing in this verdict is a result."""
    broken: list[Broken] = newer([])
    """First failures of trials, one for each arm and tensor."""
    remedies: Remedies | None = newer(None)
    """Comparison of each arm with the baseline, if the study names one."""
    rules: Rules | None = newer(None)
    """Comparison of scaling rules."""
