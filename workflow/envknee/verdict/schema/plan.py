"""What a study would measure, and which gains it could show: the answer of `envknee plan`, as numbers and states."""

from typing import Any, Literal

from envknee.base.fields import Kind, newer
from envknee.base.point import Point
from envknee.record.schema import Frozen


class RulePoint(Frozen):
    """The values that an arm's scaling rule gives at one num_envs."""

    num_envs: int
    horizon: int
    batch_size: int
    num_mini_batches: int
    learning_rate: float | None
    """None: the task's own."""
    epochs: int | None
    """None: the task's own."""


class RulePlan(Frozen):
    """The values of an arm with a scaling rule."""

    arm: str
    rule: str
    num_envs: int
    """The size that the rule starts from."""
    points: list[RulePoint]


class IllegalPoints(Frozen):
    """Listed points whose batch does not divide the rollout. They are not measured."""

    points: list[Point]
    listed: int
    """All points of the section."""
    several_ranks: bool
    """Whether each of several ranks needs an equal part."""


class KindTime(Frozen):
    """How long trials of one kind take together."""

    kind: Kind
    trials: int
    """At most."""
    least_s: float | None
    """None: too few trials of this kind are known to tell a range."""
    most_s: float | None


Place = Literal["machine", "site", "allocation"]
"""Where a sweep runs its trials: on this machine, as jobs of a cluster's site, or on nodes that its user has."""


class DevicesOfWorkers(Frozen):
    """Devices (GPUs; without GPUs the CPU is one) of a section's workers, and of the place where they would run."""

    each: int
    """Devices that one worker keeps."""
    here: int
    """As many as the place has, or as a site's max_gpus allows."""
    place: Place = "machine"


class SectionPlan(Frozen):
    """The trials of one kind."""

    kind: Kind
    arms: list[str] = newer([])
    """That it measures, by name."""
    trials: int
    points: int
    repeats: int
    """Of each point; the most of them if the sampler chooses trials."""
    chooses_trials: bool
    sampler: str
    measured_again: int
    """First points of a block that are measured once more, which shows drift."""
    again_in_first_repeat: bool
    """Whether only the first repeat has those."""
    num_envs: list[int]
    horizon: list[int]
    batch_size: list[int] | None
    """None: the library's own."""
    rules: list[RulePlan]
    illegal: IllegalPoints | None
    search_trials: int | None = newer(None)
    """Trials of an arm's search with one model over all points; None for other samplers."""
    few_for_model: bool = newer(False)
    """Whether so few points are legal that the model tells little."""
    confirmed: int | None = newer(None)
    """Settings of an arm that have fresh seeds after the search; None without such a stage."""
    fresh_seeds: int | None = newer(None)
    """Fresh seeds of each."""
    learns_like: dict[str, str] = newer({})
    """Arm -> the arm whose search stands in for its own, and which has fresh seeds at its settings, too."""
    workers: int | None = newer(None)
    """Processes that measure trials side by side, one after the other each; None: each trial or block has a job."""
    too_few_devices: DevicesOfWorkers | None = newer(None)
    """Set if this machine has fewer devices than the workers need."""


NoiseSource = Literal["this machine", "published GPU studies", "published CPU studies"]
"""Where the noise between processes was measured."""


class Power(Frozen):
    """The statistical power of throughput trials."""

    repeats: int
    least_repeats: int
    """Fewer decide nothing."""
    plateau_shown: float
    """Share of such studies that show a plateau."""
    enough_repeats: int | None
    """With which `ENOUGH` of studies show it; None: more than `MOST_REPEATS`."""
    delta: float
    cv: float
    """Coefficient of variation of FPS between processes."""
    noise_source: NoiseSource
    paired: bool
    """Whether the last doubling is compared within each process."""


class PlanTime(Frozen):
    """How long a whole study takes and what it costs."""

    kinds: list[KindTime]
    earlier_trials: int
    """Trials of the same task on this machine whose durations it is reckoned from."""
    least_s: float | None
    """Of all kinds together; None if one of them was never timed here."""
    most_s: float | None
    limit_s: float
    """If every trial took its `limit_s`: longer it cannot take, but for waiting."""
    gpu_hours_least: float | None
    """GPUs x hours for which trials hold them; None without GPUs, or like `least_s`."""
    gpu_hours_most: float | None
    gpu_hours_limit: float | None
    """Like `limit_s`; None without GPUs."""


class StudyPlan(Frozen):
    """The plan of a study."""

    study: str
    task: str
    changed: dict[str, Any]
    """Fields of the task that the study sets, by name, with their values."""
    trials: int
    """At most."""
    arms: list[str]
    sections: list[SectionPlan]
    has_doubling: bool
    """Whether the throughput section, if there is one, lists two num_envs."""
    power: Power | None
    """None without throughput trials, or without a doubling."""
    time: PlanTime
