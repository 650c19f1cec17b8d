"""Settings besides num_envs, within an arm (levers) or between arms (remedies), as frozen models."""

import math
from typing import Any, Literal

from envknee.record.schema import Frozen
from envknee.verdict.rule import doublings
from envknee.verdict.rule.looks import Looked
from envknee.verdict.rule.union import interval_at_every_look
from envknee.verdict.schema.memory import MemoryWall, Quantity
from envknee.verdict.series import OfPlace

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
    def of(cls, looked: Looked, confidence: float) -> "Change":
        """Return the change from one point to another, with its interval that holds at every look."""
        lower, upper = (
            None if end is None else doublings.expm1(end) for end in interval_at_every_look(looked, confidence)
        )
        return cls(value=math.expm1(looked.latest.log_gain), lower=lower, upper=upper)


class Compared(Frozen):
    """Two measured points that differ in one setting."""

    num_envs: int
    """Of each rank, at both points."""
    before: int
    """The smaller value of the setting."""
    after: int


class Lever(Frozen):
    """One setting besides num_envs, and the measured effect of a larger value."""

    name: Literal["longer horizon", "larger batch", "more GPUs"]
    verdict: Finding
    fps: Change | None
    """0.25 is 25% more FPS."""
    seconds_to_target: Change | None
    """-0.25 is 25% fewer seconds to the target."""
    fps_at: Compared | None
    """Where `fps` is from."""
    seconds_at: Compared | None
    """Where `seconds_to_target` is from."""


class Difference(Frozen):
    """A setting in which an arm differs from the baseline."""

    name: str
    """Dotted, such as `memory.clear_cache_every`."""
    value: Any
    """The arm's value; None: its default."""


class Remedy(Frozen):
    """The comparison of one arm with the baseline."""

    arm: str
    differs_in: list[Difference]
    """Settings that differ from the baseline's; several act together."""
    settings_changed: int
    """How many these are; width and height of a picture count as one."""
    same_task: bool
    """False if settings of environment or agent differ: then check that it still learns."""
    largest_num_envs: int | None
    """The largest num_envs that fits, by the memory model; None if unknown."""
    baseline_num_envs: int | None
    """The same of the baseline."""
    fits: Change | None
    """1.0 is twice as many environments; None if either is unknown, or the amounts of memory differ."""
    extrapolated: bool
    """Whether the model's num_envs is over `FAR_BEYOND` times the largest one measured, for either arm."""
    at_num_envs: int | None
    """num_envs at which FPS and peaks are compared; None if no num_envs was timed with both."""
    fps: Change | None
    """0.1 is 10% more."""
    peak_gb: float | None
    """Largest measured peak at `at_num_envs`."""
    baseline_peak_gb: float | None
    shown_at: int | None = None
    """num_envs that fitted one arm, and at which the other ran out of memory; None without such trials."""
    room: Literal["more", "less", "not shown", "not measured"]
    """Whether more environments are shown to fit: by such trials, else by the interval of `fits`."""


class Remedies(OfPlace):
    """The comparisons of all arms with the baseline."""

    baseline: str
    quantity: Quantity
    """What counts as memory."""
    device_memory_gb: float | None
    """Memory that one rank of the baseline may use."""
    baseline_wall: MemoryWall | None
    """What fits with the baseline at this horizon and batch size."""
    remedies: list[Remedy]
    """Sorted by the room that they make, most first."""
