"""The statistical power of throughput trials, as a frozen model."""

from typing import Literal

from envknee.record.schema import Frozen

ENOUGH = 0.8
"""Share of studies that should show a plateau."""

MOST_REPEATS = 50
"""More repeats than this are not worth counting."""

NoiseSource = Literal["this machine", "published GPU studies", "published CPU studies"]
"""Where the noise between processes was measured."""


class Power(Frozen):
    """The share of studies with a plan that would show a plateau, which gains nothing."""

    repeats: int
    least_repeats: int
    """Fewer decide nothing."""
    shown: float
    """The share that shows it: 0.8 is 80%."""
    enough_repeats: int | None
    """Repeats with which `ENOUGH` of studies would show it; None: over `MOST_REPEATS`."""
    delta: float
    cv: float
    """Coefficient of variation of FPS between processes."""
    noise: NoiseSource
    paired: bool
    """Whether a process measures both ends of the largest doubling."""
