"""Rules that scale training with num_envs, set side by side, as frozen models."""

from typing import Literal

from envknee.record.schema import Frozen, ScaledFrom
from envknee.verdict.schema.learning import Cost

METHOD = (
    "soonest: the size with the fewest seconds to the target (interquartile mean over seeds) where every seed reached it; as soon:"
    " sizes whose own interval begins below the end of the soonest one's. Ideally the next size takes the same frames and, in the"
    " ratio of sizes, fewer seconds for each: what frames lose names PPO, what seconds per frame lose the simulator, and seeds that"
    " no longer reach the target the rule"
)

Limit = Literal["PPO", "simulator", "rule", "none seen", "no data"]
"""PPO: frames to the target rise. simulator: seconds per frame, the learner's among them, fall no more. rule: some seeds no longer
reach the target."""


class RulePoint(Frozen):
    """What a rule made of one num_envs, and what that cost."""

    num_envs: int
    horizon: int
    batch_size: int | None
    """Transitions in one optimizer step, of all ranks together."""
    learning_rate: float | None
    """None: the task's own."""
    epochs: int | None
    """None: the task's own."""
    seeds: int
    reached: int
    seconds_to_target: Cost | None
    """None where no trial ran."""
    gpu_seconds_to_target: Cost | None
    frames_to_target: Cost | None
    seconds_per_million_frames: float | None
    """Of training: median over trials."""


class RuleLimit(Frozen):
    """Which limit one rule meets."""

    arm: str
    scaled_from: ScaledFrom
    staggered: bool | None
    points: list[RulePoint]
    soonest_num_envs: int | None
    """None where no size has all seeds at the target."""
    soonest_lowest: int | None
    """Smallest and largest size that is not shown to be slower; None without intervals."""
    soonest_highest: int | None
    limit: Limit
    """What stops the next size from being sooner."""
    frames_ratio: float | None
    """Frames to the target at the next size over those at the soonest; 1 is ideal."""
    seconds_per_frame_ratio: float | None
    """Seconds per frame at the next size over those at the soonest; the soonest over the next size is ideal."""
    statement: str


class Rules(Frozen):
    """All rules of a study."""

    rules: list[RuleLimit]
    has_moved: bool | None
    """Whether two rules have soonest sizes whose intervals are apart; None with fewer than two rules that have intervals."""
    method: str = METHOD
    statement: str
