"""Comparison of scaling rules, as frozen models."""

from typing import Literal

from envknee.record.schema import Frozen, ScaledFrom
from envknee.verdict.schema.learning import LearningPoint

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
    limit: Limit
    """Why the next size is not sooner."""
    frames_ratio: float | None
    """Frames to the target at the next size over those at the soonest; 1 is ideal."""
    seconds_per_frame_ratio: float | None
    """Seconds per frame at the next size over those at the soonest; the soonest over the next size is ideal."""
    statement: str


class Rules(Frozen):
    """All rules of a study."""

    rules: list[RuleLimit]
    has_moved: bool | None
    """Whether intervals of the soonest sizes of two rules do not overlap; None with fewer than two intervals."""
    method: str = (
        "soonest: the size with the fewest seconds to the target (interquartile mean over seeds) where every seed reached it; as soon:"
        " sizes whose own interval begins below the end of the soonest one's. Ideally the next size takes the same frames and, in the"
        " ratio of sizes, fewer seconds for each: what frames lose names PPO, what seconds per frame lose the simulator, and seeds that"
        " no longer reach the target the rule"
    )
    statement: str
