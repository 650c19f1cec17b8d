"""The verdict of a study, as frozen models: the file verdict.json."""

from envknee.base.fields import Kind, newer
from envknee.record.schema import Frozen
from envknee.verdict.schema.batch import BatchLaw, PointNoise
from envknee.verdict.schema.headline import Headline
from envknee.verdict.schema.joint import JointAnswer
from envknee.verdict.schema.learning import LearningLimit, LearningPoint, Rules, best_of
from envknee.verdict.schema.levers import Remedies
from envknee.verdict.schema.memory import GpuPeaks, MemoryLimit
from envknee.verdict.schema.phases import PhaseLaws
from envknee.verdict.schema.scaling import Scaling
from envknee.verdict.schema.throughput import ThroughputLimit
from envknee.verdict.series import OfPlace, OfSeries, Ranks, RankWord

SCHEMA_VERSION = 2
"""1 held sentences beside its numbers."""


class HostCpu(Frozen):
    """The CPU of a machine."""

    model: str
    cores: int


class MachineMix(Frozen):
    """Machines and code that differ among the trials of one kind, and with them perhaps the results."""

    kind: Kind
    host_cpus: list[HostCpu]
    """Kinds of host CPU, where GPUs did the work; empty unless there are several."""
    commits: list[str]
    """The first seven digits of each commit; empty unless there are several."""


class OtherGpus(OfSeries):
    """A doubling whose saving is shown to be below delta, with ends that ran on different GPUs."""

    num_envs: int
    doubled: int
    same_kind: bool
    """Whether the GPUs have the same name."""


class MachineEffects(Frozen):
    """What may look like an effect of num_envs, and may be one of the machines."""

    mixes: list[MachineMix]
    in_order: list[OfSeries]
    """Series whose trials ran in the order of their num_envs: drift of the machine may pass for a gain."""
    other_gpus: list[OtherGpus]


class ArmVerdict(Frozen):
    """Everything decided about one arm."""

    arm: str
    world_size: int = 1
    """Ranks that train together; num_envs is per rank, FPS are of all ranks."""
    rank_word: RankWord = "GPU"
    """The word for one rank."""
    hardware: list[str]
    trials: int
    headline: Headline | None = None
    """None if no throughput trial was timed to its end, or if the model chose these trials: then `joint` has the recommendation."""
    throughput: list[ThroughputLimit]
    """By FPS of collecting and learning together."""
    learning: list[LearningLimit]
    memory: MemoryLimit | None
    gpu_peaks: list[GpuPeaks] = newer([])
    phases: list[PhaseLaws] = []
    """Laws of each series with phases."""
    batch: list[BatchLaw] = []
    """Optimizer steps and frames to the target, by batch size."""
    joint: list[JointAnswer] = newer([])
    """Answers over num_envs, horizon and batch size at once, for sections with `sampler: profile` or `confirm`."""
    noise_scales: list[PointNoise] = []
    """Gradient noise scales, for arms with several ranks."""
    machines: MachineEffects
    warnings: list[str]
    """Warnings of the arm's trials, each once."""

    @property
    def ranks(self) -> Ranks:
        """The ranks of this arm."""
        return Ranks(self.world_size, self.rank_word)

    @property
    def recommended(self) -> ThroughputLimit | None:
        """The limit of the recommended series; None if no throughput trial was timed to its end."""
        return next((limit for limit in self.throughput if self._is_recommended(limit)), None)

    @property
    def recommended_phases(self) -> PhaseLaws | None:
        """The phase laws of the recommended series; None without one."""
        return next((laws for laws in self.phases if self._is_recommended(laws)), None)

    def _is_recommended(self, part: OfPlace) -> bool:
        """Tell whether a part of this arm is at the recommended horizon and batch size."""
        headline = self.headline
        return headline is not None and (part.horizon, part.batch_size) == (headline.horizon, headline.batch_size)

    @property
    def soonest(self) -> tuple[LearningLimit, LearningPoint] | None:
        """The point that is soonest at the target, behind its limit; None if at every point some seed missed it."""
        return best_of(self.learning)


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
    energy: Energy | None = None
    """Energy of the GPUs, by their own counters; None if unknown for all trials."""
    node_energy: Energy | None = None
    """Energy of whole nodes, by their sensors."""
    queue_wait: QueueWait | None = None
    """None outside SLURM."""
    lost: LostAttempts | None = None
    """None if no attempt was lost."""
    waited_s: float = newer(0.0)
    """Seconds for which trials waited for other processes before they began."""
    waiting_trials: int = newer(0)
    """Trials that did."""


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


class Crashed(Frozen):
    """Sizes of an arm at which its program crashed in every repeat that was tried."""

    arm: str
    num_envs: list[int]
    line: str
    """The line of the first log that says why."""


class Verdict(Frozen):
    """The verdict of a study."""

    schema_version: int = SCHEMA_VERSION
    study: str
    task_id: str
    trials_measured: int
    """Trials with a record that were not skipped; refused ones are among them."""
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
    crashed: list[Crashed] = newer([])
    """Sizes at which a program crashed, one for each arm and line."""
    remedies: Remedies | None = newer(None)
    """Comparison of each arm with the baseline, if the study names one."""
    rules: Rules | None = newer(None)
    """Comparison of scaling rules."""

    @property
    def trials_not_needed(self) -> int:
        """Trials of the plan that were skipped; `trials_planned` does not count them."""
        return self.statuses.get("skipped", 0)

    @property
    def trials_left(self) -> int:
        """Trials of the plan without a record."""
        return max(0, self.trials_planned - self.trials_measured)

    @property
    def statuses_of_measured(self) -> dict[str, int]:
        """How the measured trials ended: these add up to `trials_measured`."""
        return {status: count for status, count in self.statuses.items() if status != "skipped"}
