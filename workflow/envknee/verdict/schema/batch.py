"""The critical batch size, as frozen models."""

from typing import Literal

from envknee.record.schema import Frozen
from envknee.verdict.schema.learning import Cost
from envknee.verdict.series import OfPlace


class BatchPoint(Frozen):
    """The cost of learning at one batch size."""

    batch_size: int
    """Transitions in one optimizer step, all ranks together."""
    seeds: int
    reached: int
    frames_to_target: Cost
    """A lower bound if a seed did not reach the target."""


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
    method: str = (
        "S(B) = S_min (1 + B_noise / B) as E(B) = E_min + S_min B: least squares of relative errors, both at least 0, through"
        " interquartile means over seeds; intervals: stratified bootstrap (1,000 resamples) of the logarithms, widened by Student's t"
    )
    notes: list[str]
    statement: str = ""


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
    method: str = "ratio of mean unbiased estimates of tr(Sigma) and |G|^2; interval: Fieller's over samples, Student t, from 3 samples on"


class PointNoise(OfPlace):
    """The gradient noise scale of the learning trials at one point, over their whole training."""

    num_envs: int
    """Per rank."""
    scale: NoiseScale
    statement: str = ""
