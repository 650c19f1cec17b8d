"""Learning limit: from which num_envs on does doubling save less than delta of the seconds to the target reward?

Input: records of learning trials. Output: one `LearningLimit` per (arm, horizon, batch_size). Pure.

The cost of a point is the interquartile mean over its seeds (`learning_cost`). Doublings are decided by a log-normal model with one
spread for all num_envs, in which a seed that spent its budget is censored (`rule.censored`), and one that became NaN or diverged is
censored at its whole budget. A point that ran out of memory has no cost. If only some of its seeds did, it comes behind all others.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from envknee.record.schema import Record, ScaledFrom
from envknee.verdict.learning_cost import Seeds, cost, frames_of, gpu_seconds_of, seconds_of
from envknee.verdict.measurements import Measurements
from envknee.verdict.rule import censored, doublings, union
from envknee.verdict.schema.learning import LearningLimit, LearningPoint
from envknee.verdict.series import ONE_GPU, Ranks, Series
from envknee.verdict.settings import Settings

NO_SEEDS = Seeds(())


def analyse(measured: Measurements, settings: Settings) -> list[LearningLimit]:
    """Return the learning limit of every measured series."""
    return [_limit(series, by_size, settings) for series, by_size in measured.learning.items()]


def _limit(series: Series, by_size: Mapping[int, Sequence[Record]], settings: Settings) -> LearningLimit:
    seconds, gpu_seconds, frames = (
        {size: of(group) for size, group in by_size.items()} for of in (seconds_of, gpu_seconds_of, frames_of)
    )
    statuses = {size: Counter[str](record.outcome.status for record in group) for size, group in by_size.items()}
    first = next(iter(by_size.values()))[0].request
    return limit_of(
        series, seconds, statuses, settings,
        gpu_seconds=gpu_seconds, frames=frames, ranks=Ranks.of(first), scaled_from=first.scaled_from,
    )  # fmt: skip


def decision_of(seeds: Mapping[int, Seeds], delta: float, confidence: float) -> union.Decision:
    """Decide from the costs of seeds by num_envs, at least one each. Works without records."""
    # A saving of delta is a gain of ln(1 / (1 - delta)).
    return union.decide(censored.contrasts(seeds), seeds, -math.log1p(-delta), confidence)


def limit_of(
    series: Series,
    seconds: Mapping[int, Seeds],
    statuses: Mapping[int, Counter[str]],
    settings: Settings,
    *,
    gpu_seconds: Mapping[int, Seeds] = {},
    frames: Mapping[int, Seeds] = {},
    ranks: Ranks = ONE_GPU,
    scaled_from: ScaledFrom | None = None,
) -> LearningLimit:
    """Return the limit of one series from plain numbers. Works without records.

    `seconds` has the seconds to the target of each num_envs' seeds, and `statuses` counts how all its trials ended, by ascending
    num_envs.
    """
    delta, confidence = settings.delta_learning, settings.confidence
    measured = {size: seeds for size, seeds in seconds.items() if seeds.count}
    decision = decision_of(measured, delta, confidence)
    points = [
        _point(size, seconds.get(size, NO_SEEDS), ended, confidence, gpu_seconds.get(size, NO_SEEDS), frames.get(size, NO_SEEDS))
        for size, ended in statuses.items()
    ]  # fmt: skip
    return LearningLimit.of(
        series, decision, measured, delta, confidence, lambda log: -doublings.expm1(-log), ranks,
        scaled_from=scaled_from, points=points,
    )  # fmt: skip


def _point(
    num_envs: int, seconds: Seeds, statuses: Counter[str], confidence: float, gpu_seconds: Seeds, frames: Seeds
) -> LearningPoint:
    return LearningPoint(
        num_envs=num_envs,
        seeds=seconds.count,
        reached=len(seconds.reached),
        timeout=statuses["timeout"],
        failed=statuses["nan"] + statuses["diverged"],
        oom=statuses["oom"],
        refused=statuses["refused"],
        seconds_to_target=cost(seconds, confidence) if seconds.count else None,
        gpu_seconds_to_target=cost(gpu_seconds, confidence) if gpu_seconds.count else None,
        frames_to_target=cost(frames, confidence) if frames.count else None,
        expected_running_time_s=(sum(seconds.reached) + sum(seconds.censored)) / len(seconds.reached)
        if seconds.reached
        else None,
    )
