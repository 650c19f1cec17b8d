"""The limit of one series, by frames per second or by seconds to the target, as frozen models."""

from collections.abc import Callable, Collection
from typing import Any, Literal, Self

from envknee.base.fields import newer
from envknee.record.schema import Frozen
from envknee.verdict.rule.contrasts import Contrast
from envknee.verdict.rule.schedule import LEAST_REPEATS, When
from envknee.verdict.rule.union import Decision, Tested
from envknee.verdict.series import OfSeries, Ranks, RankWord, Series


class Disagreement(Frozen):
    """Machines that gain differently from the same doubling."""

    p_value: float
    """For the hypothesis that all machines gain the same."""
    gains: list[float]
    """The gain on each machine."""

    @classmethod
    def of(cls, contrast: Contrast, share: Callable[[float], float]) -> "Disagreement | None":
        """Return how machines disagree about a doubling; None if they do not. `share` is as in `Gain.of`."""
        if not contrast.parts:
            return None
        assert contrast.disagreement is not None, "machines were compared"
        return cls(p_value=contrast.disagreement, gains=[share(part.log_gain) for part in contrast.parts])


class Gain(Frozen):
    """The gain of a doubling: 0.25 is 25% more FPS, or 25% fewer seconds to the target, with twice the environments."""

    num_envs: int
    doubled: int
    repeats: int
    """Repeats, or seeds, of the end with fewer."""
    gain: float
    gain_lower: float | None
    """Two-sided interval of this doubling alone, which holds at every look; None if unknown, as where either end has one repeat."""
    gain_upper: float | None
    gain_lower_one_sided: float | None
    gain_upper_one_sided: float | None
    p_value: float | None
    """For a gain of at least delta, over all looks, before the correction for the number of doublings."""
    p_holm: float | None
    """After the correction. The gain is shown to be below delta at (1 - confidence) / 2 or less; the fixed sequence has the other half."""
    shown_below_delta: bool
    """By Holm, or by the fixed sequence from the largest doubling down."""
    decides: bool = newer(True)
    """False if censored seeds forbid a decision: fewer than six seeds, or fewer than three that reached the target. With `loaded`: fewer
    than three calm repeats, and fewer than six in all."""
    loaded: bool = newer(False)
    """Whether others took CPU time that varied: the gain is that beside the least load."""
    of_calm: bool = newer(False)
    """With `loaded`, whether there were fewer than six repeats, so that only those beside little load tell the gain."""
    machines: int = 1
    """Machines that measured both ends, within which FPS are compared; 0: none, so that nothing is decided."""
    processes: int = newer(0)
    """Processes that measured both ends one after the other, compared in pairs."""
    contradicts: bool = newer(False)
    """Whether the newest estimate lies outside of the bounds of all looks. Then this doubling decides nothing, and has the newest ones."""
    fresh: bool = newer(False)
    """Whether gain, bounds and repeats come from confirmatory repeats only: the repeats that stop a search understate the gain."""
    disagreement: Disagreement | None = newer(None)
    """None if machines agree, or one measured. Otherwise the gain is shown to be below delta only if it is on each machine."""

    def shown(self, delta: float) -> Literal["pays", "stopped", "undecided"]:
        """Return what is shown of this doubling alone: that it gains at least delta, that it gains less, or neither."""
        if self.shown_below_delta:
            return "stopped"
        lower = self.gain_lower_one_sided
        pays = self.p_value is not None and lower is not None and min(lower, self.gain) >= delta
        return "pays" if pays else "undecided"

    @classmethod
    def of(cls, doubling: Tested, share: Callable[[float], float]) -> "Gain":
        """Return the gain of a doubling; `share` returns the share that a logarithm stands for."""
        contrast = doubling.contrast
        lower, upper, lower_one_sided, upper_one_sided = (
            None if bound is None else share(bound)
            for bound in (doubling.lower, doubling.upper, doubling.lower_one_sided, doubling.upper_one_sided)
        )
        return cls(
            num_envs=doubling.num_envs,
            doubled=2 * doubling.num_envs,
            repeats=contrast.repeats,
            gain=share(contrast.log_gain),
            gain_lower=lower,
            gain_upper=upper,
            gain_lower_one_sided=lower_one_sided,
            gain_upper_one_sided=upper_one_sided,
            p_value=doubling.p_value,
            p_holm=doubling.p_holm,
            shown_below_delta=doubling.shown_below,
            decides=contrast.decides,
            loaded=contrast.loaded,
            of_calm=contrast.of_calm,
            machines=contrast.blocks,
            processes=contrast.processes,
            contradicts=doubling.contradicts,
            fresh=doubling.fresh,
            disagreement=Disagreement.of(contrast, share),
        )


class SeriesLimit(OfSeries):
    """The size from which on doubling num_envs no longer pays, in one series."""

    world_size: int = 1
    """Ranks that trained together; num_envs is per rank, FPS are of all ranks."""
    rank_word: RankWord = "GPU"
    """The word for one rank."""
    delta: float
    confidence: float
    state: Literal["reached", "still pays", "undecided", "no data"]
    """Still pays: the largest doubling measured is shown to gain at least delta. Undecided: neither is shown."""
    threshold_num_envs: int | None
    threshold_lowest: int | None
    """The threshold's interval; None without any doubling."""
    threshold_highest: int | None
    """None: the measurements set no upper end."""
    largest_num_envs: int | None
    """The largest num_envs that was measured."""
    still_gains: float | None
    """With state "still pays": lower bound of the largest doubling's gain."""
    more_repeats: int | None
    """If undecided: more repeats (or seeds) of each point that would decide with 80% power, if the estimates are true; None: over 200,
    or another doubling is needed."""
    resumes_at: list[int]
    """Later num_envs whose measured doubling gains more than delta again."""
    gains: list[Gain]
    looks: When = newer("once")
    """After which repeats the study may be looked at: p-values, bounds and state hold for all of these looks together."""
    least_repeats: int = LEAST_REPEATS
    """Fewest repeats (or seeds) of a point with which a doubling from or to there decides anything."""

    @property
    def ranks(self) -> Ranks:
        """The ranks that trained together."""
        return Ranks(self.world_size, self.rank_word)

    @property
    def named(self) -> Gain | None:
        """The doubling from the threshold, or else the largest one; None without one."""
        at_threshold = (gain for gain in self.gains if gain.num_envs == self.threshold_num_envs)
        return next(at_threshold, self.gains[-1] if self.gains else None)

    @classmethod
    def of(
        cls,
        series: Series,
        decision: Decision,
        sizes: Collection[int],
        delta: float,
        confidence: float,
        share: Callable[[float], float],
        ranks: Ranks,
        looks: When,
        **own: Any,
    ) -> Self:
        """Return the limit that follows from a decision over the measured `sizes`; `share` is as in `Gain.of`."""
        return cls(
            **series._asdict(),
            world_size=ranks.world_size,
            rank_word=ranks.word,
            delta=delta,
            confidence=confidence,
            state=decision.state if sizes else "no data",
            threshold_num_envs=decision.threshold,
            threshold_lowest=decision.lowest,
            threshold_highest=decision.highest,
            largest_num_envs=max(sizes, default=None),
            still_gains=None if decision.still_pays is None else share(decision.still_pays),
            more_repeats=decision.more_repeats,
            resumes_at=list(decision.resumes_at),
            looks=looks,
            gains=[Gain.of(doubling, share) for doubling in decision.doublings],
            **own,
        )
