"""The critical batch size, as frozen models."""

from typing import Literal

from envknee.record.schema import Frozen, ScaledFrom
from envknee.verdict.schema.learning import Cost
from envknee.verdict.series import OfPlace, Ranks, RankWord


class BatchPoint(Frozen):
    """The cost of learning at one batch size."""

    batch_size: int
    """Transitions in one optimizer step, all ranks together."""
    seeds: int
    reached: int
    frames_to_target: Cost
    """A lower bound if a seed did not reach the target."""


class Contradiction(Frozen):
    """A lower bound of frames to the target, above what the law expects."""

    batch_size: int
    expected_frames: float
    least_frames: float


class BatchLaw(Frozen):
    """S(B) of one arm, at one num_envs and horizon."""

    arm: str
    num_envs: int | None
    """Per rank; None if several are pooled."""
    horizon: int | None
    state: Literal["fitted", "too few batch sizes"]
    points: list[BatchPoint]
    b_noise: float | None
    """Transitions per optimizer step; None if not fitted, or if steps fall in proportion to the batch at all sizes."""
    b_noise_lower: float | None
    b_noise_upper: float | None
    """None: the measurements set no upper end."""
    s_min: float | None
    """Smallest number of optimizer steps in one epoch, for large batches."""
    e_min_frames: float | None
    """Smallest number of frames, for small batches."""
    largest_relative_error: float | None
    used: bool
    """False if the law misses a point by more than 10% and by more than the point's interval, or contradicts a bound."""
    pooled_num_envs: list[int]
    """Every num_envs and horizon of the trials, if several are pooled."""
    pooled_horizons: list[int]
    rules: list[ScaledFrom]
    """Scaling rules of the trials."""
    is_library_batch: bool
    """Whether a trial ran with the library's own batch, which counts as what it was."""
    missed: list[int]
    """Batch sizes that the law misses by more than 10% and by more than their interval."""
    contradicted: list[Contradiction]
    few_seeds: bool
    """Whether a fitted batch size has fewer seeds than a decision needs, so that the interval is somewhat too narrow."""
    world_size: int
    rank_word: RankWord

    @property
    def ranks(self) -> Ranks:
        """The ranks that trained together."""
        return Ranks(self.world_size, self.rank_word)

    @property
    def fitted(self) -> list[BatchPoint]:
        """The batch sizes at which every seed reached the target."""
        return [point for point in self.points if point.reached == point.seeds]


class NoiseScale(Frozen):
    """The gradient noise scale over some trials, or iterations."""

    transitions: float | None
    """None if the estimate of |G|^2 is not above 0: noise hides the gradient, and the scale is larger than measurable."""
    lower: float | None
    """Two-sided interval; None with fewer than 3 samples, or if the samples agree that |G|^2 is below 0."""
    upper: float | None
    """Also None (no upper end) if noise may hide the gradient."""
    samples: int
    """Trials, or iterations."""


class PointNoise(OfPlace):
    """The gradient noise scale of the learning trials at one point, over their whole training."""

    num_envs: int
    """Per rank."""
    scale: NoiseScale
    world_size: int
    rank_word: RankWord

    @property
    def ranks(self) -> Ranks:
        """The ranks that trained together."""
        return Ranks(self.world_size, self.rank_word)
