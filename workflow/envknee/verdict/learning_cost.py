"""The cost of learning at a point: the interquartile mean of its seeds, with its interval. Pure."""

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from envknee.record.schema import Record
from envknee.record.status import DOES_NOT_RUN
from envknee.verdict.rule import doublings
from envknee.verdict.rule.doublings import Seeds
from envknee.verdict.schema.learning import Cost

RESAMPLES = 1000


def interquartile_mean(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean of the middle half along the last axis.

    A value across a quartile counts with its inner part, so that three seeds also have an interquartile mean. For a multiple of 4
    values it equals `scipy.stats.trim_mean(values, 0.25)`, the published definition. Shape (..., seeds) becomes (...).
    """
    edges = np.clip(np.arange(values.shape[-1] + 1) / values.shape[-1], 0.25, 0.75)
    return np.sort(values, axis=-1) @ (np.diff(edges) * 2.0)


def level_of(costs: Seeds) -> doublings.Level:
    """Return the interquartile mean of a point's seeds as a logarithm of which more is better, with its variance.

    With censored seeds it is only an upper bound.
    """
    values = costs.values
    log_value = -math.log(float(interquartile_mean(values)))
    variance = None
    if (seeds := len(values)) > 1:
        # The places drawn depend on the number of seeds alone: the same records give the same verdict, byte for byte.
        drawn = np.random.default_rng(seeds).integers(0, seeds, size=(RESAMPLES, seeds))
        # n / (n - 1) undoes the shrinkage of the bootstrap's variance, which matters with few seeds.
        variance = float(np.log(interquartile_mean(values[drawn])).var()) * seeds / (seeds - 1)
    return doublings.Level(log_value, variance, seeds)


def cost(costs: Seeds, confidence: float) -> Cost:
    """Return the interquartile mean of a point's seeds with its interval."""
    value = float(interquartile_mean(costs.values))
    variance = None if costs.censored else level_of(costs).variance
    lower, upper = doublings.interval(
        0.0, variance, costs.count - 1, confidence, lambda log: value * math.exp(min(log, 600.0))
    )
    return Cost(
        value=value, lower_bound=bool(costs.censored), interval_lower=lower, interval_upper=upper, seeds=costs.count
    )


def that_ran(records: Sequence[Record]) -> list[Record]:
    """Return the trials that ran."""
    return [record for record in records if ran(record)]


def ran(record: Record) -> bool:
    """Tell whether a trial fitted the memory and had a valid simulation: only such a trial tells something about learning."""
    return record.outcome.status not in (*DOES_NOT_RUN, "invalid")


def seconds_of(records: Sequence[Record]) -> Seeds:
    """Return the wall seconds to the target of the trials that ran, or lower bounds if they did not reach it."""
    return seeds_of((record.seconds_to_target, _floor_s(record)) for record in that_ran(records))


def gpu_seconds_of(records: Sequence[Record]) -> Seeds:
    """Return the same times the number of GPUs, of the trials that held any."""
    on_gpu = [record for record in that_ran(records) if gpus_of(record)]
    return seeds_of((record.gpu_seconds_to_target, gpus_of(record) * _floor_s(record)) for record in on_gpu)


def frames_of(records: Sequence[Record]) -> Seeds:
    """Return the frames to the target of the trials that ran, or lower bounds if they did not reach it."""
    return seeds_of((record.frames_to_target, max(record.frames, 1)) for record in that_ran(records))


def seeds_of(costs_and_floors: Iterable[tuple[float | None, float]]) -> Seeds:
    """Split trials into costs of seeds that reached the target, and lower bounds of the others."""
    pairs = list(costs_and_floors)
    return Seeds(
        tuple(float(cost) for cost, _ in pairs if cost is not None),
        tuple(float(floor) for cost, floor in pairs if cost is None),
    )


def _floor_s(record: Record) -> float:
    """Return a lower bound of the seconds to the target, for a seed that did not reach it."""
    if record.outcome.status == "timeout":
        return max(record.train_s, 1e-9)
    # A seed that became NaN or diverged would never reach it; it counts with its whole budget.
    return max(record.train_s, record.request.budget_s or 0.0, 1e-9)


def gpus_of(record: Record) -> int:
    """Return how many GPUs a trial held; 0 on a CPU."""
    environment = record.outcome.environment
    return record.devices if environment is not None and environment.device.type == "cuda" else 0
