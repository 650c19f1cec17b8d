"""The gradient noise scale, as frozen models."""

from envknee.record.schema import Frozen


class NoiseScale(Frozen):
    """The gradient noise scale over some trials, or iterations."""

    transitions: float | None
    """None if the estimate of |G|^2 is not above 0: noise hides the gradient, and the scale is larger than measurable."""
    lower: float | None
    """Two-sided interval; None with fewer than 3 samples, or if the samples agree that |G|^2 is below 0."""
    upper: float | None
    """Also None (no upper end) if noise may hide the gradient."""
    confidence: float
    samples: int
    """Trials, or iterations."""
    method: str = "ratio of mean unbiased estimates of tr(Sigma) and |G|^2; interval: Fieller's over samples, Student t, from 3 samples on"


class PointNoise(Frozen):
    """The gradient noise scale of the learning trials at one point, over their whole training."""

    num_envs: int
    """Per rank."""
    horizon: int
    batch_size: int | None
    scale: NoiseScale
    statement: str
