"""Costs of records for the joint model: seconds to the target, or seconds per frame. Pure.

Seconds to the target leave out a process's first environment step. On a GPU it takes two seconds in a fresh process, which loads kernels
and captures graphs, and next to nothing in a process that has measured before. Trials of a search may share processes; fresh seeds do not.
On an H200 fresh seeds of four settings took 7.1 s where the search had seen 5.0. Without that step it is 4.9 and 4.8 (geometric means).

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

LEAST_S = 1e-3
"""A cost is above 0: its logarithm is what the model sees."""


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
    return Observed(max(float(seconds.values[0]) - first_step_s(record), LEAST_S), bool(seconds.censored))


def first_step_s(record: Record) -> float:
    """Return the seconds of a trial's first environment step, which is a part of its start; 0 if they are not known (a foreign command)."""
    return record.outcome.startup_s.first_step if record.outcome.startup_s is not None else 0.0


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
