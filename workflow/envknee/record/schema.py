"""The files of a trial as frozen models with units in their names: request, row, outcome, cost and record."""

from typing import Annotated, Any, Literal, Self, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, model_validator

from envknee.base.fields import Kind, newer
from envknee.base.point import Point
from envknee.machine.schema import Device, Environment
from envknee.record.metric import Metric
from envknee.record.reasons import RefusalReason, SkipReason
from envknee.record.status import Status
from envknee.study.arm import Memory, Setup
from envknee.study.scaling_rule import RATE_GROWS, RuleName
from envknee.study.strategies import STRATEGIES
from envknee.study.task import Inject
from envknee.study.value_types import AskVersion, Overrides, PhaseSwitch, Positive, Runtime

SCHEMA_VERSION = 1


def _not_newer(version: int) -> int:
    """Refuse a file of a later version, whose fields may mean something else."""
    if not 1 <= version <= SCHEMA_VERSION:
        raise ValueError(f"this version of envknee reads schema_version 1 to {SCHEMA_VERSION}. Install a newer one")
    return version


SchemaVersion = Annotated[int, AfterValidator(_not_newer)]


Phase = Literal["physics", "render", "observation", "inference", "storage", "learning", "other"]
"""Where an iteration's time goes:

physics      stepping the simulation
render       the camera's images
observation  the rest of an observation: frame stack, normalization
inference    forward passes of policy and critic in the rollout
storage      copying a transition into the rollout
learning     returns, advantages and the optimizer's epochs
other        actions, rewards, resets, bookkeeping
"""

PHASES = get_args(Phase)


class Frozen(BaseModel):
    """A frozen model that rejects unknown fields, so that hand-edited files are noticed."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ScaledFrom(Frozen):
    """A scaling rule and its base point (`study.scaling_rule`)."""

    rule: RuleName
    num_envs: int
    horizon: int
    batch_size: int

    @property
    def changes_rate(self) -> bool:
        """Whether the learning rate changes with the batch."""
        return self.rule in RATE_GROWS

    def __str__(self) -> str:
        """Return `sqrt_lr from 1,024 environments`."""
        return f"{self.rule} from {self.num_envs:,} environments"


class Request(Setup, Frozen):
    """What one trial runs: everything that its process needs."""

    schema_version: SchemaVersion = SCHEMA_VERSION
    ask_version: AskVersion = newer(1)
    """Version of the rules by which it was asked (`envknee.ask.versions`)."""
    study: str
    number: int
    arm: str
    kind: Kind
    repeat: int
    num_envs: int
    """On each GPU."""
    horizon: int
    batch_size: int | None
    """Transitions per optimizer step, all ranks together; None: the library's own number of mini-batches."""
    seed: int
    task_id: str
    asset: str
    overrides: Overrides
    warmup_iterations: int
    iterations: int | None
    """Timed iterations of a throughput trial; None for a learning trial."""
    target_reward: float | None
    target_episodes: int | None
    budget_s: float | None
    limit_s: float
    sampler: str
    refusal: RefusalReason | str | None
    """Why the trial must not be run (its memory cannot fit), or None. A text with ask_version 1 alone."""
    phases: PhaseSwitch = newer("sampled")
    memory: Memory = newer(Memory())
    cpu_ranks: Positive = newer(1)
    skip: SkipReason | str | None = newer(None)
    """Why the trial need not be run (it would change nothing), or None. A text with ask_version 1 alone."""
    runtime: Runtime = newer("host")
    asset_root: str | None = newer(None)
    """The folder of the task's files, instead of NVIDIA's asset server."""
    confirms: bool = newer(False)
    """Whether the trial is a fresh repeat at an end of the doubling found. Only fresh repeats give its gain."""
    inject: Inject | None = newer(None)
    """In a drill, what breaks the simulation on purpose."""
    precision: float | None = newer(None)
    """A throughput trial may end early once the standard error of its median FPS is below this share."""
    least_timed_s: float = newer(0.0)
    """On a GPU, timed iterations of a throughput trial go on until they took this many seconds; 0.0 with ask_version 1."""
    timed_share: float | None = newer(None)
    """A foreign command is timed until its timed iterations took this share of its start-up; None: for `iterations`."""
    waits: bool = newer(False)
    """Whether the trial waits before it begins, while other processes keep the machine busy (`run.quiet`)."""
    block: int | None = newer(None)
    """The block that measures the trial, by the number of the block's first trial; None: a process of its own."""
    position: int = newer(0)
    """The trial's place in its block."""
    again: bool = newer(False)
    """Whether the trial measures the point of its block's first trial once more, at the end: the difference is drift."""
    fresh: bool = newer(False)
    """Whether the trial has a process of its own although others of its block (`fresh_below`) or pool (`workers`) share one."""
    compose_horizons: bool = newer(False)
    """Whether FPS at other horizons are put together from this trial's and others' (`verdict.composed`)."""
    learning_rate: float | None = newer(None)
    """None: the task's own."""
    epochs: int | None = newer(None)
    """Passes over each rollout; None: the task's own."""
    scaled_from: ScaledFrom | None = newer(None)
    """The scaling rule that gave horizon, batch_size, learning_rate and epochs, with its base; None without a rule."""

    @model_validator(mode="after")
    def _reasons_of_its_version(self) -> Self:
        for name in ("skip", "refusal"):
            reason = getattr(self, name)
            if reason is not None and isinstance(reason, str) != (self.ask_version == 1):
                expected = "a text" if self.ask_version == 1 else "a reason with its numbers (`envknee.record.reasons`)"
                raise ValueError(f"{name}: with ask_version {self.ask_version} {expected} was expected, got {reason!r}")
        return self

    @property
    def point(self) -> Point:
        """The point as the study lists it: with a scaling rule, horizon and batch size are those at its base."""
        listed = self.scaled_from or self
        return Point(self.num_envs, listed.horizon, listed.batch_size)

    @property
    def processes(self) -> int:
        """Processes that the launcher starts: one for each rank, or one that starts collectors itself."""
        return 1 if STRATEGIES[self.strategy].cluster or self.command is not None else self.world_size

    @property
    def untimed_iterations(self) -> int:
        """First iterations left out of the FPS figures."""
        # The first row of a foreign command cannot be timed: there is no row before it.
        asked = self.warmup_iterations if self.command is None else max(1, self.warmup_iterations)
        return asked + STRATEGIES[self.strategy].untimed_iterations

    @property
    def ranks_per_node(self) -> int:
        """Ranks on each machine."""
        return self.world_size // self.nodes


class MemoryUse(Frozen):
    """Memory at one moment, in GB (1e9 bytes). Peaks count from the start of the process."""

    rss_gb: float
    peak_rss_gb: float
    torch_peak_allocated_gb: float | None = None
    torch_peak_reserved_gb: float | None = None
    device_used_gb: float | None = None
    """Used memory of the GPU, by every process on it. For a foreign command: the peak since the row before, minus the memory used
    before the command started; of several GPUs the largest."""
    gpus_used_gb: list[float] | None = newer(None)
    """The same for each GPU of a foreign command that uses several, in the order of CUDA_VISIBLE_DEVICES."""
    process_gb: float | None = None
    """Of earlier versions: NVML's count for this process on its GPU."""
    warp_pool_peak_gb: float | None = None
    """Peak of Warp's memory pool, which simulation and renderer use."""


class GradientSquares(Frozen):
    """Squared norms of gradients before clipping, averaged over an iteration's optimizer steps.

    Their differences are noise, which tells up to which size larger batches pay (McCandlish et al. 2018, arXiv:1812.06162,
    appendix A.1; `verdict.noise_scale`).
    """

    rank_batch: int
    """Transitions behind each rank's own gradient."""
    batch: int
    """Transitions of all ranks behind the shared gradient."""
    rank_mean: float
    """Mean over ranks of the squared norm of each rank's own gradient."""
    shared: float
    """Squared norm of the shared gradient, which is the mean of the ranks' gradients."""


class Load(Frozen):
    """Load of a process and its GPU since the row before. A new figure of each rank is declared here (see `Metric`)."""

    cpu_percent: Annotated[float | None, Metric("mean", system="process_cpu_percentage")] = None
    """Load of this process: 100 is one core."""
    gpu_percent: Annotated[float | None, Metric("mean", system="gpu_{gpu}_utilization_percentage")] = None
    """Share of the time in which the GPU ran a kernel: the mean of NVML's samples, which cover up to a second each."""
    gpu_power_w: Annotated[float | None, Metric("sum", system="gpu_{gpu}_power_usage_watts")] = None
    """Mean power of the GPU; None if NVML does not know."""
    gpus_percent: list[float] | None = newer(None)
    """`gpu_percent` of each GPU of a foreign command with several, as CUDA_VISIBLE_DEVICES lists them; None if NVML does not know."""
    others_cpu_percent: Annotated[float | None, Metric("first", recorded=True)] = newer(None)
    """Load of all other processes on the machine, beyond cores that were free: 100 is one core."""


class RankRow(Load):
    """One rank's load, clocks, episodes and memory in an iteration (with strategy: ray, a collector's)."""

    rank: int
    iteration_s: float
    env_step_s: float
    collect_s: float
    """With strategy: ray the same for all collectors: until the learner had all their rollouts."""
    learn_s: float
    """Includes waiting for slower ranks in every optimizer step."""
    phases_s: dict[Phase, float] | None
    episodes: int
    memory: MemoryUse


class Pipeline(Frozen):
    """The learner's side of an iteration, if other devices or processes collect (`strategy: async2`, `strategy: ray`)."""

    staleness: int | None
    """How many updates older the weights that collected the rollout are than the weights that learned from it; 0 in turns. None in
    the iteration that fills the pipeline, which does not learn."""
    learner_s: float | None
    """Seconds of the update on the host's clock. The row's `learn_s` is the time that the simulation waited for it."""
    memory: MemoryUse | None = None
    """Memory of the learner's own GPU, or its own process (ray); None if both sides share a device."""


UNTOLD: Any = newer(None)
"""Field of a figure that a foreign command may not log: then absent, never zero."""


class Iteration(Frozen):
    """Clocks, FPS, episodes, losses and memory of an iteration. `Metric` says how the figures of several ranks combine."""

    iteration: int
    warmup: bool
    frames: int
    """Transitions collected since training started by all environments, this iteration included."""
    wall_s: Annotated[float, Metric("first")]
    """Seconds since training started (start-up excluded)."""
    unix_time_s: Annotated[float, Metric("first")]
    iteration_s: Annotated[float | None, Metric("largest", recorded=True)] = None
    """Wall seconds of this iteration on the host's clock, logging included."""
    phases_s: Annotated[dict[Phase, float] | None, Metric("mean")] = None
    """Seconds by phase on the device's clock; their sum is the iteration. None with `phases: off`."""
    env_step_s: Annotated[float | None, Metric("largest")] = UNTOLD
    """Here and below: None if a foreign command does not log it."""
    collect_s: Annotated[float | None, Metric("largest", recorded=True)] = UNTOLD
    learn_s: Annotated[float | None, Metric("derived", recorded=True)] = UNTOLD
    fps_env_step: Annotated[float | None, Metric("derived", recorded=True)] = UNTOLD
    """Transitions / seconds inside env.step: RL-Games' "fps step"."""
    fps_env_step_inference: Annotated[float | None, Metric("derived", recorded=True)] = UNTOLD
    """Transitions / seconds of collecting (env.step + policy inference + storing): RL-Games' "fps step and policy inference"."""
    fps_total: Annotated[float | None, Metric("derived", recorded=True)] = UNTOLD
    """Transitions / seconds of collecting and learning: RL-Games' "fps total". For a foreign command: transitions since the row
    before / wall seconds between the two rows in its log; None in the first row."""
    reward_mean: Annotated[float | None, Metric("derived")]
    """Mean return of the episodes that ended in this iteration; None without one."""
    episode_length_mean: Annotated[float | None, Metric("derived")]
    episodes: Annotated[int | None, Metric("sum")] = UNTOLD
    """None if `reward_mean` is a program's own average over an unknown number of episodes."""
    losses: Annotated[dict[str, float], Metric("mean")]
    learning_rate: Annotated[float | None, Metric("first")] = UNTOLD
    action_std: Annotated[float | None, Metric("first")] = UNTOLD
    memory: Annotated[MemoryUse, Metric("largest")]


class Row(Load, Iteration):
    """A line of metrics.jsonl: a rollout of num_envs x horizon transitions on each rank, and learning from it.

    In the file, the fields of `Iteration` come first, then those of `Load`, then its own.
    """

    ranks: list[RankRow] | None = None
    """Each rank's own figures; None for a single rank."""
    gradients: GradientSquares | None = None
    """None for a single rank, which has no other gradient to compare with."""
    pipeline: Pipeline | None = newer(None)
    """For strategy: async2 and ray. With async2, the row's seconds and phases are the simulation's side, its memory is that of the
    GPU with more used, and its losses are those of the rollout before. With ray, `ranks` are the collectors."""


class Failure(Frozen):
    """Where a trial with status nan, diverged or oom broke."""

    iteration: int | None
    tensor: str | None
    """For example `joint_state/robot`, `observations/policy`, `rewards` or `losses/value` (`envknee.measure.diagnosis`). For oom the
    stage: a field of `StartUp`, or rollout or learning."""
    env_indices: list[int] = []
    """The environments that broke (at most 64), if known."""
    dump: str | None = None
    """A file beside the record with the tensors of those environments, and their last good state."""
    requested_gb: float | None = None
    """For oom: size of the failed allocation, if the error states it."""
    step: int | None = newer(None)
    """Environment step of the rollout at which it broke, from 0 on; None if it broke while learning."""
    hints: list[str] = newer([])
    """Possible remedies, the most likely first."""


class StartUp(Frozen):
    """Wall seconds from the start of the process to the end of the first environment step, stage by stage."""

    imports: float
    """Python, PyTorch and envknee."""
    configuration: float
    """Isaac Lab's imports, and the task's configuration."""
    kernels: float
    """Waiting for another process that compiles the same kernels."""
    environment: float
    """The simulation, the robots and their cameras, and compiling kernels if needed."""
    learner: float
    """Networks, rollout storage, optimizer."""
    first_step: float
    """The first observation, inference and environment step."""


class MemoryMap(Frozen):
    """Uses of a trial's device memory, in GB (on a CPU: of the resident set). The parts add up to `device_used_gb`."""

    static_gb: float
    """In use after the environment was made: context, simulation, renderer, observation buffers."""
    rollout_gb: float
    """The rollout storage, counted from its tensors."""
    collecting_gb: float = 0.0
    """More memory in use when learning first began: observations in transit, buffers made by the first step."""
    model_gb: float
    """Parameters, their gradients and the optimizer's state, counted from their tensors."""
    learner_gb: float
    """More memory at the learner's peak: activations, mini-batches and temporaries."""
    libraries_gb: float = 0.0
    """Added outside PyTorch's allocator after the environment was made: kernels of cuDNN and cuBLAS, NCCL, Warp's graphs."""
    slack_gb: float
    """Memory that PyTorch's allocator reserved above its peak of allocated memory."""
    other_processes_gb: float | None
    """Memory of other processes on the device; None if unknown."""
    unattributed_gb: float
    """The rest: peaks of different moments do not add up exactly."""
    device_used_gb: float
    """Peak of the GPU's used memory, or of the resident set."""


class RankResult(Frozen):
    """How one of several ranks ended, and on which device."""

    rank: int
    status: Status
    device: Device
    startup_s: StartUp | None
    memory_map: MemoryMap | None
    micro_batches: int | None
    host: str | None = newer(None)
    """Its machine, if there are several."""


class Beat(Frozen):
    """A rank's newest sign of progress."""

    text: str
    """Process number, stage, and a count that grows; empty before the first."""
    busy_s: float
    """CPU seconds of its process."""


class Shared(Frozen):
    """The state of a process of several trials before this trial began, and the GPU's clock."""

    process: str
    """Host, process number and start time: the same for all trials of one process."""
    position: int
    """How many trials the process had measured before."""
    previous_num_envs: int | None
    """num_envs of the trial before; None for the first."""
    kept_torch_gb: float
    """Tensors that PyTorch's allocator still held (0 on a CPU)."""
    kept_warp_gb: float
    """Memory that Warp's pool still held."""
    kept_outside_gb: float
    """Other memory that was still in use: on a GPU, above the amount before the process; on a CPU, the resident set above the amount
    after its first trial."""
    memory_counts: bool
    """Whether the device was back at its baseline, so that the peak is this trial's own."""
    measured_before: bool = newer(False)
    """Whether the process had measured this point before, so that its libraries reserve other memory than at first."""
    sm_mhz: int | None = None
    """The GPU's clock at the trial's end; None on a CPU, or if the driver does not know."""
    temperature_c: int | None = None
    throttled_by: list[str] = []
    """NVML's reasons for a reduced clock."""


class Outcome(Frozen):
    """How a trial ended. Its process or its launcher writes it, once."""

    schema_version: SchemaVersion = SCHEMA_VERSION
    request_sha256: str
    metrics_sha256: str | None
    status: Status
    reason: str | None
    """One sentence; None for ok and target_reached."""
    failure: Failure | None
    environment: Environment | None
    """None only for a refused or skipped trial."""
    started_unix_s: float
    setup_s: float | None
    """Seconds from the start of the process to the first environment step."""
    total_s: float
    num_mini_batches: int | None
    """The library's optimizer steps per epoch; None if the trial ended before they were known, and off-policy, without epochs."""
    rollout_gb: float | None
    """Memory of one rollout's observations, or of a whole replay buffer, counted from the storage's tensors."""
    startup_s: StartUp | None = None
    memory_map: MemoryMap | None = None
    micro_batches: int | None = None
    """Number of parts of each mini-batch at the end (`on_oom: retry_accumulate`)."""
    parameters_sha256: str | None = newer(None)
    """Hash of all learned parameters (`trainers.common.determinism`), in a deterministic trial."""
    learner_device: Device | None = newer(None)
    """A pipeline's second GPU; `memory_map` is then the first GPU's."""
    learner_memory_map: MemoryMap | None = newer(None)
    warnings: list[str] = newer([])
    """Limits of the figures, such as a pipeline with one device for both sides."""
    compile_s: float | None = newer(None)
    """Seconds of a foreign command's start in which its newest lines said that kernels are compiled; None without such lines."""
    idle_gpus: list[int] = newer([])
    """Places in CUDA_VISIBLE_DEVICES of GPUs that were locked for a foreign command, and that it did not use."""
    attempt: int = newer(1)
    """Number of the attempt, by which the outcome of an earlier attempt that comes late is recognised."""
    ranks: list[RankResult] | None = None
    """Results of several ranks. The figures above are then those of rank 0, or of the rank that broke."""
    shared: Shared | None = newer(None)
    """For a trial in a block; None for a process of its own."""

    @property
    def gpus(self) -> list[Device]:
        """Every GPU with a known UUID, of all ranks and of a pipeline's learner; none on a CPU."""
        gpus = [
            self.environment.device if self.environment else None,
            self.learner_device,
            *(rank.device for rank in self.ranks or []),
        ]
        return [device for device in gpus if device is not None and device.type == "cuda" and device.uuid is not None]

    @property
    def ended_unix_s(self) -> float:
        """When the trial ended, in seconds since 1970."""
        return self.started_unix_s + self.total_s


class SlurmJob(Frozen):
    """The SLURM job of a trial. In a block, only the first trial has the waiting time, and each has the energy since the one before."""

    job_id: str
    partition: str | None = None
    nodes: str | None = None
    submitted_unix_s: float | None = None
    """When the job was queued; the last time, if SLURM requeued it."""
    started_unix_s: float | None = None
    energy_j: float | None = None
    """Energy of the job's nodes since its start, by their sensors (mostly of the whole machine, other jobs included); None if SLURM
    does not gather it."""


class Lost(Frozen):
    """Attempts at a trial that left no result."""

    attempts: int = 0
    held_s: float = 0.0
    """Wall seconds for which these attempts held the trial's GPUs, until their last sign of life. Attempts that SLURM lost before
    they gave any are not counted."""


class Cost(Frozen):
    """Resources of a trial, measured outside its processes: start-up and waiting for kernels included."""

    gpus: int
    """GPUs that the trial held; 0 on the CPU."""
    held_s: float
    """Wall seconds for which the trial held them, until the end of its last process. The first trial of a SLURM job counts from the
    job's start."""
    energy_j: float | None
    """Energy of these GPUs in that time, by NVML's counters; None on the CPU, or if NVML does not count."""
    slurm: SlurmJob | None = None
    """None without SLURM, or if SLURM did not answer."""
    lost: Lost = Lost()
    """Earlier attempts, which the other fields do not include."""
    waited_s: float = newer(0.0)
    """Seconds for which the trial waited before it began, because other processes kept the machine busy. No other field includes them."""


class Spread(Frozen):
    """Median and quartiles of one quantity over the timed iterations of a trial."""

    median: float
    lower_quartile: float
    upper_quartile: float
    iterations: int


class RankSpread(Frozen):
    """One rank's own speed and memory, which show stragglers."""

    rank: int
    fps_env_step: Spread
    fps_env_step_inference: Spread
    """From the rank's own transitions. (While learning, ranks wait for each other.)"""
    memory_peak_gb: float


class Record(Frozen):
    """The result of a trial. FPS are those of all ranks together."""

    schema_version: SchemaVersion = SCHEMA_VERSION
    request: Request
    outcome: Outcome
    world_size: int = 1
    """Ranks that trained together, one per GPU; with strategy: ray, collectors."""
    num_envs_total: int | None = None
    """Environments on all ranks (`request.num_envs` is per rank). None only in files of earlier versions."""
    ranks: list[RankSpread] | None = None
    gradients: GradientSquares | None = None
    """Means over the iterations after the warm-up; None for a single rank."""
    staleness: Spread | None = newer(None)
    """See `Pipeline`."""
    learner_s: Spread | None = newer(None)
    """See `Pipeline`."""
    num_mini_batches: int | None
    fps_env_step: Spread | None
    fps_env_step_inference: Spread | None
    fps_total: Spread | None
    collect_s: Spread | None
    learn_s: Spread | None
    iteration_s: Spread | None = None
    phases_s: dict[Phase, Spread] | None = None
    metrics: dict[str, Spread] = newer({})
    """Recorded figures (`Metric`) without a field here, by name."""
    memory_peak_gb: float | None
    """Peak of the GPU's used memory, or on a CPU of the process's resident set."""
    gpu_peaks_gb: list[float] | None = newer(None)
    """Peak of each GPU of a foreign command that uses several, in the order of CUDA_VISIBLE_DEVICES."""
    rollout_gb: float | None
    frames: int
    train_s: float
    best_reward: float | None
    """Best mean over `target_episodes` finished episodes; learning trials only."""
    final_reward: float | None
    seconds_to_target: float | None
    """Wall seconds of training to the target; None if not reached (censored at `train_s`)."""
    gpu_seconds_to_target: float | None
    frames_to_target: int | None
    gpu_hours: float | None = None
    """GPUs x hours for which the trial held them; 0 on the CPU. In results of earlier versions: its process's own time."""
    energy_j: float | None = None
    """`Cost.energy_j`."""
    job_energy_j: float | None = None
    """`SlurmJob.energy_j`."""
    queue_wait_s: float | None = None
    """From submission to start of its SLURM job; None without one."""
    lost_attempts: int = 0
    lost_gpu_hours: float = 0.0
    waited_s: float = newer(0.0)
    """Seconds for which the trial waited for other processes before it began."""
    """GPUs x hours of attempts without a result; not in `gpu_hours`."""

    @property
    def devices(self) -> int:
        """GPUs (on a CPU: ranks) of the trial: one for each rank, and a pipeline's second. A command has those that were locked for it."""
        if self.request.command is not None and self.request.gpus not in ("auto", 0):
            return self.request.gpus
        return self.world_size + (self.outcome.learner_device is not None)

    @property
    def rank_devices(self) -> list[Device]:
        """Each rank's device; unless all ranks reported one, the outcome's device for each. Empty for a trial that did not run."""
        if self.outcome.environment is None:
            return []
        own = [rank.device for rank in self.outcome.ranks or []]
        return own if len(own) == self.world_size else [self.outcome.environment.device] * self.world_size

    @property
    def rank_memory_gb(self) -> float | None:
        """Memory that each rank may use: its GPU's, or on a CPU its share of the host's."""
        if self.outcome.environment is None:
            return None
        device = self.outcome.environment.device
        return device.memory_gb if device.type == "cuda" else device.memory_gb / self.request.ranks_per_node
