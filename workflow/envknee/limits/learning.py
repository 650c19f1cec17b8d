"""Learning limit: from which num_envs on does doubling save less than delta of the seconds to the target reward?

Input: records of learning trials. Output: one `LearningLimit` per (arm, horizon, batch_size). Pure.

The cost of a point is the interquartile mean over its seeds (Agarwal et al. 2021, "Deep Reinforcement Learning at the Edge
of the Statistical Precipice"), resampled within each point (stratified bootstrap). With three seeds a percentile bootstrap
covers 75% where it says 95%; the bootstrap's standard error of the logarithm in a Welch t interval covers 98%, so that is used.

Seeds that never reached the target are neither zero nor left out. A trial whose budget was spent is censored at its
training time; one that became NaN or diverged would never have arrived and counts as the whole budget at least. A cost with
such a seed is a lower bound. A saving from N to 2N is decided on only if every seed of N arrived: at 2N a lower bound still
errs on the safe side. Out of memory is infeasible, no cost at all; where other seeds of the point ran, it is told,
it counts among the trials that did not reach the target, and the point is not called the soonest beside others.
"""

import functools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from envknee.config import Decide
from envknee.limits import ONE_GPU, OfSeries, Ranks, Series, by_series, doublings, listed, percent
from envknee.record import Frozen, Record

LEAST_SEEDS = 3
"""With fewer seeds per point savings are shown, and none is decided on."""

RESAMPLES = 1000

METHOD = (
    "interquartile mean over seeds; stratified bootstrap (1,000 resamples) for its standard error, Welch t on its logarithm;"
    " threshold: smallest tested num_envs whose doubling is shown to save less than delta, Holm-corrected over all doublings"
)


class Cost(Frozen):
    """What reaching the target costs, as an interquartile mean over seeds."""

    value: float
    lower_bound: bool
    """True where a seed that did not reach the target takes part: the real cost is larger."""
    interval_lower: float | None
    """Two-sided interval; None with one seed, or where `value` is a lower bound."""
    interval_upper: float | None
    seeds: int


class LearningPoint(Frozen):
    """Learning at one num_envs."""

    num_envs: int
    seeds: int
    """Trials that ran, whether they reached the target or not."""
    reached: int
    share_reached: float | None
    """Of all trials of the point, those without the memory to run among them; None where none ran."""
    timeout: int
    """Censored: the budget was spent first."""
    failed: int
    """Became NaN or diverged."""
    oom: int
    refused: int
    seconds_to_target: Cost | None
    """Wall seconds of training; None where no trial ran."""
    gpu_seconds_to_target: Cost | None
    """Wall seconds times the GPUs that train together; None on a CPU."""
    frames_to_target: Cost | None

    @property
    def without_memory(self) -> int:
        """Trials that ran out of memory or were refused beside others that ran; 0 where none ran: that is infeasible."""
        return self.oom + self.refused if self.seeds else 0

    @property
    def trials(self) -> int:
        """Trials that could have reached the target: those that ran, and those without memory beside them."""
        return self.seeds + self.without_memory


class Saving(Frozen):
    """What doubling saves: 0.25 stands for 25% fewer seconds to the target with twice the environments."""

    num_envs: int
    doubled: int
    seeds: int
    """Of that end which has fewer."""
    saving: float | None
    """None where seeds of both ends did not reach the target."""
    bound: Literal["exact", "at most", "at least", "unknown"]
    """Which kind of number `saving` is, given the seeds that did not reach the target."""
    saving_lower: float | None
    """Two-sided interval of this doubling alone, where it is known."""
    saving_upper: float | None
    saving_upper_one_sided: float | None
    p_value: float | None
    p_holm: float | None
    """Of a saving of at least delta, corrected for the number of doublings; None where this doubling decides nothing."""
    shown_below_delta: bool


class BestPoint(Frozen):
    """The measured point with the fewest seconds to the target."""

    num_envs: int
    horizon: int
    batch_size: int | None
    seconds_to_target: Cost
    """Of the trials that ran."""
    share_reached: float
    """Of all trials of the point."""
    without_memory: int = 0
    """Trials there that ran out of memory or were refused. Such a point is named only where there is no other."""

    @property
    def order(self) -> tuple[bool, float]:
        """What sorts points, the one to name first."""
        return self.without_memory > 0, self.seconds_to_target.value

    @property
    def caveat(self) -> str:
        """Return what must stand behind the seconds; nothing where every trial of the point ran."""
        trials = self.seconds_to_target.seeds + self.without_memory
        return (
            f" (though {self.without_memory} of {trials} trials there ran out of memory or were refused)"
            if self.without_memory
            else ""
        )


class LearningLimit(OfSeries):
    """The learning limit of one series."""

    target_reward: float | None
    budget_s: float | None
    delta: float
    confidence: float
    state: Literal["reached", "not reached", "too few seeds", "no data"]
    threshold_num_envs: int | None
    threshold_lowest: int | None
    threshold_highest: int | None
    """None: the measurements set no upper end."""
    not_reached_by: int | None
    resumes_at: list[int]
    points: list[LearningPoint]
    savings: list[Saving]
    best: BestPoint | None
    """None where no point has a cost free of seeds that did not reach the target."""
    method: str
    notes: list[str]
    statement: str


@dataclass(frozen=True)
class Seeds:
    """What the seeds of one point cost, in any unit above 0."""

    reached: tuple[float, ...]
    censored: tuple[float, ...] = ()
    """Lower bounds of those that did not reach the target."""

    @property
    def values(self) -> NDArray[np.float64]:
        """Every seed's cost or lower bound, ascending, shape (seeds,)."""
        return np.sort(np.array(self.reached + self.censored))


def analyse(records: Sequence[Record], settings: Decide) -> list[LearningLimit]:
    """Return the learning limit of every series among `records`."""
    return [_limit(series, by_size, settings) for series, by_size in by_series(records, "learning").items()]


def best_of(limits: Sequence[LearningLimit]) -> BestPoint | None:
    """Return the point with the fewest seconds to the target, or None when none is known.

    One where some trials had no memory to run comes behind all others, however soon the rest of them got there.
    """
    return min((limit.best for limit in limits if limit.best), key=lambda best: best.order, default=None)


def threshold(seeds: Mapping[int, Seeds], delta: float, confidence: float) -> doublings.Decision:
    """Decide from the costs of seeds by num_envs: the statistics of this module without its records.

    Args:
        seeds: num_envs -> costs; those without any seed are left out by the caller
        delta: a doubling that saves less has stopped paying
        confidence: of each interval, and of the decision as a whole
    """
    # A cost c counts as ln(1/c), of which more is better; a saving of delta is then a gain of ln(1 / (1 - delta)).
    levels = [level_of(num_envs, costs) for num_envs, costs in seeds.items()]
    return doublings.decide(levels, -math.log1p(-delta), confidence, LEAST_SEEDS)


def interquartile_mean(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean of the middle half along the last axis.

    A value astride a quartile counts with the part of it inside, so that three seeds have an interquartile mean too;
    where the number of values is a multiple of 4 this is `scipy.stats.trim_mean(values, 0.25)`, the published definition.

    Args:
        values: shape (..., seeds)

    Returns:
        shape (...)
    """
    return np.sort(values, axis=-1) @ _middle_half(values.shape[-1])


@functools.cache
def _middle_half(seeds: int) -> NDArray[np.float64]:
    """Return the weight of each of `seeds` ascending values in their interquartile mean, shape (seeds,)."""
    edges = np.clip(np.arange(seeds + 1) / seeds, 0.25, 0.75)
    return np.diff(edges) * 2.0


@functools.cache
def _resamples(seeds: int) -> NDArray[np.int64]:
    """Return which seeds each resample holds, ascending, shape (RESAMPLES, seeds).

    The same for the same number of seeds, so that the same records give the same verdict, byte for byte.
    """
    return np.sort(np.random.default_rng(seeds).integers(0, seeds, size=(RESAMPLES, seeds)), axis=1)


def level_of(num_envs: int, costs: Seeds) -> doublings.Level:
    """Return the interquartile mean of a point's seeds as a logarithm of which more is better, with its variance."""
    values = costs.values
    log_value = -math.log(float(interquartile_mean(values)))
    variance = None
    if (seeds := len(values)) > 1:
        # `values` ascend and so do the places drawn: a resample needs no sorting.
        means = values[_resamples(seeds)] @ _middle_half(seeds)
        # n / (n - 1) undoes the shrinkage of the bootstrap's variance, which matters with few seeds.
        variance = float(np.log(means).var()) * seeds / (seeds - 1)
    return doublings.Level(num_envs, log_value, variance, seeds, at_most=bool(costs.censored))


def cost(costs: Seeds, confidence: float) -> Cost:
    """Return the interquartile mean of a point's seeds with its interval."""
    level = level_of(0, costs)
    value = float(interquartile_mean(costs.values))
    lower = upper = None
    if level.variance is not None and not level.at_most:
        width = doublings.half_width(level.variance, level.repeats - 1, (1.0 - confidence) / 2)
        lower, upper = value * math.exp(-width), value * math.exp(min(width, 600.0))
    return Cost(value=value, lower_bound=level.at_most, interval_lower=lower, interval_upper=upper, seeds=level.repeats)


def _limit(series: Series, by_size: Mapping[int, Sequence[Record]], settings: Decide) -> LearningLimit:
    points = [_point(num_envs, records, settings.confidence) for num_envs, records in by_size.items()]
    seconds = {point.num_envs: seconds_of(by_size[point.num_envs]) for point in points if point.seeds}
    first = next(iter(by_size.values()))[0].request
    return limit_of(
        series, points, seconds, settings,
        target_reward=first.target_reward, budget_s=first.budget_s, ranks=Ranks.of(first),
    )  # fmt: skip


def limit_of(
    series: Series,
    points: Sequence[LearningPoint],
    seconds: Mapping[int, Seeds],
    settings: Decide,
    *,
    target_reward: float | None = None,
    budget_s: float | None = None,
    ranks: Ranks = ONE_GPU,
) -> LearningLimit:
    """Return the limit of one series from plain numbers: what `analyse` does without its records.

    Args:
        series: what they were measured at
        points: what is to be reported of each num_envs, ascending
        seconds: num_envs -> seconds to the target of its seeds, of the points where any ran
        settings: delta and confidence
        target_reward: that was to be reached, where it is known
        budget_s: after which a run ended, where it is known and the same for all
        ranks: that trained together; num_envs are those of each
    """
    ran = [point for point in points if point.seeds]
    decision = threshold(seconds, settings.delta, settings.confidence)
    if not ran:
        state = "no data"
    elif decision.threshold is not None:
        state = "reached"
    elif max(point.seeds for point in ran) < LEAST_SEEDS:
        state = "too few seeds"
    else:
        state = "not reached"
    return LearningLimit(
        arm=series.arm,
        horizon=series.horizon,
        batch_size=series.batch_size,
        target_reward=target_reward,
        budget_s=budget_s,
        delta=settings.delta,
        confidence=settings.confidence,
        state=state,
        threshold_num_envs=decision.threshold,
        threshold_lowest=decision.lowest,
        threshold_highest=decision.highest,
        not_reached_by=ran[-1].num_envs if state == "not reached" else None,
        resumes_at=list(decision.resumes_at),
        points=list(points),
        savings=[_saving(doubling) for doubling in decision.doublings],
        best=_best(series, ran),
        method=METHOD,
        notes=_notes(points, decision, settings),
        statement=_statement(ran, state, decision, ranks, settings),
    )


def _point(num_envs: int, records: Sequence[Record], confidence: float) -> LearningPoint:
    statuses = Counter(record.outcome.status for record in records)
    seconds = seconds_of(records)
    ran = len(seconds.values)
    on_gpu = [record for record in that_ran(records) if gpus_of(record)]
    gpu_seconds = _seeds(
        on_gpu, [record.gpu_seconds_to_target for record in on_gpu], [gpus_of(r) * _floor_s(r) for r in on_gpu]
    )
    frames = _seeds(
        that_ran(records),
        [record.frames_to_target for record in that_ran(records)],
        [max(r.frames, 1) for r in that_ran(records)],
    )
    return LearningPoint(
        num_envs=num_envs,
        seeds=ran,
        reached=len(seconds.reached),
        share_reached=len(seconds.reached) / len(records) if ran else None,
        timeout=statuses["timeout"],
        failed=statuses["nan"] + statuses["diverged"],
        oom=statuses["oom"],
        refused=statuses["refused"],
        seconds_to_target=cost(seconds, confidence) if ran else None,
        gpu_seconds_to_target=cost(gpu_seconds, confidence) if on_gpu else None,
        frames_to_target=cost(frames, confidence) if ran else None,
    )


def point_of(num_envs: int, seconds: Seeds, confidence: float, oom: int = 0) -> LearningPoint:
    """Return a point of plain numbers: nothing is known but the seconds of its seeds, and how many ran out of memory."""
    ran = len(seconds.values)
    return LearningPoint(
        num_envs=num_envs,
        seeds=ran,
        reached=len(seconds.reached),
        share_reached=len(seconds.reached) / (ran + oom) if ran else None,
        timeout=len(seconds.censored),
        failed=0,
        oom=oom,
        refused=0,
        seconds_to_target=cost(seconds, confidence) if ran else None,
        gpu_seconds_to_target=None,
        frames_to_target=None,
    )


def that_ran(records: Sequence[Record]) -> list[Record]:
    """Return the trials that tell something about learning: those that had the memory to try."""
    return [record for record in records if record.outcome.status not in ("oom", "refused")]


def seconds_of(records: Sequence[Record]) -> Seeds:
    """Return the wall seconds to the target of the trials that ran, with lower bounds where it was not reached."""
    ran = that_ran(records)
    return _seeds(ran, [record.seconds_to_target for record in ran], [_floor_s(record) for record in ran])


def _seeds(records: Sequence[Record], costs: Sequence[float | None], floors: Sequence[float]) -> Seeds:
    """Split the costs of `records` into those of seeds that reached the target and lower bounds for the others."""
    reached = tuple(float(cost) for cost in costs if cost is not None)
    censored = tuple(float(floor) for cost, floor in zip(costs, floors, strict=True) if cost is None)
    assert len(reached) + len(censored) == len(records)
    return Seeds(reached, censored)


def _floor_s(record: Record) -> float:
    """Return the least number of seconds that a seed which did not reach the target would have taken."""
    if record.outcome.status == "timeout":
        return max(record.train_s, 1e-9)
    # NaN or diverged: it never would have. The whole budget is the least that a reader must expect to pay.
    return max(record.train_s, record.request.budget_s or 0.0, 1e-9)


def gpus_of(record: Record) -> int:
    """Return how many GPUs a trial held; 0 on a CPU."""
    environment = record.outcome.environment
    return record.devices if environment is not None and environment.device.type == "cuda" else 0


def _saving(doubling: doublings.Doubling) -> Saving:
    def share(log_gain: float | None) -> float | None:
        return None if log_gain is None else -doublings.expm1(-log_gain)

    bounds: dict[tuple[bool, bool], Literal["exact", "at most", "at least", "unknown"]] = {
        (False, False): "exact",
        (False, True): "at most",
        (True, False): "at least",
        (True, True): "unknown",
    }
    bound = bounds[doubling.from_at_most, doubling.to_at_most]
    return Saving(
        num_envs=doubling.num_envs,
        doubled=2 * doubling.num_envs,
        seeds=doubling.repeats,
        saving=None if bound == "unknown" else share(doubling.log_gain),
        bound=bound,
        saving_lower=share(doubling.lower),
        saving_upper=share(doubling.upper),
        saving_upper_one_sided=share(doubling.upper_one_sided),
        p_value=doubling.p_value,
        p_holm=doubling.p_holm,
        shown_below_delta=doubling.shown_below,
    )


def _best(series: Series, points: Sequence[LearningPoint]) -> BestPoint | None:
    known = [
        BestPoint(
            num_envs=point.num_envs,
            horizon=series.horizon,
            batch_size=series.batch_size,
            seconds_to_target=point.seconds_to_target,
            share_reached=point.share_reached,
            without_memory=point.without_memory,
        )
        for point in points
        if point.seconds_to_target is not None and point.share_reached is not None and point.reached == point.seeds
    ]
    return min(known, key=lambda best: best.order, default=None)


def _notes(points: Sequence[LearningPoint], decision: doublings.Decision, settings: Decide) -> list[str]:
    """Return what a reader must know beside the verdict, a sentence each."""
    notes = []
    ran = [point for point in points if point.seeds]
    few = [point.num_envs for point in ran if point.seeds < LEAST_SEEDS]
    if few:
        seeds = " or ".join(str(count) for count in sorted({point.seeds for point in ran if point.seeds < LEAST_SEEDS}))
        notes.append(
            f"{seeds} seed{'' if seeds == '1' else 's'} at {listed(few)}: too few to decide ({LEAST_SEEDS} at least)"
        )
    timeout, failed = sum(point.timeout for point in ran), sum(point.failed for point in ran)
    if timeout or failed:
        parts = [f"{timeout} spent the budget first"] * bool(timeout) + [f"{failed} became NaN or diverged"] * bool(
            failed
        )
        notes.append(
            f"of {sum(point.seeds for point in ran)} trials {' and '.join(parts)}: costs with them are lower bounds,"
            " and a saving from such a point is not decided on"
        )
    if len(ran) == 1:
        notes.append(f"one point ({listed(point.num_envs for point in ran)} environments): a doubling needs two")
    elif ran and not decision.doublings:
        notes.append(
            f"no measured num_envs is twice another ({listed(point.num_envs for point in ran)}): no doubling to compare"
        )
    if decision.resumes_at:
        notes.append(
            f"not the end: doubling from {listed(decision.resumes_at)} saves more than delta ({settings.delta:.0%}) again"
        )
    notes += [
        f"{point.without_memory} of {point.trials} trials at {point.num_envs:,} environments ran out of memory or were refused:"
        " seconds there are of the others"
        for point in ran
        if point.without_memory
    ]
    infeasible = [point.num_envs for point in points if not point.seeds]
    if infeasible:
        notes.append(f"infeasible (out of memory or refused): {listed(infeasible)} environments")
    return notes


def _statement(
    ran: Sequence[LearningPoint],
    state: Literal["reached", "not reached", "too few seeds", "no data"],
    decision: doublings.Decision,
    ranks: Ranks,
    settings: Decide,
) -> str:
    if state == "no data":
        return "no data: no learning trial ran"
    share = f"{sum(point.reached for point in ran)} of {sum(point.trials for point in ran)} trials reached the target"
    if state == "too few seeds":
        most = max(point.seeds for point in ran)
        return f"{most} seed{'' if most == 1 else 's'}: too few to decide ({LEAST_SEEDS} at least); {share}"
    if not decision.doublings:
        return f"not reached by {ran[-1].num_envs:,} environments{ranks.each}, no doubling to compare; {share}"
    if state == "not reached":
        return f"not reached by {ran[-1].num_envs:,} environments{ranks.each}; {share}"
    shown = _saving(next(d for d in decision.doublings if d.num_envs == decision.threshold))
    assert shown.saving is not None and shown.saving_upper_one_sided is not None
    if shown.saving < 0:
        least = "at least " if shown.bound == "at most" else ""
        changes = f"takes {least}{percent(-shown.saving)} more seconds to target"
    else:
        most = "at most " if shown.bound == "at most" else ""
        changes = f"saves {most}{percent(shown.saving)} of the seconds to target"
    if shown.saving_upper_one_sided < 0:
        bound = f"at least {percent(-shown.saving_upper_one_sided)} more"
    else:
        bound = f"saving's upper bound {percent(shown.saving_upper_one_sided)}, less than {settings.delta:.0%}"
    return (
        f"reached at {shown.num_envs:,} environments{ranks.each}: doubling to {shown.doubled:,} {changes}"
        f" ({bound}, {shown.seeds} seeds)"
    )
