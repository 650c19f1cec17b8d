"""Scaling efficiency of several ranks, as frozen models."""

from typing import Literal

from envknee.base.fields import newer
from envknee.record.schema import Frozen, Phase
from envknee.verdict.series import OfPlace, Ranks, RankWord


class ScalingLoss(Frozen):
    """Seconds of an iteration on all ranks less those on one, by phase: estimates, see `verdict.scaling_loss`."""

    iteration_one_rank_s: float
    """Sum of the phases."""
    iteration_all_ranks_s: float
    """Sum of the phases, which are means over the ranks."""
    more_s: dict[Phase, float]
    """By phase; below 0 where all ranks take less time."""
    slowest_rank_s: float
    """The part of `more_s["learning"]` in which the mean rank waits for the slowest one to end its rollout."""

    @property
    def exchange_s(self) -> float:
        """The rest of `more_s["learning"]`: exchanging gradients in every optimizer step."""
        return self.more_s["learning"] - self.slowest_rank_s

    @property
    def collecting_s(self) -> float:
        """What is more in all other phases, which exchange nothing: the host, and what GPUs share."""
        return sum(seconds for phase, seconds in self.more_s.items() if phase != "learning")

    @property
    def largest_collecting(self) -> Phase | None:
        """The phase other than learning that grew most; None if these phases together did not grow."""
        if self.collecting_s <= 0.0:
            return None
        return max((phase for phase in self.more_s if phase != "learning"), key=lambda phase: self.more_s[phase])


class ScalingPoint(OfPlace):
    """One point that was timed on one rank and on several."""

    num_envs: int
    """Per rank. The library's own batch is k times as large on k ranks."""
    fps_all_ranks: float
    """Geometric mean over processes, frames per second."""
    speedup: float
    """FPS of all ranks over those of one rank on the same machine."""
    efficiency: float
    """speedup / ranks: 1 without any loss; noise or smaller mini-batches may raise it above 1."""
    efficiency_lower: float | None
    """Two-sided interval of this point alone; None if either side has one repeat."""
    efficiency_upper: float | None
    repeats_one_rank: int
    """Processes that timed it."""
    repeats_all_ranks: int
    world_size: int
    rank_word: RankWord
    loss: ScalingLoss | None = newer(None)
    """Where the loss goes; None if the trials do not tell their phases."""

    @property
    def ranks(self) -> Ranks:
        """The ranks that trained together."""
        return Ranks(self.world_size, self.rank_word)

    @property
    def loses(self) -> bool:
        """Whether the interval shows a loss: all of it is below 100%."""
        return self.efficiency_upper is not None and self.efficiency_upper < 1.0


class Scaling(Frozen):
    """The scaling efficiency of one arm."""

    arm: str
    world_size: int
    rank_word: RankWord
    partner: str | None
    """The arm that is the same on one rank; None if the study has none."""
    points: list[ScalingPoint]
    lacks: Literal["partner", "same hardware", "common point"] | None
    """What an efficiency is missing: the arm on one rank, the same devices for both, or a point that both timed; None with points."""
    devices: str
    """Names of the devices that timed this arm."""
    partner_devices: str
    partner_gpus: Literal[0, 1]
    """`gpus` of an arm that would be the partner: 0 for the CPU."""
    has_nodes: bool
    """Whether the arm trains on several machines, so that a partner needs `nodes: 1`."""
    slowest_share: float | None
    """Median over trials of the slowest rank's FPS of collecting over the fastest one's; None if unknown."""

    @property
    def ranks(self) -> Ranks:
        """The ranks that trained together."""
        return Ranks(self.world_size, self.rank_word)

    @property
    def fastest(self) -> ScalingPoint | None:
        """The point at which all ranks together have the most FPS; None without points."""
        return max(self.points, key=lambda point: point.fps_all_ranks, default=None)
