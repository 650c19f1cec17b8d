"""A predicted gain, and a predicted knee, as frozen models. They are made when they are shown, and stand in no file."""

from envknee.record.schema import Frozen


class Foresight(Frozen):
    """The gain that the law of an iteration predicts of a doubling whose larger size was not measured."""

    num_envs: int
    """The size after the doubling."""
    gain: float
    """0.09 is 9% more FPS than at half as many environments."""
    lower: float
    upper: float
    """Ends of an interval that holds for `verdict.foresight.CONFIDENCE` of such predictions."""


class KneeForesight(Frozen):
    """The knee that two measured sizes predict: from it on, doubling should gain less than 10%."""

    num_envs: int
    lower: int
    upper: int
    """Ends of an interval, both on the ladder of doublings from the smaller size."""
    in_proportion: bool
    """FPS nearly doubled between the two sizes: only `lower` means anything."""
