"""The values of a measure over versions: a number for each repeat. Pure.

Trials of one repeat share a process or an hour, so that they are no independent values. A repeat is one value: the mean over points of the
logarithms, each less its point's mean over versions.
"""

import math
import statistics
from collections.abc import Sequence

from envknee.after.compare.pairing import succeeded
from envknee.after.compare.ratios import MEASURES, Measure
from envknee.after.history.change_points import DECIMALS
from envknee.after.history.versions import OnMachine
from envknee.record.schema import Record
from envknee.verdict.schema.comparison import Place

GATING = tuple(measure for measure in MEASURES if measure.gates)
"""FPS, memory, and seconds to the target."""


def series_of(machine: OnMachine, measure: Measure) -> list[list[float]] | None:
    """Return the repeats of each version, as logarithms; None if some version has no value of the measure."""
    of_points = [values for place in machine.points if (values := _values(machine, measure, place)) is not None]
    if not of_points:
        return None
    centred = [_centred(values) for values in of_points]
    return [_repeats([values[version] for values in centred]) for version in range(len(machine.versions))]


def _values(machine: OnMachine, measure: Measure, place: Place) -> list[dict[int, float]] | None:
    """Return the logarithms at a point, by version and repeat; None if some version has none.

    Where a trial missed its target, the other seeds are the quick ones: such a point has no seconds.
    """
    if measure.kind not in (None, place.kind):
        return None
    every = [version.at(place) for version in machine.versions]
    if measure.kind == "learning" and not all(succeeded(record) for records in every for record in records):
        return None
    values = [_logarithms(records, measure) for records in every]
    return values if all(values) else None


def _logarithms(records: Sequence[Record], measure: Measure) -> dict[int, float]:
    values = ((record, measure.value_of(record)) for record in records if succeeded(record))
    return {record.request.repeat: math.log(value) for record, value in values if value}


def _centred(values: Sequence[dict[int, float]]) -> list[dict[int, float]]:
    """Subtract the mean over versions of their means."""
    middle = statistics.fmean(statistics.fmean(own.values()) for own in values)
    return [{repeat: value - middle for repeat, value in own.items()} for own in values]


def _repeats(of_points: Sequence[dict[int, float]]) -> list[float]:
    """Return the mean over points of each repeat that any of them has."""
    repeats = sorted({repeat for values in of_points for repeat in values})
    means = [statistics.fmean(values[repeat] for values in of_points if repeat in values) for repeat in repeats]
    return [round(mean, DECIMALS) for mean in means]
