"""Settings besides num_envs, as frozen models."""

from typing import Literal

from envknee.record.schema import Frozen


class Change(Frozen):
    """A ratio minus 1, with its two-sided interval; None if either side was measured once."""

    value: float
    lower: float | None
    upper: float | None


class Lever(Frozen):
    """One setting besides num_envs, and the measured effect of a larger value."""

    name: Literal["longer horizon", "larger batch", "more GPUs"]
    verdict: Literal["supported", "not supported", "not shown", "not measured"]
    """not shown: measured, but noise or single repeats leave it undecided."""
    fps: Change | None
    """0.25 is 25% more FPS."""
    seconds_to_target: Change | None
    """-0.25 is 25% fewer seconds to the target."""
    evidence: str
    """The measured numbers, or what to measure."""
