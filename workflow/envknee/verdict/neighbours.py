"""What trials side by side on one machine cost each other, from trials of one size alone. Pure.

Input: records of a search of which several trials ran at once, and records of one of its sizes alone. Output: a `NeighboursEffect`.

Each GPU has one trial, but trials share cores, memory and power. FPS are compared on the GPUs that have both kinds of trials.
"""

import math
from collections.abc import Sequence

from envknee.record.schema import Record
from envknee.verdict.rule.contrasts import of_levels
from envknee.verdict.rule.doublings import Level, interval
from envknee.verdict.schema.neighbours import NeighboursEffect
from envknee.verdict.throughput import measured_fps

CONFIDENCE = 0.95

LEAST = 2
"""Fewest trials of either kind: one shows no noise."""


def effect(searched: Sequence[Record], alone: Sequence[Record]) -> NeighboursEffect | None:
    """Return what other trials at the same time cost, of the size that ran `alone`.

    None with fewer than two trials of either kind, or where no trial ran beside another one.
    """
    alone = [record for record in alone if measured_fps([record])]
    sizes = {record.request.num_envs for record in alone}
    beside = [
        record
        for record in searched
        if record.request.num_envs in sizes and measured_fps([record]) and at_once(record, searched)
    ]
    here = {_devices(record) for record in alone}
    of_same = [record for record in beside if _devices(record) in here]
    is_same = len(of_same) >= LEAST and len(here) == 1
    beside = of_same if is_same else beside
    if len(sizes) != 1 or min(len(alone), len(beside)) < LEAST:
        return None
    (num_envs,) = sizes
    levels = [Level.of(measured_fps(group)) for group in (alone, beside)]
    change = of_levels(num_envs, *levels)
    lower, upper = interval(change.log_gain, change.variance, change.degrees, CONFIDENCE)
    assert lower is not None and upper is not None, "two trials of each kind have a variance"
    return NeighboursEffect(
        num_envs=num_envs,
        fps_alone=math.exp(levels[0].log_value),
        alone=len(alone),
        most=max(at_once(record, searched) for record in beside),
        ratio=math.exp(change.log_gain),
        ratio_lower=lower,
        ratio_upper=upper,
        same_gpus=len(next(iter(here)) - {None}) if is_same else 0,
    )


def at_once(record: Record, others: Sequence[Record]) -> int:
    """Return how many other trials ran during a trial on its machine, of those that ran in its middle."""
    middle_s = record.outcome.started_unix_s + record.outcome.total_s / 2
    return sum(
        other.request.number != record.request.number
        and _host(other) == _host(record)
        and other.outcome.status not in ("skipped", "refused")
        and other.outcome.started_unix_s <= middle_s <= other.outcome.ended_unix_s
        for other in others
    )


def _devices(record: Record) -> frozenset[str | None]:
    return frozenset(gpu.uuid for gpu in record.outcome.gpus)


def _host(record: Record) -> str | None:
    environment = record.outcome.environment
    return environment.host if environment else None
