"""Learning limit: from which num_envs on does doubling save less than delta of the seconds to the target reward?

Input: records of learning trials. Output: one `LearningLimit` per (arm, horizon, batch_size). Pure.

The cost of a point is the interquartile mean over its seeds (`learning_cost`). Doublings are decided by a log-normal model with one
spread for all num_envs, in which a seed that spent its budget is censored (`rule.censored`), and one that became NaN or diverged is
censored at its whole budget. A point that ran out of memory has no cost. If only some of its seeds did, it comes behind all others.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from envknee.record.schema import Record
from envknee.study.model import Decide
from envknee.verdict.learning_cost import LEAST_SEEDS, Seeds, cost, frames_of, gpu_seconds_of, seconds_of
from envknee.verdict.rule import censored, doublings, union
from envknee.verdict.schema.learning import BestPoint, LearningLimit, LearningPoint
from envknee.verdict.series import ONE_GPU, Ranks, Series, by_series
from envknee.verdict.words.learning import learning_notes, learning_statement

NO_SEEDS = Seeds(())


def analyse(records: Sequence[Record], settings: Decide) -> list[LearningLimit]:
    """Return the learning limit of every series among `records`."""
    return [_limit(series, by_size, settings) for series, by_size in by_series(records, "learning").items()]


def best_of(limits: Sequence[LearningLimit]) -> BestPoint | None:
    """Return the best point by `BestPoint.order`, or None."""
    return min((limit.best for limit in limits if limit.best), key=lambda best: best.order, default=None)


def _limit(series: Series, by_size: Mapping[int, Sequence[Record]], settings: Decide) -> LearningLimit:
    points: list[LearningPoint] = []
    seconds: dict[int, Seeds] = {}
    for num_envs, records in by_size.items():
        own, statuses = seconds_of(records), Counter[str](record.outcome.status for record in records)
        also = gpu_seconds_of(records), frames_of(records)
        points.append(_point(num_envs, own, statuses, settings.confidence, *also))
        if own.count:
            seconds[num_envs] = own
    first = next(iter(by_size.values()))[0].request
    limit = limit_of(
        series, points, seconds, settings,
        target_reward=first.target_reward, budget_s=first.budget_s, ranks=Ranks.of(first),
    )  # fmt: skip
    if first.scaled_from is None:
        return limit
    statement = f"{limit.statement}, under rule {first.scaled_from}"
    return limit.model_copy(update={"scaled_from": first.scaled_from, "statement": statement})


def decision_of(seeds: Mapping[int, Seeds], delta: float, confidence: float) -> union.Decision:
    """Decide from the costs of seeds by num_envs, at least one each. Works without records."""
    # A saving of delta is a gain of ln(1 / (1 - delta)).
    contrasts = censored.contrasts({size: (costs.reached, costs.censored) for size, costs in seeds.items()})
    return union.decide(contrasts, seeds, -math.log1p(-delta), confidence, LEAST_SEEDS)


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
    """Return the limit of one series from plain numbers. Works without records.

    `points` ascend by num_envs, and `seconds` has the seconds to the target of those with seeds. `budget_s` is None unless all runs
    had the same.
    """
    delta, confidence = settings.delta_learning, settings.confidence
    decision = decision_of(seconds, delta, confidence)
    limit = LearningLimit(
        **LearningLimit.fields(series, decision, seconds, delta, confidence, lambda log: -doublings.expm1(-log)),
        target_reward=target_reward,
        budget_s=budget_s,
        points=list(points),
        best=_best(series, points),
        notes=learning_notes(points, decision, settings),
        statement="",
    )
    return limit.model_copy(update={"statement": learning_statement(limit, ranks)})


def point_of(num_envs: int, seconds: Seeds, confidence: float, oom: int = 0) -> LearningPoint:
    """Return a point from the seconds of its seeds, and the number that ran out of memory."""
    statuses = Counter(target_reached=len(seconds.reached), timeout=len(seconds.censored), oom=oom)
    return _point(num_envs, seconds, statuses, confidence)


def _point(
    num_envs: int,
    seconds: Seeds,
    statuses: Counter[str],
    confidence: float,
    gpu_seconds: Seeds = NO_SEEDS,
    frames: Seeds = NO_SEEDS,
) -> LearningPoint:
    return LearningPoint(
        num_envs=num_envs,
        seeds=seconds.count,
        reached=len(seconds.reached),
        share_reached=len(seconds.reached) / statuses.total() if seconds.count else None,
        timeout=statuses["timeout"],
        failed=statuses["nan"] + statuses["diverged"],
        oom=statuses["oom"],
        refused=statuses["refused"],
        seconds_to_target=cost(seconds, confidence) if seconds.count else None,
        expected_running_time_s=seconds.expected,
        gpu_seconds_to_target=cost(gpu_seconds, confidence) if gpu_seconds.count else None,
        frames_to_target=cost(frames, confidence) if frames.count else None,
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
