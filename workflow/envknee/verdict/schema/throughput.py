"""The throughput limit, as frozen models."""

from envknee.base.fields import newer
from envknee.record.schema import Frozen
from envknee.verdict.rule import affine
from envknee.verdict.schema.limit import Gain, SeriesLimit


class ThroughputPoint(Frozen):
    """FPS at one num_envs."""

    num_envs: int
    fps: float
    """Geometric mean of the repeats, frames per second."""
    fps_lower: float | None
    """Two-sided interval of this point alone; None with one repeat."""
    fps_upper: float | None
    fps_repeats: list[float]
    """Each repeat's median over its timed iterations."""
    failed: int
    """Repeats of this point that ran out of memory or were refused."""
    composed: int = newer(0)
    """Repeats whose FPS were put together from parts of other points' (`verdict.composed`)."""


class InfeasiblePoint(Frozen):
    """A num_envs at which no repeat fitted the memory: a result, not a gap."""

    num_envs: int
    oom: int
    refused: int


class Law(Frozen):
    """t_iter(N) = t0 + c N: seconds of an iteration with N environments per rank; FPS = ranks x N x horizon / t_iter."""

    t0_s: float
    s_per_env: float
    asymptote_fps: float | None
    """ranks x horizon / c: the limit of FPS for many environments; None if c is 0."""
    asymptote_fps_lower: float | None
    asymptote_fps_upper: float | None
    half_saturation_num_envs: float | None
    """t0 / c: the num_envs with half the asymptote; None if c is 0."""
    half_saturation_num_envs_lower: float | None
    half_saturation_num_envs_upper: float | None
    largest_relative_error: float
    used: bool
    """False if the law misses a point by more than 10%: shown, but not used."""
    num_envs: list[int]
    trials: int
    method: str = affine.METHOD


class ThroughputLimit(SeriesLimit):
    """The throughput limit of one series."""

    repeat_word = "repeat"
    method: str = (
        "t on ln FPS within machines: paired where processes measured both ends, else Welch over repeats in separate processes;"
        " threshold: smallest tested num_envs whose doubling is shown to gain less than delta, by a fixed sequence from the largest"
        " doubling down or by Holm, each at half of 1 - confidence; still pays: one-sided lower bound of the largest doubling; the"
        " threshold's interval: inverted Bonferroni band"
    )
    world_size: int = 1
    """Ranks that trained together; num_envs is per rank, FPS are of all ranks."""
    points: list[ThroughputPoint]
    infeasible: list[InfeasiblePoint]
    law: Law | None
    """None with fewer than three different num_envs: two parameters would fit anything."""

    @property
    def unsure(self) -> Gain | None:
        """The first doubling whose estimated gain is below delta, but not shown to be; None without one."""
        return next((gain for gain in self.gains if gain.gain < self.delta and not gain.shown_below_delta), None)

    @property
    def fewest_repeats(self) -> int:
        """Fewest repeats of any point; there must be a point."""
        return min(len(point.fps_repeats) for point in self.points)

    def point(self, num_envs: int) -> ThroughputPoint:
        """Return the point at `num_envs`, which must have been measured."""
        return next(point for point in self.points if point.num_envs == num_envs)
