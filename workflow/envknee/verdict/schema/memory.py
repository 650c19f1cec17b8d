"""The memory limit, as frozen models."""

from typing import Literal, get_args

from envknee.base.fields import newer
from envknee.base.point import rollout_size
from envknee.verdict.series import OfPlace, OfRanks, Series

TermName = Literal["base", "per_environment", "per_transition", "per_batch_transition"]

TERMS: tuple[TermName, ...] = get_args(TermName)

FAR_BEYOND = 4.0
"""From this multiple of the largest measured num_envs on, a prediction is called an extrapolation."""

LEAST_SIZES = 2
"""Different num_envs that the memory model needs."""


class Largest(OfPlace):
    """The largest num_envs predicted to fit some memory, with the study's margin kept free, at one horizon and batch size."""

    largest_num_envs: int | None = None
    """0 if not even one fits. None without a model, or if none of its terms grows with num_envs."""
    largest_num_envs_lower: int | None = None
    """Two-sided prediction interval for one more trial; None: open, or too few points."""
    largest_num_envs_upper: int | None = None
    extrapolation: float | None = None
    """largest_num_envs over the largest num_envs that the model was fitted to."""

    @property
    def is_far_beyond(self) -> bool:
        """Whether largest_num_envs lies far beyond the points that were measured."""
        return self.extrapolation is not None and self.extrapolation > FAR_BEYOND


class MemoryWall(Largest):
    """The largest num_envs that fits the device."""

    largest_fitted: int | None
    """Largest num_envs that fitted at this horizon and batch size, also with mini-batches in parts."""
    smallest_failed: int | None
    """Smallest num_envs that did not fit."""
    out_of_memory: list[int]
    """Every num_envs at which a trial ran out of memory; those of refused trials are not among them."""
    contradicted: bool
    """Whether a trial at or below largest_num_envs did not fit."""

    @property
    def is_measured_beyond_lower(self) -> bool:
        """Whether more environments fitted than the interval's lower end, and no trial contradicts the model."""
        if self.contradicted or self.largest_num_envs_lower is None:
            return False
        return self.largest_num_envs_lower < (self.largest_fitted or 0) <= (self.largest_num_envs or 0)


class CardPrediction(Largest):
    """The largest num_envs that fits a card of another size."""

    card: str
    memory_gb: float
    """Memory that such a card reports, in GB (1e9 bytes)."""


class GpuPeaks(OfPlace):
    """The peak memory of each GPU at one point of a foreign command that uses several: the largest of its repeats."""

    num_envs: int
    peaks_gb: list[float]
    """In the order of CUDA_VISIBLE_DEVICES. The fullest one decides the memory limit."""


Quantity = Literal["device memory used", "resident set of the process"]


class MemoryLimit(OfRanks):
    """The memory limit of one arm."""

    quantity: Quantity
    device_memory_gb: float | None
    """Memory that one rank may use: its GPU's, or its share of the host's."""
    device_kinds: int
    """Kinds of device that trials ran on. With several, device_memory_gb is the smallest one's."""
    margin: float
    """Share of the memory to keep free."""
    confidence: float
    identifiable: bool
    lacks: Literal["sizes", "points"] | None
    """What the model would need more of; None if it is identifiable."""
    sizes: int
    """Different num_envs that its trials measured."""
    points: int
    """Different (num_envs, horizon, batch size)."""
    unknowns: int
    """Terms that these points tell apart. With as many points as unknowns there are no intervals."""
    terms_gb: dict[TermName, float]
    """Parts of the memory model, in GB (1e9 bytes) of one rank: once, per environment, per transition of a rollout, per transition of a
    mini-batch. Empty if not identifiable."""
    trials: int
    """Trials that the model was fitted to."""
    horizons: list[int]
    """Their horizons."""
    keeps_replay: bool
    """Whether they keep a replay buffer, which is part of the base."""
    trials_in_parts: int
    """Trials that learned each mini-batch in parts, because whole ones did not fit. The model leaves them out."""
    unsteady: list[int] = newer([])
    """num_envs whose repeats' peaks differ by more than 10%: the larger ones count."""
    largest_error_gb: float | None
    walls: list[MemoryWall]
    cards: list[CardPrediction] = []
    """Predictions for other cards, small cards first; only from trials on a GPU whose memory grows with num_envs."""

    @property
    def smallest_failed(self) -> int | None:
        """Smallest num_envs that did not fit, at any horizon and batch size; None if all did."""
        return min((wall.smallest_failed for wall in self.walls if wall.smallest_failed is not None), default=None)

    @property
    def tightest(self) -> MemoryWall | None:
        """The wall with the fewest environments; None if no wall has a largest num_envs."""
        known = [wall for wall in self.walls if wall.largest_num_envs is not None]
        return min(known, key=lambda wall: wall.largest_num_envs or 0, default=None)

    def peak_gb(self, num_envs: float, horizon: int, batch_transitions: float) -> float | None:
        """Return the model's peak of one rank in GB, or None if the model is not identifiable.

        `batch_transitions` are the rank's, from `batch_transitions`.
        """
        if not self.identifiable:
            return None
        units = dict(zip(TERMS, (1.0, num_envs, rollout_size(1, horizon) * num_envs, batch_transitions), strict=True))
        return sum(gb * units[name] for name, gb in self.terms_gb.items())

    def wall(self, series: Series) -> MemoryWall | None:
        """Return the wall at the horizon and batch size of a series, or None."""
        return next((wall for wall in self.walls if wall.series[1:] == series[1:]), None)
