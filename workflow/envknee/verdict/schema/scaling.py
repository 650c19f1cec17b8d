"""Scaling efficiency of several ranks, as frozen models."""

from envknee.record.schema import Frozen
from envknee.verdict.series import OfPlace


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
    statement: str


class Scaling(Frozen):
    """The scaling efficiency of one arm."""

    arm: str
    world_size: int
    partner: str | None
    """The arm that is the same on one rank; None if the study has none."""
    points: list[ScalingPoint]
    method: str = (
        "weak scaling: FPS of all ranks / (ranks x FPS of one) at equal num_envs per rank, horizon and batch_size; geometric means"
        " over processes, compared within machines, t on ln FPS, two-sided, each point alone"
    )
    notes: list[str]
    statement: str
    """The fastest point in one sentence, and the range over all."""

    @property
    def fastest(self) -> ScalingPoint | None:
        """The point at which all ranks together have the most FPS; None without points."""
        return max(self.points, key=lambda point: point.fps_all_ranks, default=None)
