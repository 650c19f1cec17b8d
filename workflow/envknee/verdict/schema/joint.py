"""The joint answer over num_envs, horizon and batch size, as frozen models.

A cost is seconds to the target, or for throughput seconds per frame; less is better.
"""

from typing import Literal

from envknee.base.fields import Kind
from envknee.record.schema import Frozen

JointState = Literal["no data", "searched", "confirming", "confirmed"]
"""searched: there is no confirming stage. confirming: not all of its seeds have ended, so that nothing is claimed yet."""


class Setting(Frozen):
    """One num_envs, horizon and batch size."""

    num_envs: int
    """On each rank."""
    horizon: int
    batch_size: int | None
    """All ranks together; None: the library's own."""


class LikelySetting(Setting):
    """A setting that may be the best one, by the model of all trials."""

    chance: float
    """That it is the best of all settings."""
    cost: float
    cost_lower: float
    """Two-sided interval."""
    cost_upper: float


class ConfirmedSetting(Setting):
    """A setting with fresh seeds. All that is said of it rests on them alone, except for `chance`."""

    seeds: int
    reached: int
    """Seeds that reached the target, or trials that were timed to their end."""
    lost: int
    """Trials that did not run, such as those without memory: then the setting is not recommended."""
    cost: float | None
    """Geometric mean over seeds; None if too many of them missed the target."""
    cost_lower: float | None
    """Interval that holds for all confirmed settings at once, so that it may be given for the soonest; None if unknown."""
    cost_upper: float | None
    may_be_best: bool
    """Whether no other confirmed setting is shown to cost less."""
    most_slower: float | None
    """Upper bound of how much more it costs than the best other confirmed setting, as a share; 0: shown to be the best. None if unknown."""
    chance: float | None
    """That it is the best of all settings, by the model of all trials; None on a rough surface."""
    memory_peak_gb: float | None
    """Median over its fresh seeds."""


class ProfileValue(Setting):
    """A value of an axis, with the setting that the model expects to be the best one there."""

    value: int
    cost: float | None
    """Of the profile, by the model: median and two-sided interval; None on a rough surface."""
    cost_lower: float | None
    cost_upper: float | None


class JointThreshold(Frozen):
    """From which value of an axis on doubling it saves less than delta, with the other axes at their best for each value."""

    axis: Literal["num_envs", "horizon"]
    state: Literal["reached", "still pays", "undecided"]
    """Still pays: fresh seeds and the model show that the axis's largest doubling saves at least delta."""
    threshold: int | None
    """The larger one of the next two; None unless both are named."""
    by_fresh: int | None
    by_model: int | None
    tested: list[int]
    """Values that a confirmed setting stands for."""
    profile: list[ProfileValue]


class MiniBatches(Frozen):
    """The profile over the number of mini-batches: a valley, of which a range is told."""

    value: int
    """Mini-batches of an epoch."""
    cost: float
    """Median and two-sided interval, by the model."""
    cost_lower: float
    cost_upper: float
    not_slower: bool
    """Whether it is not shown to cost delta more than the best number of mini-batches."""


class JointAnswer(Frozen):
    """The joint answer of one arm and kind of trial."""

    arm: str
    kind: Kind
    state: JointState
    delta: float
    confidence: float
    """Of the study of one kind: each claim below has its part of the chance of error, `error_of_claim`."""
    error_of_claim: float
    """Chance of error of each of these at the last look: the soonest's interval, the comparisons with the best, and each threshold."""
    search_trials: int
    censored: int
    """Those of them that only tell a lower bound."""
    amplitude: float | None
    """Of deviations from the trend, in ln cost."""
    seed_sd: float | None
    """Standard deviation of ln cost between seeds."""
    is_rough: bool
    """Whether deviations are so large that the model's intervals and chances are withheld, and no threshold is named."""
    likely: list[LikelySetting]
    """The fewest settings that hold the best one with the study's confidence, by the model, the likeliest first."""
    confirmed: list[ConfirmedSetting]
    """The least cost first."""
    soonest: int | None
    """Places in `confirmed`: the least mean of fresh seeds; None before all seeds have ended, or without a comparable setting."""
    fewest_environments: int | None
    """Of those shown to cost at most delta more than the soonest, the one with fewest environments; None without one."""
    least_memory: int | None
    """Likewise the one with least memory."""
    spreads_differ: bool
    """Whether seeds of some settings vary more than those of others."""
    thresholds: list[JointThreshold]
    mini_batches: list[MiniBatches]
    """Empty with the library's own batch, or on a rough surface."""
