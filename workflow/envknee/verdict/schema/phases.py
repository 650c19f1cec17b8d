"""The time of an iteration by phase, as frozen models."""

from envknee.record.schema import Frozen, Phase
from envknee.verdict.series import OfSeries, Ranks, RankWord


class PhasePoint(Frozen):
    """An iteration's time by phase at one num_envs: geometric means over repeats, each a median over iterations."""

    num_envs: int
    repeats: int
    seconds: dict[Phase, float]
    shares: dict[Phase, float]
    """Shares of the sum of all phases."""
    share_of_total: float
    """The phases' sum over the seconds of FPS; above 1 by the time between iterations."""


class PhaseLaw(Frozen):
    """t_phase(N) = t0 + c N: seconds of an iteration spent in one phase with N environments per rank."""

    phase: Phase
    t0_s: float
    s_per_env: float
    share_of_t0: float | None
    """Share of all phases' t0; None if all are 0."""
    share_of_t0_lower: float | None
    share_of_t0_upper: float | None
    share_of_slope: float | None
    """Share of all phases' c; None if all are 0."""
    share_of_slope_lower: float | None
    share_of_slope_upper: float | None
    largest_t0_certainty: float
    """Share of bootstrap draws in which no other phase has as large a t0."""
    largest_slope_certainty: float
    largest_relative_error: float
    used: bool
    """False if the law misses a point by more than 10%: shown, but not used."""


class PhaseLaws(OfSeries):
    """The phase laws of one series, and the phase that limits it."""

    world_size: int = 1
    rank_word: RankWord = "GPU"
    points: list[PhasePoint]
    laws: list[PhaseLaw]
    """In the order of `record.Phase`; empty with fewer than three different num_envs."""
    sets_the_knee: Phase | None
    """The phase with the largest share of an added environment's time; None if the laws cannot tell."""
    few_wait_for: Phase | None
    """The phase with the largest share of an iteration's fixed time."""
    asymptote_fps: float | None
    """ranks x horizon / sum of all c: the same quantity as `Law.asymptote_fps`, from the phases."""
    trials: int
    """Timed trials with phases."""
    timed_trials: int
    """All timed trials, with phases or without."""

    @property
    def ranks(self) -> Ranks:
        """The ranks that trained together."""
        return Ranks(self.world_size, self.rank_word)

    @property
    def apart(self) -> PhasePoint:
        """The point whose phases add up worst to the time that FPS are counted with."""
        return max(self.points, key=lambda point: abs(point.share_of_total - 1.0))

    def law(self, phase: Phase) -> PhaseLaw:
        """Return the law of a phase, which must have one."""
        return next(law for law in self.laws if law.phase == phase)
