"""Whether the last versions may replace those before: the same three answers as `envknee compare` gives. Pure.

    fail           a loss is shown that begins among the last versions and exceeds the margin, or a smaller share of trials succeeds
    pass           for every measure on every machine the one-sided bound of the last versions' loss lies below the margin
    inconclusive   neither: too few repeats

The last versions are compared with those before them since the last change there: losses that were accepted earlier are no part of it.
"""

import statistics
from collections.abc import Sequence

from envknee.after.compare.gate import Estimate, bound
from envknee.after.compare.pairing import succeeded
from envknee.after.compare.ratios import Measure
from envknee.after.history.versions import OnMachine, Version
from envknee.verdict.rule import doublings
from envknee.verdict.schema.comparison import Bound, Place
from envknee.verdict.schema.history import HistoryGate, Lost, MachineGate, MeasureHistory

Repeats = Sequence[Sequence[float]]
"""Logarithms by version and repeat."""


def difference(before: Repeats, after: Repeats) -> Estimate:
    """Return the mean of ln(after / before) over repeats, with Welch's variance and Satterthwaite's degrees of freedom."""
    sides = [[value for version in side for value in version] for side in (before, after)]
    mean = statistics.fmean(sides[1]) - statistics.fmean(sides[0])
    if any(len(side) < 2 for side in sides):
        return Estimate(mean, None, 0.0)
    variances = [statistics.variance(side) / len(side) for side in sides]
    return Estimate(mean, *doublings.summed(variances, [len(side) - 1 for side in sides]))


def machine_gate(
    machine: OnMachine,
    measured: Sequence[tuple[Measure, Repeats, MeasureHistory]],
    last: Sequence[str],
    confidence: float,
    margin: float,
) -> MachineGate | None:
    """Return what the gate finds on one machine; None if it did not measure versions of both sides."""
    names = [version.name for version in machine.versions]
    first = next((place for place, name in enumerate(names) if name in last), len(names))
    if first in (0, len(names)):
        return None
    start = max(
        (
            names.index(step.after)
            for _, _, history in measured
            for step in history.changes
            if names.index(step.after) < first
        ),
        default=0,
    )
    losses = [
        step
        for _, _, history in measured
        for step in history.changes
        if names.index(step.after) >= first and step.change == "worse" and abs(step.ratio - 1.0) > margin
    ]
    return MachineGate(
        machine=machine.name,
        baseline=names[start:first],
        last=names[first:],
        bounds=[_bound(measure, repeats, start, first, confidence, margin) for measure, repeats, _ in measured],
        losses=losses,
        lost=_lost(machine.points, machine.versions[start:first], machine.versions[first:]),
    )


def _bound(measure: Measure, repeats: Repeats, start: int, first: int, confidence: float, margin: float) -> Bound:
    before, after = repeats[start:first], repeats[first:]
    fewer = min(sum(map(len, before)), sum(map(len, after)))
    log = difference(before, after)
    return bound(measure.name, log, fewer, confidence, margin, more_is_better=measure.more_is_better)


def _lost(points: Sequence[Place], before: Sequence[Version], last: Sequence[Version]) -> list[Lost]:
    """Return the points at which a smaller share of the last versions' trials succeeded."""
    found = []
    for place in points:
        (good, of_before), (good_last, of_last) = (_counted(place, versions) for versions in (before, last))
        if good_last * of_before < good * of_last:
            found.append(Lost(place=place, before=(good, of_before), last=(good_last, of_last)))
    return found


def _counted(place: Place, versions: Sequence[Version]) -> tuple[int, int]:
    records = [record for version in versions for record in version.at(place)]
    return sum(map(succeeded, records)), len(records)


def gate_of(machines: Sequence[MachineGate], margin: float) -> HistoryGate:
    """Return the answer over all machines that measured both sides."""
    if any(machine.losses or machine.lost for machine in machines):
        answer = "fail"
    elif machines and all(machine.bounds and all(own.passes for own in machine.bounds) for machine in machines):
        answer = "pass"
    else:
        answer = "inconclusive"
    return HistoryGate(answer=answer, margin=margin, machines=list(machines))
