"""Which arm is ahead at its own best point, as a frozen model. It is made from a verdict when it is shown, and stands in no file."""

from typing import Literal

from envknee.base.fields import Kind
from envknee.record.schema import Frozen
from envknee.verdict.series import OfRanks

Order = Literal["shown", "open", "no interval"]
"""shown: the interval of two arms' ratio excludes 1; open: it holds 1; no interval: one of them has too few repeats or seeds."""


class Standing(OfRanks):
    """The result of an arm at its recommended setting."""

    arm: str
    kind: Kind
    """throughput: `value` is FPS; learning: seconds to the target."""
    num_envs: int
    value: float


class Behind(Frozen):
    """An arm behind the first one."""

    standing: Standing
    times: float
    """How many times its FPS the first one has, or how many times as long it takes to the target."""
    order: Order


class Lead(Frozen):
    """The arms by rank, of the kind of trial that most of them have."""

    first: Standing
    behind: list[Behind]
    """The others, the next one first."""
    beside: list[Standing] = []
    """Arms whose result is of another kind: these are not compared."""
