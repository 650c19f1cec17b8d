"""Costs of records for the joint model: seconds to the target, or seconds per frame. Pure.

A seed that spent its budget is a lower bound. One that became NaN or diverged counts as a bound at its whole budget
(`learning_cost`). A trial that did not fit the memory, or whose simulation was invalid, tells no cost.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from envknee.base.fields import Kind
from envknee.base.point import Point
from envknee.record.schema import Record
from envknee.verdict.joint.posterior import Trials
from envknee.verdict.learning_cost import seconds_of
from envknee.verdict.throughput import measured_fps


class Observed(NamedTuple):
    """The cost of one trial."""

    cost: float
    """Seconds to the target, or seconds per frame; above 0."""
    is_censored: bool
    """Whether the cost is only a lower bound."""


def observed(record: Record) -> Observed | None:
    """Return the cost of a trial; None if it tells none."""
    if record.request.kind == "throughput":
        fps = measured_fps([record])
        return Observed(1.0 / fps[0], False) if fps else None
    seconds = seconds_of([record])
    if not seconds.count:
        return None
    return Observed(float(seconds.values[0]), bool(seconds.censored))


def trials_of(records: Sequence[Record], settings: Sequence[Point], kind: Kind) -> Trials:
    """Return the trials of one kind at these settings, in the order of the records."""
    place_of = {setting: place for place, setting in enumerate(settings)}
    known = [
        (place_of[record.request.point], cost)
        for record in records
        if record.request.kind == kind and record.request.point in place_of and (cost := observed(record)) is not None
    ]
    return Trials(
        [place for place, _ in known],
        [math.log(cost.cost) for _, cost in known],
        [cost.is_censored for _, cost in known],
    )
