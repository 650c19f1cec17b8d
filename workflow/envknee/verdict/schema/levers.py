"""Settings besides num_envs, as frozen models."""

import math
from typing import Literal

from envknee.record.schema import Frozen
from envknee.verdict.rule import doublings
from envknee.verdict.rule.contrasts import of_levels

Finding = Literal["supported", "not supported", "not shown", "not measured"]
"""not shown: measured, but noise or single repeats leave it undecided."""


class Change(Frozen):
    """A ratio minus 1, with its two-sided interval; None if either side was measured once."""

    value: float
    lower: float | None
    upper: float | None

    @property
    def shown(self) -> Literal["more", "less", "not shown"]:
        """What the interval shows."""
        if self.lower is not None and self.lower > 0.0:
            return "more"
        return "less" if self.upper is not None and self.upper < 0.0 else "not shown"

    @classmethod
    def between(cls, before: doublings.Level, after: doublings.Level, confidence: float) -> "Change":
        """Return the change from one level to another, with Welch's interval."""
        change = of_levels(0, before, after)
        ends = doublings.interval(change.log_gain, change.variance, change.degrees, confidence, doublings.expm1)
        return cls(value=math.expm1(change.log_gain), lower=ends[0], upper=ends[1])


class Lever(Frozen):
    """One setting besides num_envs, and the measured effect of a larger value."""

    name: Literal["longer horizon", "larger batch", "more GPUs"]
    verdict: Finding
    fps: Change | None
    """0.25 is 25% more FPS."""
    seconds_to_target: Change | None
    """-0.25 is 25% fewer seconds to the target."""
    evidence: str
    """The measured numbers, or what to measure."""
