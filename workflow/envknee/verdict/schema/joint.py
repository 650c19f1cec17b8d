"""The joint answer over num_envs, horizon and batch size, as frozen models.

A cost is seconds to the target, or for throughput seconds per frame; less is better.
"""

import math
from typing import Literal, Protocol

from envknee.base.fields import Kind, newer
from envknee.record.schema import Frozen

JointState = Literal["no data", "searched", "confirming", "confirmed"]
"""searched: there is no confirming stage. confirming: not all of its seeds have ended, so that nothing is claimed yet."""


class HasBatch(Protocol):
    """Whatever says at which horizon and batch size it ran."""

    @property
    def horizon(self) -> int:
        """Environment steps per rollout."""
        ...

    @property
    def batch_size(self) -> int | None:
        """Transitions per optimizer step, all ranks together; None: the library's own."""
        ...


class Setting(Frozen):
    """One num_envs, horizon and batch size."""

    num_envs: int
    """On each rank."""
    horizon: int
    batch_size: int | None
    """All ranks together; None: the library's own."""

    @classmethod
    def at(cls, num_envs: int, ran: "HasBatch") -> "Setting":
        """Return the setting of one num_envs, with the horizon and batch size of `ran`: a series, a request, or another setting."""
        return Setting(num_envs=num_envs, horizon=ran.horizon, batch_size=ran.batch_size)


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
    """The largest of its fresh seeds."""
    gpu_seconds: float | None = newer(None)
    """`cost` times the GPUs of a trial; None on a CPU, or without a cost."""


class Claims(Frozen):
    """Settings that are named, as places in `JointAnswer.confirmed`."""

    soonest: int | None
    """The least mean of fresh seeds; None before all of them have ended, or without a comparable setting."""
    fewest_environments: int | None
    """Of those shown to cost at most delta more than the best one, the one with fewest environments; None without one."""
    least_memory: int | None
    """Likewise the one with least memory."""
    fewest_gpu_seconds: int | None = newer(None)
    """Likewise the one with fewest GPU-seconds; None on a CPU."""


class OnCards(Claims):
    """The same among the confirmed settings that fit smaller cards."""

    cards: list[str]
    """Cards that fit the same settings, small ones first."""
    fitting: list[int]
    """These settings, as places in `JointAnswer.confirmed`."""


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
    more_seeds: int | None = newer(None)
    """Further seeds of each setting with which fresh seeds decide with a chance of 80%, if the estimates are true; up to a look. None: they
    have decided, or the gain is too near delta."""


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


class AxisProfile(Frozen):
    """Cost along one axis, with the other axes at their best for each value, by the model of all trials."""

    axis: Literal["num_envs", "horizon"]
    values: list[ProfileValue]
    """Ascending."""


class ExpectedSetting(Setting):
    """What the model of all trials expects a setting to cost."""

    cost: float
    """Median."""
    cost_lower: float | None = newer(None)
    """Two-sided interval; None in verdicts of earlier versions."""
    cost_upper: float | None = newer(None)

    @property
    def times_either_way(self) -> float | None:
        """Half the width of the interval, as a factor: 1.2 is from the value divided by 1.2 to 1.2 times it. None without one."""
        if self.cost_lower is None or self.cost_upper is None:
            return None
        return math.sqrt(self.cost_upper / self.cost_lower)


class FramesOfSetting(Setting):
    """The two factors of the seconds to the target, each by a model of its own: median and two-sided interval."""

    frames: float
    """To the target, all ranks together."""
    frames_lower: float
    frames_upper: float
    seconds_per_frame: float
    seconds_per_frame_lower: float
    seconds_per_frame_upper: float


class RegretStep(Setting):
    """What a search would have lost, had it ended after its first trials: the setting is the one that their model picks."""

    trials: int
    regret: float
    """By how much the pick costs more than the best setting, as a share: mean, by the model of all trials."""
    regret_upper: float
    """One-sided bound."""


class JointShape(Frozen):
    """The surface as figures show it, by the model of all trials."""

    profiles: list[AxisProfile]
    """Of each axis with several values."""
    expected: list[ExpectedSetting]
    """Every setting, ascending."""
    frames: list[FramesOfSetting]
    """The settings of the profile of num_envs; empty for throughput."""
    regret: list[RegretStep]
    """Ascending by trials; the last one has the whole search."""


LikenessState = Literal["shown", "not shown", "differs", "varies", "too few settings", "seeds missed the target"]
"""Shown: the whole interval of the ratio is within the margin; differs: none of it is. Varies: it is within on average, and not the
same at each setting."""


class SettingRatio(Setting):
    """How many times the frames of another arm one needs at a setting, each interval by itself."""

    ratio: float
    ratio_lower: float
    ratio_upper: float


class Likeness(Frozen):
    """Whether an arm needs as many frames to the target as another one: an equivalence test between fresh seeds at the same settings."""

    arm: str
    """The other one."""
    state: LikenessState
    margin: float
    """The ratio must lie within 1 - margin to 1 + margin."""
    least_settings: int
    """Settings that the comparison takes."""
    error: float
    """Chance that a ratio at either end of it passes, at the last look. The intervals are those of 1 - 2 error."""
    ratio: float | None
    """Geometric mean over the settings; None if none can be compared."""
    ratio_lower: float | None
    ratio_upper: float | None
    at: list[SettingRatio]
    """Settings at which both arms have fresh seeds that can be compared, ascending."""


class JointPlan(Frozen):
    """Seconds to the target of an arm with `learns_like` as they were planned before any fresh seed. No claim rests on them.

    They are the frames that the other arm's search expects, over this arm's own FPS.
    """

    arm: str
    """The other one."""
    is_rough: bool
    """Whether the surface is too rough to be told."""
    likely: list[LikelySetting]
    """The fewest settings that hold the best one with the study's confidence, the likeliest first."""
    mini_batches: list[MiniBatches]
    """The seconds of the best setting at each number; empty with the library's own batch."""
    shape: JointShape | None
    """Profiles have the seconds of the very setting that stands at each value. Frames are those of the other arm. There is no regret,
    because this arm has no search. None if it is rough."""


class JointAnswer(Claims):
    """The joint answer of one arm and kind of trial."""

    arm: str
    kind: Kind
    state: JointState
    delta: float
    confidence: float
    """Of all claims about an arm together, those about seconds and about FPS if a study has both."""
    claims: int = newer(0)
    """Claims of this kind of trial, with equal parts of its chance of error: the soonest's interval, the comparisons with the best, and
    the threshold of each axis, or with `learns_like` that both arms learn alike."""
    error_of_kind: float = newer(0.0)
    """Chance of error of all of these together: the whole one, or half of it if a study has both kinds."""
    error_of_claim: float
    """Chance of error of each claim at the last look."""
    search_trials: int
    search_left: int = newer(0)
    """Trials of the search that have not ended; 0 once its fresh seeds have begun."""
    fresh_ended: int = newer(0)
    """Trials of fresh seeds that have ended."""
    fresh_planned: int = newer(0)
    """Trials of fresh seeds that were fixed beforehand. In their first round fewer may be left: where fewer settings fit the memory, or
    where arms that learn alike have the same settings."""
    seeds_to_next_look: int | None = newer(None)
    """Further seeds of each setting until the study is looked at again; None before the first look, or after the last one."""
    legal_settings: int = newer(0)
    """Settings among which the search looks: the batch divides their rollout."""
    replaces_series: bool = newer(False)
    """Whether the model chose the trials of the search, so that series of them are no claim."""
    censored: int
    """Those of the search that only tell a lower bound."""
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
    on_cards: list[OnCards] = newer([])
    """Only cards that some of the confirmed settings fit, and others do not."""
    spreads_differ: bool
    """Whether seeds of some settings vary more than those of others."""
    thresholds: list[JointThreshold]
    mini_batches: list[MiniBatches]
    """Empty with the library's own batch, or on a rough surface."""
    learns_like: str | None = newer(None)
    """The arm whose search planned this one's fresh seeds; None: it has a search of its own."""
    likeness: Likeness | None = newer(None)
    """With `learns_like`: unless it is shown, the model says nothing. None before both arms have their planned seeds."""
    plan: JointPlan | None = newer(None)
    """With `learns_like`: by what its settings were chosen, whatever `likeness` says. None before both arms have trials for it."""
    shape: JointShape | None = newer(None)
    """None without a trial, on a rough surface, or with `learns_like`."""

    @property
    def open_thresholds(self) -> list[JointThreshold]:
        """Undecided thresholds of axes of which several values were tested."""
        return [own for own in self.thresholds if own.state == "undecided" and len(own.tested) > 1]

    @property
    def more_seeds(self) -> int | None:
        """Further seeds of each setting that may decide what is open, the most that a threshold needs: at least those until the next look.

        None after the last look, or where seeds would hardly decide: each open threshold lies too near delta for its noise.
        """
        if self.seeds_to_next_look is None or (self.soonest is not None and self.is_too_near):
            return None
        return max([self.seeds_to_next_look, *(own.more_seeds or 0 for own in self.open_thresholds)])

    @property
    def is_too_near(self) -> bool:
        """Whether thresholds are open, and no number of seeds that is ever suggested would decide one of them."""
        hopeless = [own.by_fresh is None and own.more_seeds is None for own in self.open_thresholds]
        return bool(hopeless) and all(hopeless)

    def threshold_of(self, axis: Literal["num_envs", "horizon"]) -> JointThreshold | None:
        """Return the threshold of an axis; None without one."""
        return next((own for own in self.thresholds if own.axis == axis), None)
