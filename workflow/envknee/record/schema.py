"""The files of a trial as frozen models with units in their names: request, row, outcome, cost and record."""

from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

from envknee.record.metric import Metric
from envknee.record.status import Status
from envknee.study.command import Command
from envknee.study.model import Inject, Memory
from envknee.study.rules import Frontend, Kind, Observations, Overrides, PhaseSwitch, Runtime
from envknee.study.scaling_rule import RuleName
from envknee.study.strategies import STRATEGIES, StrategyName, world_size

SCHEMA_VERSION = 1


Phase = Literal["physics", "render", "observation", "inference", "storage", "learning", "other"]
"""What an iteration's time goes to:

physics      stepping the simulation
render       the camera's images
observation  all else of an observation: frame stack, normalization
inference    the policy's and the critic's forward passes of the rollout
storage      copying a transition into the rollout
learning     returns, advantages and the optimizer's epochs
other        actions, rewards, resets, bookkeeping
"""

PHASES = get_args(Phase)


class Frozen(BaseModel):
    """A frozen model that rejects unknown fields, so that hand-edited files are noticed."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ScaledFrom(Frozen):
    """A rule and its base point (`study.scaling_rule`): where num_envs is the base's, horizon and batch_size are these."""

    rule: RuleName
    num_envs: int
    horizon: int
    batch_size: int

    def __str__(self) -> str:
        """Return `sqrt_lr from 1,024 environments`."""
        return f"{self.rule} from {self.num_envs:,} environments"


class Request(Frozen):
    """What one trial is to run: everything that its process needs to know."""

    schema_version: int = SCHEMA_VERSION
    study: str
    number: int
    arm: str
    kind: Kind
    repeat: int
    num_envs: int
    """On each GPU."""
    horizon: int
    batch_size: int | None
    """Transitions per optimizer step, of all ranks together; None keeps the library's own number of mini-batches."""
    seed: int
    task_id: str
    asset: str
    overrides: Overrides
    trainer: str
    gpus: Literal["auto"] | int
    warmup_iterations: int
    iterations: int | None
    """Timed iterations of a throughput trial; None for a learning trial."""
    target_reward: float | None
    target_episodes: int | None
    budget_s: float | None
    limit_s: float
    sampler: str
    refusal: str | None
    """Why the trial must not be run (its memory cannot fit), or None."""
    # What was added later is written only where it is not the default: earlier requests stay the same, byte for byte.
    phases: PhaseSwitch = Field(default="sampled", exclude_if=lambda value: value == "sampled")
    memory: Memory = Field(default=Memory(), exclude_if=lambda value: value == Memory())
    cpu_ranks: int = Field(default=1, exclude_if=lambda value: value == 1)
    skip: str | None = Field(default=None, exclude_if=lambda value: value is None)
    """Why the trial need not be run (all is decided already), or None."""
    runtime: Runtime = Field(default="host", exclude_if=lambda value: value == "host")
    asset_root: str | None = Field(default=None, exclude_if=lambda value: value is None)
    """The folder that the task's files come from, in the place of NVIDIA's asset server."""
    nodes: int = Field(default=1, exclude_if=lambda value: value == 1)
    observations: Observations = Field(default="stock", exclude_if=lambda value: value == "stock")
    frontend: Frontend = Field(default="torch", exclude_if=lambda value: value == "torch")
    deterministic: bool = Field(default=False, exclude_if=lambda value: not value)
    confirms: bool = Field(default=False, exclude_if=lambda value: not value)
    """A fresh repeat of a doubling that was found already: its gain is told from such repeats alone."""
    inject: Inject | None = Field(default=None, exclude_if=lambda value: value is None)
    """A drill: what breaks the simulation on purpose. Its results are none."""
    strategy: StrategyName = Field(default="in_turns", exclude_if=lambda value: value == "in_turns")
    sync_every: int = Field(default=1, exclude_if=lambda value: value == 1)
    precision: float | None = Field(default=None, exclude_if=lambda value: value is None)
    """Of a throughput trial: it may end before its last iteration once its median is known within this share."""
    block: int | None = Field(default=None, exclude_if=lambda value: value is None)
    """Which of the study's blocks measures it, by the number of the block's first trial; None: a process of its own."""
    position: int = Field(default=0, exclude_if=lambda value: value == 0)
    """In that block."""
    again: bool = Field(default=False, exclude_if=lambda value: not value)
    """Whether it measures the point of its block's first trial once more, at the end: what differs is drift."""
    learning_rate: float | None = Field(default=None, exclude_if=lambda value: value is None)
    """None: the task's own."""
    epochs: int | None = Field(default=None, exclude_if=lambda value: value is None)
    """Passes over each rollout; None: the task's own."""
    staggered: bool | None = Field(default=None, exclude_if=lambda value: value is None)
    """Whether the first episodes start spread over their length, or together; None: as the library does."""
    scaled_from: ScaledFrom | None = Field(default=None, exclude_if=lambda value: value is None)
    """The rule that gave horizon, batch_size, learning_rate and epochs, with its base; None where there is none."""

    @property
    def listed_horizon(self) -> int:
        """As the study lists it: a rule's base. It stays the same while num_envs doubles."""
        return self.scaled_from.horizon if self.scaled_from else self.horizon

    @property
    def listed_batch_size(self) -> int | None:
        """As the study lists it: a rule's base. It stays the same while num_envs doubles."""
        return self.scaled_from.batch_size if self.scaled_from else self.batch_size

    command: Command | None = Field(default=None, exclude_if=lambda value: value is None)
    """With trainer: command, the program and where its rows come from."""

    @property
    def world_size(self) -> int:
        """Ranks that train together, each with num_envs environments of its own."""
        return world_size(self.gpus, self.cpu_ranks, self.nodes, self.strategy)

    @property
    def processes(self) -> int:
        """Those that the launcher starts: one for each rank, or one that starts collectors itself."""
        return 1 if STRATEGIES[self.strategy].starts_its_own or self.command is not None else self.world_size

    @property
    def untimed_iterations(self) -> int:
        """First iterations left out of the FPS figures."""
        # The first row of a foreign command has none before it to be timed from.
        asked = self.warmup_iterations if self.command is None else max(1, self.warmup_iterations)
        return asked + STRATEGIES[self.strategy].untimed_iterations

    @property
    def ranks_per_node(self) -> int:
        """Those of them that share a machine."""
        return self.world_size // self.nodes


class MemoryUse(Frozen):
    """Memory at one moment, in GB (1e9 bytes). Peaks count from the start of the process."""

    rss_gb: float
    peak_rss_gb: float
    torch_peak_allocated_gb: float | None = None
    torch_peak_reserved_gb: float | None = None
    device_used_gb: float | None = None
    """What the GPU reports as used, by every process on it. Of a foreign command: the peak since the row before, without what was used
    before it began; of several GPUs the fullest."""
    process_gb: float | None = None
    """What NVML counts for this process on its GPU; None where NVML cannot tell (another PID namespace)."""
    warp_pool_peak_gb: float | None = None
    """High-water mark of Warp's memory pool, from which simulation and renderer allocate."""


class GradientSquares(Frozen):
    """Squared norms of gradients before clipping, averaged over an iteration's optimizer steps.

    What they differ by is noise: from them follows how large a batch pays (McCandlish et al. 2018, arXiv:1812.06162,
    appendix A.1; `limits.noise_scale`).
    """

    rank_batch: int
    """Transitions behind each rank's own gradient."""
    batch: int
    """Transitions of all ranks behind the gradient that they share."""
    rank_mean: float
    """Mean over ranks of the square of each rank's own gradient."""
    shared: float
    """Square of the shared gradient: the mean of the ranks' gradients."""


class Load(Frozen):
    """How busy a process and its GPU were since the row before. A new figure of each rank is declared here, once: see `Metric`."""

    cpu_percent: Annotated[float | None, Metric("mean", system="process_cpu_percentage")] = None
    """Load of this process: 100 is one core."""
    gpu_percent: Annotated[float | None, Metric("mean", system="gpu_{gpu}_utilization_percentage")] = None
    """Share of the time in which the GPU ran some kernel: a mean of what NVML says of up to a second."""
    gpu_power_w: Annotated[float | None, Metric("sum", system="gpu_{gpu}_power_usage_watts")] = None
    """What the GPU draws, a mean; None where NVML does not tell."""
    others_cpu_percent: Annotated[float | None, Metric("first", recorded=True)] = Field(
        default=None, exclude_if=lambda value: value is None
    )
    """CPU time that went to all other processes of the machine: 100 is one core."""


class RankIteration(Frozen):
    """One rank's clocks, episodes and memory in an iteration in which several trained together."""

    rank: int
    iteration_s: float
    env_step_s: float
    collect_s: float
    """With strategy: ray the same for all: until the rollouts of all of them were where they are learned from."""
    learn_s: float
    """Waiting for slower ranks included: they meet in every optimizer step."""
    phases_s: dict[Phase, float] | None
    episodes: int
    memory: MemoryUse


class RankRow(Load, RankIteration):
    """One rank's own part of an iteration; with strategy: ray, a collector's. In its file the load comes last."""


class Pipeline(Frozen):
    """The learner's side of an iteration, where other devices or processes collect (`strategy: async2`, `strategy: ray`)."""

    staleness: int | None
    """Updates between the weights that acted in the rollout that was learned from and those that learned from it; 0 in
    turns. None in the iteration that fills the pipeline, in which nothing is learned."""
    learner_s: float | None
    """Seconds of the update on the host's clock; the row's `learn_s` is what the simulation waited for it."""
    memory: MemoryUse | None = None
    """Of the learner's own GPU, or its own process (ray); None where both sides share a device."""


UNTOLD: Any = Field(default=None, exclude_if=lambda value: value is None)
"""Of a figure that a foreign command may not tell: absent then, never zero."""


class Iteration(Frozen):
    """Clocks, FPS, episodes, losses and memory of an iteration; `Metric` says what they are where several ranks train together."""

    iteration: int
    warmup: bool
    frames: int
    """Transitions collected since training started, all environments together, this iteration included."""
    wall_s: Annotated[float, Metric("first")]
    """Seconds since training started (start-up excluded)."""
    unix_time_s: Annotated[float, Metric("first")]
    iteration_s: Annotated[float | None, Metric("largest", recorded=True)] = None
    """Wall seconds of this iteration on the host's clock, logging and all else included."""
    phases_s: Annotated[dict[Phase, float] | None, Metric("mean")] = None
    """Seconds by phase on the device's clock; their sum is the iteration. None with `phases: off`."""
    env_step_s: Annotated[float | None, Metric("largest")] = UNTOLD
    """Here and below: None where a foreign command does not tell it."""
    collect_s: Annotated[float | None, Metric("largest", recorded=True)] = UNTOLD
    learn_s: Annotated[float | None, Metric("derived", recorded=True)] = UNTOLD
    fps_env_step: Annotated[float | None, Metric("derived", recorded=True)] = UNTOLD
    """Transitions / seconds inside env.step: RL-Games' "fps step"."""
    fps_env_step_inference: Annotated[float | None, Metric("derived", recorded=True)] = UNTOLD
    """Transitions / seconds of collecting (env.step + policy inference + storing): RL-Games' "fps step and policy inference"."""
    fps_total: Annotated[float | None, Metric("derived", recorded=True)] = UNTOLD
    """Transitions / seconds of collecting and learning: RL-Games' "fps total". Of a foreign command, transitions since the row
    before / wall seconds between the two in its own log; None in the first row."""
    reward_mean: Annotated[float | None, Metric("derived")]
    """Mean return of the episodes that ended in this iteration; None when none did."""
    episode_length_mean: Annotated[float | None, Metric("derived")]
    episodes: Annotated[int | None, Metric("sum")] = UNTOLD
    """None where `reward_mean` is a program's own average over an unknown number of episodes."""
    losses: Annotated[dict[str, float], Metric("mean")]
    learning_rate: Annotated[float | None, Metric("first")] = UNTOLD
    action_std: Annotated[float | None, Metric("first")] = UNTOLD
    memory: Annotated[MemoryUse, Metric("largest")]


class Row(Load, Iteration):
    """A line of metrics.jsonl: a rollout of num_envs x horizon transitions on each rank, then the learning on it.

    In its file the fields of `Iteration` come first, then those of `Load`, then its own.
    """

    ranks: list[RankRow] | None = None
    """Each rank's own figures; None where one rank trains alone."""
    gradients: GradientSquares | None = None
    """None where one rank trains alone: its gradient has nothing to be compared with."""
    pipeline: Pipeline | None = Field(default=None, exclude_if=lambda value: value is None)
    """With strategy: async2, where the row's seconds and phases are the simulation's side, its memory the fuller GPU's, and its
    losses those of the rollout before; with strategy: ray, where `ranks` are the collectors."""


class Failure(Frozen):
    """Where a trial with status nan, diverged or oom broke."""

    iteration: int | None
    tensor: str | None
    """Such as `joint_state/robot`, `observations/policy`, `rewards` or `losses/value` (`envknee.measure.diagnosis`); for oom the stage, as
    in `StartUp`, or rollout or learning."""
    env_indices: list[int]
    """The environments concerned (at most 64 of them), when that can be told."""
    dump: str | None
    """A file beside the record that holds the tensors of those environments, and their last good state."""
    requested_gb: float | None = None
    """For oom: the allocation that failed, where the error tells its size."""
    step: int | None = Field(default=None, exclude_if=lambda value: value is None)
    """Environment step of the rollout at which it broke, from 0 on; None for what breaks while learning."""
    hints: list[str] = Field(default=[], exclude_if=lambda value: not value)
    """What may help, most likely first."""


class Device(Frozen):
    """What the trial ran on."""

    type: Literal["cpu", "cuda"]
    name: str
    uuid: str | None
    memory_gb: float
    """Memory that a trial may use: the GPU's, or the host's (the control group's, when that is smaller)."""
    compute_capability: str | None = None
    driver: str | None = None


class Image(Frozen):
    """The image that a trial ran in."""

    sif_sha256: str | None
    """Of the file; differs between two builds of one commit (a random identity and the time are in its header). None
    with runtime: docker, whose images are no files."""
    content_sha256: str
    """Of the file system in it: equal for two builds of one commit. With runtime: docker the image's ID, a sha256 of
    its configuration, which names all layers by theirs."""
    labels: dict[str, str]
    """org.envknee.*: git commit, lock files and base that it was built from, and the GPUs that it has kernels for."""


class Environment(Frozen):
    """Where and with what a trial ran."""

    host: str
    device: Device
    cpu_model: str
    cpu_cores: int
    cpu_threads: int
    """Threads that PyTorch computes with (OMP_NUM_THREADS)."""
    python: str
    packages: dict[str, str]
    git_commit: str | None
    git_dirty: bool | None
    git_branch: str | None = None
    host_memory_gb: float | None = None
    """What the host holds, whatever the device (the control group's limit where that is smaller)."""
    image: Image | None = None
    """None on the host."""


class StartUp(Frozen):
    """Wall seconds from the start of the process to the end of the first environment step, stage by stage."""

    imports: float
    """Python, PyTorch and envknee."""
    configuration: float
    """Isaac Lab's imports, and the task's configuration."""
    kernels: float
    """Waiting for another process that compiles the same kernels."""
    environment: float
    """The simulation, the robots and their cameras; kernels, where they are not compiled yet."""
    learner: float
    """Networks, rollout storage, optimizer."""
    first_step: float
    """The first observation, inference and environment step."""


class MemoryMap(Frozen):
    """What the device memory of a trial is for, in GB (on a CPU: the resident set). Parts add up to `device_used_gb`."""

    static_gb: float
    """In use when the environment was made: context, simulation, renderer, observation buffers."""
    rollout_gb: float
    """The rollout storage, counted from its tensors."""
    collecting_gb: float = 0.0
    """Beyond these, in use when learning first began: observations on their way, buffers made by the first step."""
    model_gb: float
    """Parameters, their gradients and the optimizer's state, counted from their tensors."""
    learner_gb: float
    """Beyond these, the learner's peak: activations, mini-batches and temporaries."""
    libraries_gb: float = 0.0
    """Added outside PyTorch's allocator after the environment was made: kernels of cuDNN and cuBLAS, NCCL, Warp's graphs."""
    slack_gb: float
    """What PyTorch's allocator had reserved beyond its peak of allocated memory."""
    other_processes_gb: float | None
    """What else was in use on the device; None where that cannot be told."""
    unattributed_gb: float
    """What remains: peaks of different moments do not add up exactly."""
    device_used_gb: float
    """Peak of what the GPU reported as used, or of the resident set."""


class RankResult(Frozen):
    """How one of several ranks ended, and where it ran."""

    rank: int
    status: Status
    device: Device
    startup_s: StartUp | None
    memory_map: MemoryMap | None
    micro_batches: int | None
    host: str | None = Field(default=None, exclude_if=lambda value: value is None)
    """Its machine, where there are several."""


class Beat(Frozen):
    """A rank's newest sign of progress."""

    text: str
    """Its process, stage and a count that grows; empty before the first."""
    busy_s: float
    """CPU seconds of its process."""


class Shared(Frozen):
    """In what a trial found a process that measures several, and how its GPU ran."""

    process: str
    """Which one: host, process number and when it started, so that trials of one process have the same."""
    position: int
    """How many trials that process had measured before."""
    previous_num_envs: int | None
    """Of the trial before; None for the first."""
    kept_torch_gb: float
    """What PyTorch's allocator still held for tensors before this trial began (0 on a CPU)."""
    kept_warp_gb: float
    """The same of Warp's pool."""
    kept_outside_gb: float
    """All else: of a GPU's memory beyond what was in use before the process, on a CPU of the resident set beyond that after its
    first trial."""
    memory_counts: bool
    """Whether the device was back at its baseline, so that the peak is this trial's own."""
    sm_mhz: int | None = None
    """The GPU's clock at the trial's end; None where the driver does not tell, as on a CPU."""
    temperature_c: int | None = None
    throttled_by: list[str] = []
    """Why the clock was held back, by NVML's names."""


class Outcome(Frozen):
    """How the process of a trial ended: written once, by that process or by its launcher."""

    schema_version: int = SCHEMA_VERSION
    request_sha256: str
    metrics_sha256: str | None
    status: Status
    reason: str | None
    """One sentence for every status but ok and target_reached."""
    failure: Failure | None
    environment: Environment | None
    """None only for a refused trial."""
    started_unix_s: float
    setup_s: float | None
    """Seconds from the start of the process to the first environment step."""
    total_s: float
    num_mini_batches: int | None
    """Optimizer steps per epoch that the library ran with; None when the trial did not get so far, and off-policy, without epochs."""
    rollout_gb: float | None
    """Memory of the observations of one rollout, or of a whole replay buffer, counted from the storage's tensors."""
    startup_s: StartUp | None = None
    memory_map: MemoryMap | None = None
    micro_batches: int | None = None
    """Into how many parts mini-batches had to be split at the end (`on_oom: retry_accumulate`)."""
    parameters_sha256: str | None = Field(default=None, exclude_if=lambda value: value is None)
    """Of everything that was learned (`trainers.common.determinism`), of a deterministic trial that learned anything."""
    learner_device: Device | None = Field(default=None, exclude_if=lambda value: value is None)
    """The second GPU of a pipeline, where there is one; `memory_map` is then the first one's."""
    learner_memory_map: MemoryMap | None = Field(default=None, exclude_if=lambda value: value is None)
    warnings: list[str] = Field(default=[], exclude_if=lambda value: not value)
    """What a reader of the figures should know, such as that a pipeline had one device for both sides."""
    attempt: int = Field(default=1, exclude_if=lambda value: value == 1)
    """Which attempt at the trial this is of: an earlier one that comes back late is told by it."""
    ranks: list[RankResult] | None = None
    """Where several ranks trained together; the figures above are then rank 0's, or those of the rank that broke."""
    shared: Shared | None = Field(default=None, exclude_if=lambda value: value is None)
    """Of a trial in a block; None where it had a process of its own."""

    @property
    def gpus(self) -> list[Device]:
        """Every GPU that took part and whose UUID is known, those of all ranks and of a learner apart among them; none on a CPU."""
        gpus = [
            self.environment.device if self.environment else None,
            self.learner_device,
            *(rank.device for rank in self.ranks or []),
        ]
        return [device for device in gpus if device is not None and device.type == "cuda" and device.uuid is not None]


class SlurmJob(Frozen):
    """The SLURM job that a trial ran in. Of a block's job, its first trial waited, and each took energy since the one before it."""

    job_id: str
    partition: str | None = None
    nodes: str | None = None
    submitted_unix_s: float | None = None
    """When it came into the queue; for a job that SLURM started again, for the last time."""
    started_unix_s: float | None = None
    energy_j: float | None = None
    """Taken since the job's start by all that its nodes have sensors for (as a rule the whole machine, with all that other jobs do
    there), as far as SLURM gathers that; None where it does not."""


class Lost(Frozen):
    """Attempts at a trial that left no result."""

    attempts: int = 0
    held_s: float = 0.0
    """Wall seconds for which they held the trial's GPUs, as far as they were seen alive; those of SLURM alone are not known."""


class Cost(Frozen):
    """What a trial took, seen from outside its processes: start-up, waiting for kernels and all."""

    gpus: int
    """That it held; 0 on the CPU."""
    held_s: float
    """Wall seconds from when it had them (for the first trial of a SLURM job: from the job's start) to the end of its last process."""
    energy_j: float | None
    """Taken by its GPUs meanwhile, by NVML's own counters; None on the CPU, and where NVML does not count."""
    slurm: SlurmJob | None = None
    """None where no SLURM started it, or SLURM did not answer."""
    lost: Lost = Lost()
    """Attempts before the one that the rest is about."""


class Spread(Frozen):
    """Median and quartiles of one quantity over the timed iterations of a trial."""

    median: float
    lower_quartile: float
    upper_quartile: float
    iterations: int


class RankSpread(Frozen):
    """One rank's own speed and memory: the slowest and the fastest show stragglers."""

    rank: int
    fps_env_step: Spread
    fps_env_step_inference: Spread
    """Of the rank's own transitions; in learning the ranks wait for each other."""
    memory_peak_gb: float


class Record(Frozen):
    """The result of a trial. FPS are those of all ranks together."""

    schema_version: int = SCHEMA_VERSION
    request: Request
    outcome: Outcome
    world_size: int = 1
    """Ranks that trained together, one per GPU; with strategy: ray, collectors."""
    num_envs_total: int | None = None
    """On all ranks: `request.num_envs` is each rank's. None only in files of earlier versions."""
    ranks: list[RankSpread] | None = None
    gradients: GradientSquares | None = None
    """Means over the iterations after the warm-up; None where one rank trains alone."""
    staleness: Spread | None = Field(default=None, exclude_if=lambda value: value is None)
    """Updates between the weights that acted and those that learned, with strategy: async2 (ray: 0)."""
    learner_s: Spread | None = Field(default=None, exclude_if=lambda value: value is None)
    """Seconds of its updates, of which the simulation waited `learn_s`."""
    num_mini_batches: int | None
    fps_env_step: Spread | None
    fps_env_step_inference: Spread | None
    fps_total: Spread | None
    collect_s: Spread | None
    learn_s: Spread | None
    iteration_s: Spread | None = None
    phases_s: dict[Phase, Spread] | None = None
    metrics: dict[str, Spread] = Field(default={}, exclude_if=lambda value: not value)
    """Figures of rows that are recorded (`Metric`) and have no field here, by name."""
    memory_peak_gb: float | None
    """Peak of what binds: the GPU's used memory, or the resident set of the process on a CPU."""
    rollout_gb: float | None
    frames: int
    train_s: float
    best_reward: float | None
    """Best mean over `target_episodes` finished episodes; learning trials only."""
    final_reward: float | None
    seconds_to_target: float | None
    """Wall seconds of training to the target; None where it was not reached (censored at `train_s`)."""
    gpu_seconds_to_target: float | None
    frames_to_target: int | None
    gpu_hours: float | None = None
    """GPUs x hours for which the trial held them; 0 on the CPU. Of earlier versions' results: its process's own time."""
    energy_j: float | None = None
    """What its GPUs took in that time; None where no counter tells."""
    job_energy_j: float | None = None
    """What the nodes of its SLURM job took in that time, by their own sensors; None where SLURM gathers none."""
    queue_wait_s: float | None = None
    """From submission to start of its SLURM job; None without one."""
    lost_attempts: int = 0
    lost_gpu_hours: float = 0.0
    """GPUs x hours of attempts that left no result; not in `gpu_hours`."""

    @property
    def devices(self) -> int:
        """How many GPUs (on a CPU: ranks) it trained on: one for each rank, and a pipeline's second."""
        return self.world_size + (self.outcome.learner_device is not None)

    @property
    def rank_devices(self) -> list[Device]:
        """Each rank's device; that of the one rank that tells it, where the others had not come so far. None where nothing ran."""
        if self.outcome.environment is None:
            return []
        own = [rank.device for rank in self.outcome.ranks or []]
        return own if len(own) == self.world_size else [self.outcome.environment.device] * self.world_size

    @property
    def rank_memory_gb(self) -> float | None:
        """What each rank may use: its GPU's memory, or its share of the host's, which ranks on the CPU have in common."""
        if self.outcome.environment is None:
            return None
        device = self.outcome.environment.device
        return device.memory_gb if device.type == "cuda" else device.memory_gb / self.request.ranks_per_node
