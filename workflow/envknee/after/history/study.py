"""The history of versions: levels, changes and the gate's answer, of each measure on each machine. Pure."""

import math
import statistics
from collections.abc import Sequence

from envknee.after.compare.ratios import Measure, differences
from envknee.after.compare.sides import Side
from envknee.after.history.change_points import change_points, least_p
from envknee.after.history.gate import difference, gate_of, machine_gate
from envknee.after.history.series import GATING, series_of
from envknee.after.history.versions import OnMachine, by_machine, task_of
from envknee.study.errors import UserError
from envknee.verdict.rule import doublings
from envknee.verdict.schema.history import ChangePoint, History, HistoryGate, Level, MachineHistory, MeasureHistory

OfMachine = list[tuple[Measure, list[list[float]]]]
"""The measures of a machine that all of its versions have, with the repeats of each version."""


def history_of(sides: Sequence[Side], confidence: float, margin: float, last: int | None) -> History:
    """Return the history of versions in their order; with `last`, the gate's answer for so many versions at the end.

    The error 1 - confidence is divided by the number of series: each measure on each machine.

    Raises:
        UserError: when versions cannot be compared, have no measure in common, or `last` leaves none before them.
    """
    if last is not None and not 1 <= last < len(sides):
        raise UserError(
            f"--gate {last}: expected at least 1 and fewer than the {len(sides)} versions, because those before are the baseline"
        )
    task = task_of(sides)
    machines = by_machine(sides)
    of_machines = [_measured(machine) for machine in machines]
    count = sum(map(len, of_machines))
    if not count:
        raise UserError(
            "no measure is common to all versions: in some of them no trial succeeded. `envknee summary` says why"
        )
    level = (1.0 - confidence) / count
    histories = [
        MachineHistory(
            machine=machine.name,
            versions=[version.name for version in machine.versions],
            points=machine.points,
            measures=[_measure_history(machine, *own, level, confidence) for own in measured],
        )
        for machine, measured in zip(machines, of_machines, strict=True)
    ]
    return History(
        task=task,
        versions=[side.name for side in sides],
        confidence=confidence,
        machines=histories,
        gate=None if last is None else _gate(sides, machines, of_machines, histories, last, confidence, margin),
    )


def _measured(machine: OnMachine) -> OfMachine:
    return [(measure, series) for measure in GATING if (series := series_of(machine, measure)) is not None]


def _measure_history(
    machine: OnMachine, measure: Measure, series: list[list[float]], level: float, confidence: float
) -> MeasureHistory:
    steps = change_points(series, level)
    bounds = [0, *(step.place for step in steps), len(series)]
    changes = []
    for number, step in enumerate(steps):
        log = difference(series[bounds[number] : step.place], series[step.place : bounds[number + 2]])
        lower, upper = doublings.interval(log.mean, log.variance, log.degrees, confidence)
        before, after = machine.versions[step.place - 1], machine.versions[step.place]
        changes.append(
            ChangePoint(
                measure=measure.name,
                before=before.name,
                after=after.name,
                ratio=math.exp(log.mean),
                lower=lower,
                upper=upper,
                p_value=step.p_value,
                change="better" if (log.mean > 0.0) == measure.more_is_better else "worse",
                differs=differences(before.records, after.records),
            )
        )
    first = statistics.fmean(series[0])
    levels = [
        Level(
            version=version.name,
            ratio=math.exp(statistics.fmean(repeats) - first),
            repeats=[math.exp(value - first) for value in repeats],
        )
        for version, repeats in zip(machine.versions, series, strict=True)
    ]
    return MeasureHistory(
        measure=measure.name, level=level, least_p=least_p([len(own) for own in series]), levels=levels, changes=changes
    )


def _gate(
    sides: Sequence[Side],
    machines: Sequence[OnMachine],
    of_machines: Sequence[OfMachine],
    histories: Sequence[MachineHistory],
    last: int,
    confidence: float,
    margin: float,
) -> HistoryGate:
    names = [side.name for side in sides[-last:]]
    found = []
    for machine, measured, history in zip(machines, of_machines, histories, strict=True):
        whole = [(*own, of_measure) for own, of_measure in zip(measured, history.measures, strict=True)]
        found.append(machine_gate(machine, whole, names, confidence, margin))
    return gate_of([own for own in found if own is not None], margin)
