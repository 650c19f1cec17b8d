"""The files of a trial: request, metrics and record. Frozen models with units in the names, and how one follows from another.

Input: request.json (what to run), metrics.jsonl (a line per iteration), outcome.json (how it ended, and where it ran).
Output: record.json, a pure function of those three; `python -m envknee.record results/<study>` recomputes and compares.
"""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from envknee.config import Kind, Overrides

SCHEMA_VERSION = 1

Status = Literal["ok", "target_reached", "oom", "nan", "diverged", "timeout", "refused"]
"""How a trial ended. Each is a result:

ok              a throughput trial timed all its iterations
target_reached  a learning trial's mean episode reward reached the target
oom             memory ran out: the point is infeasible on this device
nan             an observation, reward or loss became NaN or infinite
diverged        a loss or the action noise grew past any useful size
timeout         the budget was spent first: the time to target is censored, not zero
refused         not run, because its rollout alone cannot fit the memory of the device
"""


class Frozen(BaseModel):
    """A frozen model that rejects unknown fields, so that hand-edited files are noticed."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Request(Frozen):
    """What one trial is to run: everything that its process needs to know."""

    schema_version: int = SCHEMA_VERSION
    study: str
    number: int
    arm: str
    kind: Kind
    repeat: int
    num_envs: int
    horizon: int
    batch_size: int | None
    """Transitions per optimizer step; None keeps the library's own number of mini-batches."""
    seed: int
    task_id: str
    asset: str
    overrides: Overrides
    trainer: str
    gpus: Literal["auto", 0, 1]
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

    @property
    def point_key(self) -> tuple[str, str, int, int, int | None]:
        """What repeats of one point share: (arm, kind, num_envs, horizon, batch_size)."""
        return self.arm, self.kind, self.num_envs, self.horizon, self.batch_size


class MemoryUse(Frozen):
    """Memory at one moment, in GB (1e9 bytes). Peaks count from the start of the process."""

    rss_gb: float
    peak_rss_gb: float
    torch_peak_allocated_gb: float | None = None
    torch_peak_reserved_gb: float | None = None
    device_used_gb: float | None = None
    """What the GPU reports as used, by every process on it."""


class Row(Frozen):
    """One iteration: a rollout of num_envs x horizon transitions, then the learning on it."""

    iteration: int
    warmup: bool
    frames: int
    """Transitions collected since training started, all environments together, this iteration included."""
    wall_s: float
    """Seconds since training started (start-up excluded)."""
    unix_time_s: float
    env_step_s: float
    collect_s: float
    learn_s: float
    fps_env_step: float
    """Transitions / seconds inside env.step: RL-Games' "fps step"."""
    fps_env_step_inference: float
    """Transitions / seconds of collecting (env.step + policy inference + storing): RL-Games' "fps step and policy inference"."""
    fps_total: float
    """Transitions / seconds of collecting and learning: RL-Games' "fps total"."""
    reward_mean: float | None
    """Mean return of the episodes that ended in this iteration; None when none did."""
    episode_length_mean: float | None
    episodes: int
    losses: dict[str, float]
    learning_rate: float
    action_std: float
    memory: MemoryUse


class Failure(Frozen):
    """Where a trial with status nan, diverged or oom broke."""

    iteration: int | None
    tensor: str | None
    """Such as `observations/policy`, `rewards` or `losses/value`; for oom the phase: start, rollout or learning."""
    env_indices: list[int]
    """The environments concerned (at most 64 of them), when that can be told."""
    dump: str | None
    """A file beside the record that holds the tensors of those environments."""


class Device(Frozen):
    """What the trial ran on."""

    type: Literal["cpu", "cuda"]
    name: str
    uuid: str | None
    memory_gb: float
    """Memory that a trial may use: the GPU's, or the host's (the control group's, when that is smaller)."""


class Environment(Frozen):
    """Where and with what a trial ran."""

    host: str
    device: Device
    cpu_model: str
    cpu_cores: int
    python: str
    packages: dict[str, str]
    git_commit: str | None
    git_dirty: bool | None


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


class Spread(Frozen):
    """Median and quartiles of one quantity over the timed iterations of a trial."""

    median: float
    lower_quartile: float
    upper_quartile: float
    iterations: int


class Record(Frozen):
    """The result of a trial."""

    schema_version: int = SCHEMA_VERSION
    request: Request
    outcome: Outcome
    num_mini_batches: int | None
    """None where no iteration tells (batch_size 'library' and a trial that never started)."""
    fps_env_step: Spread | None
    fps_env_step_inference: Spread | None
    fps_total: Spread | None
    collect_s: Spread | None
    learn_s: Spread | None
    memory_peak_gb: float | None
    """Peak of what binds: the GPU's used memory, or the resident set of the process on a CPU."""
    rollout_gb: float | None
    """Part of it that the observations of one rollout take."""
    frames: int
    train_s: float
    best_reward: float | None
    """Best mean over `target_episodes` finished episodes; learning trials only."""
    final_reward: float | None
    seconds_to_target: float | None
    """Wall seconds of training to the target; None where it was not reached (censored at `train_s`)."""
    gpu_seconds_to_target: float | None
    frames_to_target: int | None


def load_records(folder: "StudyFolder") -> list[Record]:
    """Return the records of all finished trials by number, each checked against its request, metrics and outcome.

    Raises:
        UserError: when a file is truncated, or was changed after the measurement.
    """
    raise NotImplementedError
