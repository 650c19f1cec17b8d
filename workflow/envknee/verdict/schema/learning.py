"""The learning limit of a series, or of scaling rules side by side, as frozen models."""

import math
from collections.abc import Iterable
from typing import Literal

from envknee.base.fields import newer
from envknee.record.schema import Frozen, ScaledFrom
from envknee.verdict.schema.limit import SeriesLimit
from envknee.verdict.series import Series


class Cost(Frozen):
    """The cost of reaching the target, as an interquartile mean over seeds."""

    value: float
    lower_bound: bool
    """True if a seed did not reach the target: the real cost is larger."""
    interval_lower: float | None
    """Two-sided interval; None with one seed, or if `value` is a lower bound."""
    interval_upper: float | None
    seeds: int


class LearningPoint(Frozen):
    """Learning at one num_envs."""

    num_envs: int
    seeds: int
    """Trials that ran, whether they reached the target or not."""
    reached: int
    timeout: int
    """Censored: the budget was spent first."""
    failed: int
    """Became NaN or diverged."""
    oom: int
    refused: int
    seconds_to_target: Cost | None
    """Wall seconds of training; None if no trial ran."""
    gpu_seconds_to_target: Cost | None
    """Wall seconds times the number of GPUs; None on a CPU."""
    frames_to_target: Cost | None
    expected_running_time_s: float | None
    """Wall seconds of all seeds over the number that reached the target; None if none did."""

    @property
    def without_memory(self) -> int:
        """Trials that ran out of memory or were refused, if others ran; 0 if none ran (the point is infeasible)."""
        return self.oom + self.refused if self.seeds else 0

    @property
    def trials(self) -> int:
        """Trials that could have reached the target: those that ran, and `without_memory`."""
        return self.seeds + self.without_memory

    @property
    def order(self) -> tuple[bool, float]:
        """Sort key: the fewest seconds first, and points at which some trials lacked memory behind all others."""
        return self.without_memory > 0, self.seconds_to_target.value if self.seconds_to_target else math.inf


class LearningLimit(SeriesLimit):
    """The learning limit of one series."""

    scaled_from: ScaledFrom | None = newer(None)
    """The arm's scaling rule, if any; horizon and batch_size are then those of its base."""

    points: list[LearningPoint]

    @property
    def best(self) -> LearningPoint | None:
        """The point with the fewest seconds to the target; None if at every point some seed did not reach it."""
        whole = [point for point in self.points if point.reached == point.seeds > 0]
        return min(whole, key=lambda point: point.order, default=None)


def best_of(limits: Iterable[LearningLimit]) -> tuple[LearningLimit, LearningPoint] | None:
    """Return the best point of all limits, by `LearningPoint.order`, behind its limit; None without one."""
    bests = ((limit, limit.best) for limit in limits)
    return min(((limit, best) for limit, best in bests if best), key=lambda found: found[1].order, default=None)


Limit = Literal["PPO", "simulator", "rule", "none seen", "no data"]
"""PPO: frames to the target rise. simulator: seconds per frame (with the learner's) no longer fall. rule: some seeds miss the target."""


class RulePoint(LearningPoint):
    """Learning at one num_envs, with the values that a rule gives there."""

    horizon: int
    batch_size: int | None
    """Transitions in one optimizer step, all ranks together."""
    learning_rate: float | None
    """None: the task's own."""
    epochs: int | None
    """None: the task's own."""
    seconds_per_million_frames: float | None
    """Seconds of training: median over trials."""


class RuleLimit(Frozen):
    """The limit of one rule."""

    arm: str
    scaled_from: ScaledFrom
    points: list[RulePoint]
    soonest_num_envs: int | None
    """None if at every size some seed missed the target."""
    soonest_lowest: int | None
    """Smallest and largest size that is not shown to be slower; None without intervals."""
    soonest_highest: int | None
    next_num_envs: int | None
    """The next size that ran; None without one."""
    limit: Limit
    """Why the next size is not sooner."""
    frames_ratio: float | None
    """Frames to the target at the next size over those at the soonest; 1 is ideal."""
    seconds_per_frame_ratio: float | None
    """Seconds per frame at the next size over those at the soonest."""
    ideal_seconds_per_frame_ratio: float | None
    """The soonest size over the next."""

    def point(self, num_envs: int | None) -> RulePoint | None:
        """Return the point at `num_envs`; None without one."""
        return next((point for point in self.points if point.num_envs == num_envs), None)


class Rules(Frozen):
    """All rules of a study."""

    rules: list[RuleLimit]
    has_moved: bool | None
    """Whether intervals of the soonest sizes of two rules do not overlap; None with fewer than two intervals."""

    def as_run(self, limit: LearningLimit, num_envs: int) -> Series | None:
        """Return the horizon and batch size that a rule gave at one size of a series; None if no rule gave any."""
        for rule in self.rules:
            if (rule.arm, rule.scaled_from) == (limit.arm, limit.scaled_from):
                point = rule.point(num_envs)
                return None if point is None else Series(limit.arm, point.horizon, point.batch_size)
        return None
