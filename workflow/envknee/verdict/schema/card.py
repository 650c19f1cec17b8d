"""The card of a study, as frozen models: one entry for each question. It is made from a verdict when it is shown, and stands in no file."""

from typing import Literal

from envknee.base.fields import Kind
from envknee.record.schema import Frozen
from envknee.verdict.schema.headline import Binds
from envknee.verdict.schema.joint import JointAnswer, Setting
from envknee.verdict.schema.learning import LearningLimit
from envknee.verdict.schema.memory import MemoryWall
from envknee.verdict.schema.throughput import ComposedFps, OtherLoad, ThroughputLimit
from envknee.verdict.series import OfRanks

CardState = Literal["decided", "still pays", "undecided"]
"""decided: the limit is reached, or all confirmed settings are compared. still pays: the largest doubling measured is shown to pay."""

OF_LIMIT: dict[str, CardState] = {
    "reached": "decided",
    "still pays": "still pays",
    "undecided": "undecided",
    "no data": "undecided",
}
"""State of a limit -> that of its card."""


class TrainingCommand(Frozen):
    """The command that trains an arm at a setting."""

    argv: list[str]
    """The program and its arguments; empty if none is known."""
    of_setting: list[str] = []
    """Those of the arguments that say num_envs, horizon and batch size."""
    env: dict[str, str] = {}
    """Environment variables that the study sets."""
    lacks: list[str] = []
    """Settings of the arm that the command cannot set, as a study file has them: `observations: lean`."""


class ArmRatio(Frozen):
    """How many times the FPS, or the seconds to the target, of another arm one has."""

    other: str
    setting: Setting | None
    """Where both are compared; None: each at its best setting."""
    ratio: float | None
    """None if the other arm has no result there."""
    lower: float | None
    """Two-sided interval; None if either side has one repeat or seed."""
    upper: float | None


class CardEntry(OfRanks):
    """The answer of one arm to one question. learning: what learns soonest; throughput: what has most frames per second."""

    kind: Kind
    arm: str
    setting: Setting | None
    """The setting to train with; None without one."""
    value: float | None
    """Seconds to the target, or FPS."""
    lower: float | None
    """Two-sided interval; None with one repeat or seed."""
    upper: float | None
    repeats: int
    """Repeats, or seeds."""
    share_of_best: float | None = None
    """Share of the largest FPS of the arm; None for learning, and for a joint answer."""
    composed: ComposedFps | None = None
    """What the FPS are composed from, if no trial ran the setting."""
    limit: ThroughputLimit | LearningLimit | None = None
    """The limit of the setting's series; None with a joint answer."""
    joint: JointAnswer | None = None
    binds: Binds | None = None
    """None for learning, and for a joint answer."""
    wall: MemoryWall | None
    """What fits at the setting's horizon and batch size; None if unknown."""
    device_memory_gb: float | None
    load: OtherLoad | None = None
    """Load of other processes during the trials of this kind; None if it was small, or not measured."""
    cost_s: float | None = None
    """Seconds of the repeats that may decide what is open; None if nothing is, or it is unknown."""
    ratios: list[ArmRatio] = []
    """This arm against each other one: at their best settings, then at each setting that both have."""
    command: TrainingCommand | None = None
    """None if it is not known how the trials were run."""

    @property
    def state(self) -> CardState:
        """Whether the limit, or the comparison of confirmed settings, is decided."""
        if self.joint is None:
            return "undecided" if self.limit is None else OF_LIMIT[self.limit.state]
        if self.joint.state != "confirmed":
            return "undecided"
        threshold = self.joint.threshold_of("num_envs")
        if threshold is not None:
            return OF_LIMIT[threshold.state]
        return "undecided" if self.joint.soonest is None else "decided"


class Card(Frozen):
    """One entry for each question that was measured: learning first."""

    entries: list[CardEntry]
    not_measured: list[Kind]
