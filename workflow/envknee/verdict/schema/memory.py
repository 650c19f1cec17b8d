"""What is said of memory, as frozen models."""

from typing import Literal

from envknee.record.schema import Frozen
from envknee.study.space import rollout_size


class MemoryWall(Frozen):
    """The largest num_envs that fits at one horizon and batch size."""

    horizon: int
    batch_size: int | None
    largest_num_envs: int | None
    """None where the model has no term that grows with num_envs."""
    largest_num_envs_lower: int | None
    """Two-sided prediction interval for one more trial; None: open, or too few points for one."""
    largest_num_envs_upper: int | None
    largest_fitted: int | None
    """Largest num_envs measured to fit at this horizon and batch size, be it in parts."""
    smallest_failed: int | None
    """Smallest num_envs measured not to fit."""
    extrapolation: float | None
    """largest_num_envs over the largest num_envs that the model was fitted to."""
    contradicted: bool
    """True where a trial at or below largest_num_envs did not fit."""


class InfeasibleTrial(Frozen):
    """A point that ran out of memory, or was refused because it must."""

    kind: str
    num_envs: int
    horizon: int
    batch_size: int | None
    status: Literal["oom", "refused"]
    trials: int


class CardPrediction(Frozen):
    """The largest num_envs predicted to fit a card of another size, at one horizon and batch size."""

    card: str
    memory_gb: float
    """What such a card reports as its own, in GB (1e9 bytes)."""
    horizon: int
    batch_size: int | None
    largest_num_envs: int
    """With the study's margin kept free; 0 where not even one fits."""
    largest_num_envs_lower: int | None
    """Two-sided prediction interval, as of a `MemoryWall`."""
    largest_num_envs_upper: int | None
    extrapolation: float
    """largest_num_envs over the largest num_envs that the model was fitted to."""


class MemoryTerm(Frozen):
    """One part of the memory model."""

    name: Literal["base", "per_environment", "per_transition", "per_batch_transition"]
    gb: float
    """GB (1e9 bytes) per unit: once, per environment, per transition of a rollout, per transition of a mini-batch (each of one
    rank)."""
    gb_lower: float | None
    """Two-sided interval; None with too few points for one."""
    gb_upper: float | None


class MemoryLimit(Frozen):
    """The memory limit of one arm."""

    arm: str
    quantity: Literal["device memory used", "resident set of the process"]
    device: str | None
    device_memory_gb: float | None
    """What one rank may use: its GPU's, or its part of the host's."""
    world_size: int = 1
    """Ranks that trained together: num_envs are those of each."""
    margin: float
    """Share of it to keep free."""
    confidence: float
    identifiable: bool
    terms: list[MemoryTerm]
    trials: int
    largest_error_gb: float | None
    walls: list[MemoryWall]
    infeasible: list[InfeasibleTrial]
    cards: list[CardPrediction] = []
    """Environments for your GPU, small cards first; only from trials on a GPU whose memory grows with num_envs."""
    method: str
    notes: list[str]
    statement: str

    def peak_gb(self, num_envs: int, horizon: int, batch_transitions: float) -> float | None:
        """Return the model's peak in GB of one rank, or None when the model is not identifiable.

        Args:
            num_envs: of the rank
            horizon: environment steps
            batch_transitions: of the rank, as `batch_transitions` returns it
        """
        if not self.identifiable:
            return None
        units = {
            "base": 1.0,
            "per_environment": float(num_envs),
            "per_transition": float(rollout_size(num_envs, horizon)),
            "per_batch_transition": batch_transitions,
        }
        return sum(term.gb * units[term.name] for term in self.terms)

    def wall(self, horizon: int, batch_size: int | None) -> MemoryWall | None:
        """Return the wall at a horizon and batch size, or None when none was computed there."""
        return next((wall for wall in self.walls if (wall.horizon, wall.batch_size) == (horizon, batch_size)), None)
