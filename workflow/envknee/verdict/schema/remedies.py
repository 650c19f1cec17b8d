"""What an arm buys beside a baseline, as frozen models."""

from typing import Literal

from envknee.record.schema import Frozen
from envknee.verdict.schema.levers import Change


class Remedy(Frozen):
    """One arm beside the baseline."""

    arm: str
    differs_in: list[str]
    """Settings in which it is not the baseline, such as `observations: lean`; several act together."""
    same_task: bool
    """False where the environment's or agent's own settings differ: then what is learned has to be looked at, too."""
    largest_num_envs: int | None
    """That fits, by the memory model; None where that is not known."""
    fits: Change | None
    """1.0 stands for twice as many environments; None where either is not known, or on another amount of memory."""
    extrapolated: bool
    """True where the model says more than `FAR_BEYOND` times the largest num_envs measured, of either arm."""
    at_num_envs: int | None
    """Where FPS and peaks are compared; None where no num_envs was timed with both."""
    fps: Change | None
    """0.1 stands for 10% more."""
    peak_gb: float | None
    """Largest measured peak at `at_num_envs`."""
    baseline_peak_gb: float | None
    shown_at: int | None = None
    """The num_envs that fitted one of both, and at which the other ran out of memory; None where no trials show that."""
    room: Literal["more", "less", "not shown", "not measured"]
    """Whether more environments are shown to fit: by such trials, otherwise by the interval of `fits`."""
    speed: Literal["more", "less", "not shown", "not measured"]
    """Whether there are shown to be more FPS."""
    statement: str


class Remedies(Frozen):
    """What every other arm of a study buys beside its baseline."""

    baseline: str
    horizon: int
    batch_size: int | None
    device_memory_gb: float | None
    quantity: Literal["device memory used", "resident set of the process"]
    largest_num_envs: int | None
    """That fits with the baseline."""
    confidence: float
    remedies: list[Remedy]
    """Those that make most room first."""
    method: str = (
        "what fitted one and not the other, else largest num_envs by each arm's memory model, ratio by MOVER on logarithms; FPS at"
        " the largest num_envs timed with both, Welch t on ln FPS; two-sided, each remedy alone"
    )
    notes: list[str]
    statement: str
    """What to do, in sentences."""
