"""What a point saves on the way to the target, as a frozen model."""

from typing import Literal

from envknee.record.schema import Frozen


class Saving(Frozen):
    """What one point spends to the target beside another: 0.25 stands for a quarter fewer hours."""

    num_envs: int
    horizon: int
    batch_size: int | None
    against: Literal["largest FPS", "twice as many environments"]
    against_num_envs: int
    device: Literal["GPU", "CPU"]
    hours: float
    """Seconds to the target x GPUs / 3600."""
    against_hours: float
    """A lower bound where `at_least`."""
    saved: float
    """1 - hours / against_hours; below 0 where the other point spends less. A lower bound where `at_least`."""
    saved_lower: float | None
    """Two-sided interval; None with one seed at either point, or where `at_least`."""
    saved_upper: float | None
    at_least: bool
    """True where a seed of the other point did not reach the target."""
    seeds: int
    """Of that point which has fewer."""
    statement: str
