"""What a study says, as frozen models: the file verdict.json."""

from typing import Literal

from pydantic import Field

from envknee.record.schema import Frozen
from envknee.verdict.schema.batch import BatchLaw
from envknee.verdict.schema.learning import BestPoint, Cost, LearningLimit
from envknee.verdict.schema.levers import Lever
from envknee.verdict.schema.memory import MemoryLimit
from envknee.verdict.schema.noise_scale import PointNoise
from envknee.verdict.schema.phases import PhaseLaws
from envknee.verdict.schema.remedies import Remedies
from envknee.verdict.schema.rules import Rules
from envknee.verdict.schema.savings import Saving
from envknee.verdict.schema.scaling import Scaling
from envknee.verdict.schema.spending import Spending
from envknee.verdict.schema.throughput import ThroughputLimit
from envknee.verdict.series import Ranks

Binds = Literal[
    "throughput",
    "memory",
    "learning",
    "none yet: measure more environments",
    "none yet: measure more repeats",
]
"""What a person meets first when adding environments."""

SCHEMA_VERSION = 1


class Headline(Frozen):
    """One arm in a line: where doubling stops paying, what to run, and why."""

    state: Literal["reached", "still pays", "undecided"]
    """Of the throughput threshold: reached; shown not to be, for the largest doubling gains enough; or neither is shown."""
    more_repeats: int | None = None
    """Where undecided: how many more of each point would decide."""
    threshold_num_envs: int | None
    threshold_lowest: int | None
    """The threshold's interval at the study's confidence; None without any doubling."""
    threshold_highest: int | None
    """None: the measurements set no upper end."""
    repeats: int
    """Of the recommended point."""
    num_envs: int
    """The recommended point; of each rank."""
    horizon: int
    batch_size: int | None
    """Of all ranks together."""
    fps: float
    """At the recommended point: frames per second of all ranks, collecting and learning."""
    fps_lower: float | None
    fps_upper: float | None
    fps_share_of_best: float
    """Of the largest FPS measured at any point of this arm."""
    best_fps: float
    memory_peak_gb: float | None
    """Largest measured peak at the recommended point, of the fullest rank."""
    memory_share: float | None
    """Of the memory that a rank may use."""
    seconds_to_target: Cost | None
    """At the recommended point, where learning trials ran there."""
    best_time_to_target: BestPoint | None
    """The point that reached the target reward soonest, whatever its FPS."""
    binds: Binds
    because: str
    """Why that point."""
    what_would_move_it: str
    phases: str | None = None
    """Which phase sets the knee of the recommended series; None where its trials do not tell their phases."""
    saves: list[Saving] = []
    """What the recommended point saves on the way to the target, or else the point that reached it soonest."""
    levers: list[Lever] = []
    """What a longer horizon, a larger batch and more GPUs were measured to give."""
    method: str = (
        "the series with the largest measured FPS; its throughput threshold, or its num_envs with the largest FPS where none is"
        " shown, within the memory to keep free"
    )
    statement: str


class ArmVerdict(Frozen):
    """Everything decided about one arm."""

    arm: str
    world_size: int = 1
    """Ranks that train together: num_envs are those of each, FPS those of all."""
    rank_word: Literal["GPU", "rank"] = "GPU"
    """What a reader calls one of them."""
    hardware: list[str]
    trials: int
    headline: Headline | None
    """None where no throughput trial was timed to its end."""
    throughput: list[ThroughputLimit]
    """FPS of collecting and learning: the verdict rests on it."""
    throughput_env_step_inference: list[ThroughputLimit]
    """FPS of collecting alone, for comparison."""
    throughput_env_step: list[ThroughputLimit]
    """FPS of the simulation alone, for comparison."""
    learning: list[LearningLimit]
    memory: MemoryLimit | None
    phases: list[PhaseLaws] = []
    """Of each series whose trials tell their phases."""
    batch: list[BatchLaw] = []
    """How optimizer steps and frames to the target answer the batch size."""
    noise_scales: list[PointNoise] = []
    """Gradient noise scale, where several ranks learned together."""
    notes: list[str]

    @property
    def ranks(self) -> Ranks:
        """Return the ranks of this arm, in words."""
        return Ranks(self.world_size, self.rank_word)


class Broken(Frozen):
    """What broke first in some trials of an arm, and what may help."""

    arm: str
    tensor: str
    trials: list[int]
    """Their numbers."""
    reason: str
    """Of the first of them."""
    dump: str | None
    """Where its tensors are, from the study's folder."""
    hints: list[str]


class Verdict(Frozen):
    """What a study says."""

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
    """Of each arm with several ranks."""
    spending: list[Spending] = []
    """What each arm's trials took, and at the end those of all arms: what this verdict cost."""
    drill: str | None = Field(default=None, exclude_if=lambda value: value is None)
    """What was broken on purpose: then nothing here is a result."""
    broken: list[Broken] = Field(default=[], exclude_if=lambda value: not value)
    """What broke first in trials that ended as nan or diverged, each kind once."""
    remedies: Remedies | None = Field(default=None, exclude_if=lambda value: value is None)
    """What each arm buys beside the baseline, where the study names one."""
    rules: Rules | None = Field(default=None, exclude_if=lambda value: value is None)
    """Arms that scale training with num_envs by a rule, side by side."""
