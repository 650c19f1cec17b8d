"""The history of several versions in words. Pure."""

from envknee.verdict.schema.history import ChangePoint, History, Lost, MachineGate, MachineHistory, MeasureHistory
from envknee.words.compare import MEASURES, QUANTITIES, bound_line, difference_line, place_words
from envknee.words.numbers import counted, span

MOST_DIFFERENCES = 6
"""More differences between two versions are counted, not listed."""


def heading(history: History) -> str:
    """Return the first line."""
    return f"{counted(len(history.versions), 'version')} of {history.task}"


def machine_line(machine: MachineHistory) -> str:
    """Return the hardware, and what was measured on it."""
    return f"{machine.machine}: {counted(len(machine.versions), 'version')}, {counted(len(machine.points), 'point')} in common"


def columns(machine: MachineHistory) -> list[str]:
    """Return the headings of a machine's table."""
    return ["version", "repeats", *(MEASURES[own.measure] for own in machine.measures)]


def rows(machine: MachineHistory) -> list[list[str]]:
    """Return a row for each version: its measures in parts of the first version's. A change is marked where it begins."""
    found = []
    for place, version in enumerate(machine.versions):
        levels = [own.levels[place] for own in machine.measures]
        changed = [version in [step.after for step in own.changes] for own in machine.measures]
        cells = [f"{'> ' if mark else ''}{level.ratio:.3f}" for level, mark in zip(levels, changed, strict=True)]
        found.append([version, str(max((len(level.repeats) for level in levels), default=0)), *cells])
    return found


def caption(machine: MachineHistory) -> str:
    """Return the line below a machine's table."""
    return f"in parts of {machine.versions[0]}, over points in common; >: a change is shown"


def change_lines(step: ChangePoint) -> list[str]:
    """Return a change with its interval, and what differs between the two versions."""
    said = f"{step.change:>6}  {_step_words(step)}, p = {step.p_value:.4f}"
    listed = [f"        {difference_line(difference)}" for difference in step.differs[:MOST_DIFFERENCES]]
    more = len(step.differs) - MOST_DIFFERENCES
    return [said, *listed, *([f"        and {counted(more, 'difference')} more"] if more > 0 else [])]


def _step_words(step: ChangePoint) -> str:
    """Return `v1 → v2: peak memory +42.0% (+41.0% to +43.1%)`."""
    return f"{step.before} → {step.after}: {QUANTITIES[step.measure]} {_percent(step)}"


def _percent(step: ChangePoint) -> str:
    within = span(step.lower, step.upper, lambda end: f"{end - 1.0:+.1%}")
    return f"{step.ratio - 1.0:+.1%} ({within})" if within else f"{step.ratio - 1.0:+.1%}"


def measure_lines(own: MeasureHistory) -> list[str]:
    """Return the changes of a measure, or that none is shown, and whether one could be."""
    if own.changes:
        return [line for step in own.changes for line in change_lines(step)]
    if own.least_p > own.level:
        return [
            f"{MEASURES[own.measure]}: so few repeats cannot show a change (p is {own.least_p:.3f} at least, and {own.level:.3f} is"
            " needed). Measure 5 of each version"
        ]
    return [f"{MEASURES[own.measure]}: no change is shown"]


def error_line(history: History) -> str:
    """Return the error of all changes together."""
    error = 1.0 - history.confidence
    return f"If nothing changed, at most {error:.0%} of such histories show any change. Intervals are {history.confidence:.0%}, each alone."


def finding(history: History) -> str:
    """Return the changes in one sentence without its full stop."""
    steps = [step for machine in history.machines for own in machine.measures for step in own.changes]
    if not steps:
        return f"No change is shown over {counted(len(history.versions), 'version')}"
    said = [f"{QUANTITIES[step.measure]} {step.ratio - 1.0:+.1%} with {step.after}" for step in steps]
    return "; ".join([said[0][:1].upper() + said[0][1:], *said[1:]])


def gate_lines(history: History) -> list[str]:
    """Return the gate's answer, and why."""
    gate = history.gate
    assert gate is not None
    if not gate.machines:
        return ["inconclusive: no machine ran both the last versions and those before"]
    if gate.answer == "fail":
        return [f"REGRESSION {line}" for machine in gate.machines for line in _fail_lines(machine)]
    if gate.answer == "pass":
        sides = "; ".join(_sides(machine) for machine in gate.machines)
        measures = ", ".join(
            dict.fromkeys(MEASURES[own.measure] for machine in gate.machines for own in machine.bounds)
        )
        return [f"passed: {sides}: a loss of {gate.margin:.0%} or more is excluded in {measures}"]
    unsure = [(machine, own) for machine in gate.machines for own in machine.bounds if not own.passes]
    return [f"inconclusive: {_sides(machine)}: {bound_line(own, gate.margin)}" for machine, own in unsure]


def _fail_lines(machine: MachineGate) -> list[str]:
    return [*map(_step_words, machine.losses), *(_lost_line(lost) for lost in machine.lost)]


def _lost_line(lost: Lost) -> str:
    (good, of_before), (good_last, of_last) = lost.before, lost.last
    return f"{place_words(lost.place)}: {good_last} of {of_last} trials succeed, and {good} of {of_before} did before"


def _sides(machine: MachineGate) -> str:
    return f"{', '.join(machine.last)} after {', '.join(machine.baseline)}"
