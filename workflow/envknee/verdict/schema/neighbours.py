"""What trials side by side on one machine cost each other, as a frozen model."""

from typing import Literal

from envknee.record.schema import Frozen


class NeighboursEffect(Frozen):
    """FPS of one size beside other trials, as a multiple of those alone."""

    num_envs: int
    fps_alone: float
    alone: int
    """Trials alone."""
    most: int
    """Most trials that ran beside one of the others at the same time."""
    ratio: float
    ratio_lower: float
    """Two-sided interval of 95%."""
    ratio_upper: float
    same_gpus: int
    """GPUs of a trial, if all trials are of the same ones, so that no difference between GPUs is in the ratio; 0: on a CPU, or of several
    GPUs."""

    @property
    def state(self) -> Literal["slower", "faster", "not told apart"]:
        """Whether trials beside others are shown to differ from those alone."""
        if self.ratio_upper < 1.0:
            return "slower"
        return "faster" if self.ratio_lower > 1.0 else "not told apart"
