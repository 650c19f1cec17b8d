"""The throughput limit, as frozen models."""

from envknee.base.fields import newer
from envknee.record.schema import Frozen, Status
from envknee.verdict.rule.loads import LEAST_LOADED
from envknee.verdict.schema.limit import Gain, SeriesLimit
from envknee.verdict.series import OfPlace


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
    independent_repeats: int
    """Repeats in separate processes: several of one process count as one."""
    failed: int
    """Repeats of this point that ran out of memory, were refused, or crashed."""
    composed: int = newer(0)
    """Repeats whose FPS were put together from parts of other points' (`verdict.composed`)."""

    @property
    def is_composed(self) -> bool:
        """Whether no trial ran here: every repeat was put together from parts of other points'."""
        return self.composed == len(self.fps_repeats) > 0


class InfeasiblePoint(Frozen):
    """A num_envs at which no repeat ran, for lack of memory or because its program broke: a result, not a gap."""

    num_envs: int
    oom: int
    refused: int
    crashed: int = newer(0)

    @property
    def lacks_memory(self) -> bool:
        """Whether memory did not suffice for a repeat."""
        return self.oom + self.refused > 0


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


class CompositionTest(OfPlace):
    """A point that was both composed and measured, in the same processes."""

    num_envs: int
    processes: int


class ComposedFps(Frozen):
    """FPS put together from times at another horizon, where they were not measured (`verdict.composed`)."""

    num_envs: list[int]
    """Where there are composed FPS."""
    horizon: int
    """The horizon whose times they come from."""
    used: bool
    """Whether they count as repeats."""
    error: float | None
    """Largest difference from measured FPS of a point, as a share, the median of its tests; None without a test: then they are not used."""
    margin: float
    """What any composed FPS may be off by, as a share: added to every bound."""
    tests: list[CompositionTest]


class OtherLoad(Frozen):
    """CPU time of other processes during trials (`verdict.disturbed`)."""

    cores: float
    """Cores that other processes took during the calmest trial."""
    is_high: bool
    """Whether so many cores change what the limit holds for."""
    touched: int
    """Trials during which others took over half a core more than during the calmest."""
    trials: int
    """Trials with a known load."""
    unknown: int
    """Trials whose load was not measured. They count, as if they had been undisturbed."""
    least_repeats: int = LEAST_LOADED
    """Fewest repeats of a doubling with which all are corrected for a load that varies."""


class ThroughputLimit(SeriesLimit):
    """The throughput limit of one series."""

    points: list[ThroughputPoint]
    infeasible: list[InfeasiblePoint]
    law: Law | None
    """None with fewer than three different num_envs: two parameters would fit anything."""
    not_counted: dict[Status, int] = {}
    """Trials that neither were timed to their end nor lacked memory, by status."""
    composed: ComposedFps | None = None
    """None without composed FPS."""
    other_load: OtherLoad | None = None
    """None if the load was small, or not measured."""

    @property
    def too_few(self) -> list[int]:
        """num_envs with fewer repeats in separate processes than a decision needs."""
        return [point.num_envs for point in self.points if point.independent_repeats < self.least_repeats]

    @property
    def unpaired(self) -> list[int]:
        """Measured num_envs that are in no doubling."""
        in_doublings = {size for gain in self.gains for size in (gain.num_envs, gain.doubled)}
        return [point.num_envs for point in self.points if point.num_envs not in in_doublings]

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
