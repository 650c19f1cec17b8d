"""The history of several versions of one task, as frozen models."""

from typing import Literal

from envknee.record.schema import Frozen
from envknee.verdict.schema.comparison import Bound, Change, Difference, MeasureName, Place


class Level(Frozen):
    """One measure of one version, over all points."""

    version: str
    ratio: float
    """To the first version of the series; geometric means over points."""
    repeats: list[float]
    """The same of each repeat."""


class ChangePoint(Frozen):
    """A step of a measure between two versions that follow each other."""

    measure: MeasureName
    before: str
    """The last version before the step."""
    after: str
    """The first version with it."""
    ratio: float
    """Mean of the versions up to the next step, in parts of those since the last one."""
    lower: float | None
    """Two-sided interval of this ratio alone; None without a spread."""
    upper: float | None
    p_value: float
    """By permutation."""
    change: Change
    differs: list[Difference]
    """What differs between the two versions: settings, packages, commit."""


class MeasureHistory(Frozen):
    """One measure on one machine."""

    measure: MeasureName
    level: float
    """Share of series without a change in which some change is found."""
    least_p: float
    """The smallest p-value that so many repeats of so many versions can have."""
    levels: list[Level]
    changes: list[ChangePoint]


class Lost(Frozen):
    """A point at which a smaller share of the last versions' trials succeeded than of those before."""

    place: Place
    before: tuple[int, int]
    """Trials that succeeded, and all."""
    last: tuple[int, int]


class MachineHistory(Frozen):
    """The versions that one machine measured."""

    machine: str
    versions: list[str]
    points: list[Place]
    measures: list[MeasureHistory]


class MachineGate(Frozen):
    """What the gate found on one machine."""

    machine: str
    baseline: list[str]
    """The versions before the last ones, since the last change among them."""
    last: list[str]
    bounds: list[Bound]
    losses: list[ChangePoint]
    """Shown losses beyond the margin that begin among the last versions."""
    lost: list[Lost]


class HistoryGate(Frozen):
    """The answer for the last versions, with what it follows from."""

    answer: Literal["pass", "fail", "inconclusive"]
    margin: float
    machines: list[MachineGate]


class History(Frozen):
    """The history of several versions."""

    task: str
    versions: list[str]
    confidence: float
    machines: list[MachineHistory]
    gate: HistoryGate | None
    """None without --gate."""
