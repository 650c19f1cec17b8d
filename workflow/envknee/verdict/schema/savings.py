"""The saving of a point, as a frozen model."""

from typing import Literal

from envknee.record.schema import Frozen


class Saving(Frozen):
    """The hours to the target of one point, compared with another: a saving of 0.25 is a quarter fewer hours."""

    num_envs: int
    horizon: int
    batch_size: int | None
    against: Literal["largest FPS", "twice as many environments"]
    against_num_envs: int
    device: Literal["GPU", "CPU"]
    hours: float
    """Seconds to the target x GPUs / 3600."""
    against_hours: float
    """A lower bound if `at_least`."""
    saved: float
    """1 - hours / against_hours; below 0 if the other point spends less. A lower bound if `at_least`."""
    saved_lower: float | None
    """Two-sided interval; None with one seed at either point, or if `at_least`."""
    saved_upper: float | None
    at_least: bool
    """Whether a seed of the other point did not reach the target."""
    seeds: int
    """Seeds of the point with fewer."""
    statement: str
