"""Further repeats that may decide what a measured study left open, with their time."""

from envknee.base.fields import Kind
from envknee.record.schema import Frozen


class Further(Frozen):
    """Further repeats of one kind of trial."""

    kind: Kind
    repeats: int
    """Repeats, or seeds, of each point beyond those that were measured."""
    in_all: int
    """What `more_repeats` is then."""
    seconds: float
    """What they would take, by the median time of each point so far."""
