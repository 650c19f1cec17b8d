"""The recommendation for one arm, and what would move its limit, as frozen models."""

from typing import Literal

from envknee.base.fields import newer
from envknee.record.schema import Frozen, Phase
from envknee.record.status import Status
from envknee.verdict.schema.learning import Cost
from envknee.verdict.schema.levers import Lever
from envknee.verdict.series import OfPlace, Series

Binds = Literal["throughput", "memory", "learning", "more_environments", "more_repeats"]
"""The limit that is met first when environments are added; or none yet, and what to measure for one."""


class NextMeasurement(Frozen):
    """What to measure next to decide an open throughput threshold."""

    kind: Literal["smaller_size", "doubling", "same_machine", "repeats", "either_size", "memory_ends", "size"]
    """
    smaller_size   no size was timed: one that fits the memory, and twice as many
    doubling       `num_envs` and twice as many, several times each
    same_machine   `num_envs` and twice as many on one machine, because none ran both
    repeats        more repeats, which would decide about doubling `num_envs`
    either_size    nothing: over 200 repeats would be needed to decide about doubling `num_envs`
    memory_ends    nothing: `num_envs` would be next, and does not fit
    size           `num_envs`
    """
    num_envs: int | None = None
    after: Literal["no_doubling", "no_doubling_with_largest", "doubling_gains"] | None = None
    """Why `num_envs` would be next: nothing is known of any doubling, or of one with the largest size, or the last doubling still gains."""
    failed: int | None = None
    """The smallest num_envs that did not fit the memory, where it ends the measurements."""
    ended: Status | None = None
    """How the last trial at `num_envs` ended, if one ran and had no FPS; with memory_ends, `crashed` if the program broke there instead."""


class Waits(Frozen):
    """What an iteration mostly waits for at the recommended num_envs, and what does not grow with num_envs."""

    share: float
    """Share of an iteration that does not grow."""
    phase: Phase
    """The phase with the largest part of it."""
    phase_share: float
    """That phase's share of what does not grow."""


class HoursSaved(Frozen):
    """The cost of the target at one num_envs, beside the next larger one. GPU-hours, or hours on a CPU."""

    device: Literal["GPU", "CPU"]
    num_envs: int
    hours: float
    other_num_envs: int
    other_hours: float
    other_is_lower_bound: bool
    """True if a seed did not reach the target there: both `other_hours` and `saved` are lower bounds."""
    saved: float
    """1 - hours / other_hours; below 0 if the larger one costs less."""


class Headline(OfPlace):
    """The recommendation for one arm, with its threshold and reasons.

    The recommended point is in the series with the largest measured FPS: its throughput threshold, or its num_envs with the largest FPS
    where none is shown, within the memory to keep free.
    """

    state: Literal["reached", "still pays", "undecided"]
    """State of the throughput threshold (see `ThroughputLimit`)."""
    threshold_num_envs: int | None
    num_envs: int
    """The recommended number, per rank."""
    wanted_num_envs: int
    """What would be recommended if memory were no limit."""
    fps: float
    """At the recommended point: frames per second of all ranks, collecting and learning."""
    fps_share_of_best: float
    """Share of the largest FPS at any point of this arm."""
    memory_peak_gb: float | None
    """Largest measured peak at the recommended point, on the rank with the most."""
    memory_share: float | None
    """Share of the memory of one rank; None if either is unknown."""
    seconds_to_target: Cost | None
    """At the recommended point, if learning trials ran there."""
    binds: Binds
    is_lean: bool
    """Whether the arm has lean frames."""
    next_measurement: NextMeasurement | None
    """None if a limit binds."""
    waits: Waits | None
    """None if most of an iteration grows with num_envs, or phases are unknown."""
    saves: HoursSaved | None
    """Of the recommended point, or else of the soonest one; None if costs of two sizes are unknown."""
    levers: list[Lever] = []
    """Measured effects of a longer horizon, a larger batch and more GPUs."""
    ran: OfPlace | None = newer(None)
    """Horizon and batch size that the arm's scaling rule gave at the recommended point; None if they are those of the series."""

    @property
    def as_run(self) -> Series:
        """The horizon and batch size with which the recommended point ran."""
        return self.series if self.ran is None else self.ran.series
