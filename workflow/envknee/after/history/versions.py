"""The trials of each version, by machine. What cannot be compared is refused, with the reason."""

import os.path
from collections.abc import Sequence
from dataclasses import dataclass, replace

from envknee.after.compare.pairing import order, place_of, same_machine
from envknee.after.compare.sides import Side, arms_of
from envknee.record.schema import Record
from envknee.study.errors import UserError
from envknee.verdict.hardware import hardware
from envknee.verdict.schema.comparison import Place
from envknee.words.compare import place_words, shortened


@dataclass(frozen=True)
class Version:
    """The trials of one version on one machine."""

    name: str
    records: list[Record]

    def at(self, place: Place) -> list[Record]:
        """Return the trials of a point."""
        return [record for record in self.records if place_of(record) == place]


@dataclass(frozen=True)
class OnMachine:
    """The versions that one machine measured, in order, and the points that all of them have."""

    name: str
    versions: list[Version]
    points: list[Place]


def read_versions(texts: Sequence[str]) -> list[Side]:
    """Return the arm of each version that a user names, in order.

    Raises:
        UserError: for fewer than two versions, one that is named twice or has several arms, or as `arms_of`.
    """
    if len(texts) < 2:
        raise UserError(
            f"a history takes at least two versions, and {len(texts)} was given: envknee history results/v1 results/v2"
        )
    twice = [text for text in texts if texts.count(text) > 1]
    if twice:
        raise UserError(f"{twice[0]} is named twice. Name each version once, in their order")
    sides = [_only_arm(text) for text in texts]
    names = without_common_folder([side.name for side in sides])
    return [replace(side, name=name) for side, name in zip(sides, names, strict=True)]


def without_common_folder(names: Sequence[str]) -> list[str]:
    """Return names without the folders, or the folder and its colon, that all of them begin with. Pure."""
    common = os.path.commonprefix(names)
    shared = max(common.rfind("/"), common.rfind(":")) + 1
    return [name[shared:] for name in names]


def _only_arm(text: str) -> Side:
    arms = arms_of(text)
    if len(arms) > 1:
        names = ", ".join(f"{text}:{name}" for name in arms)
        raise UserError(f"{text} has {len(arms)} arms, and a version is one of them. Name it: {names}")
    (side,) = arms.values()
    return side


def task_of(sides: Sequence[Side]) -> str:
    """Return the task that all versions measured. Pure.

    Raises:
        UserError: when there are several.
    """
    tasks = [", ".join(sorted({record.request.task_id for record in side.records})) for side in sides]
    for side, task in zip(sides, tasks, strict=True):
        if task != tasks[0]:
            raise UserError(
                f"{sides[0].name} measured {tasks[0]}, and {side.name} measured {task}: a history follows one task. Leave one out"
            )
    return tasks[0]


def by_machine(sides: Sequence[Side]) -> list[OnMachine]:
    """Return the versions of each machine that measured several. Pure.

    Raises:
        UserError: when a version shares no machine with any other, or versions of a machine share no point.
    """
    machine_of = _machines([record for side in sides for record in side.records])
    found = []
    for machine in dict.fromkeys(machine_of.values()):
        of_sides = [
            Version(side.name, [record for record in side.records if machine_of.get(id(record)) == machine])
            for side in sides
        ]
        versions = [version for version in of_sides if version.records]
        if len(versions) > 1:
            measured = [record for version in versions for record in version.records]
            name = _name(measured, len(set(machine_of.values())))
            found.append(OnMachine(name, versions, _common_points(versions)))
    compared = {version.name for machine in found for version in machine.versions}
    for side in sides:
        if side.name not in compared:
            raise UserError(_alone(side, sides))
    return found


def _machines(records: Sequence[Record]) -> dict[int, int]:
    """Return the number of each record's machine, by the record's id.

    A trial that broke before it knew where it ran counts where all others ran; if those ran on several machines, nowhere.
    """
    machines: list[list[Record]] = []
    for record in records:
        if record.outcome.environment is not None:
            same = [machine for machine in machines if any(same_machine(record, other) for other in machine)]
            others = [machine for machine in machines if not any(machine is one for one in same)]
            machines = [*others, [*(other for machine in same for other in machine), record]]
    place = {id(record): number for number, record in enumerate(records)}
    machines.sort(key=lambda machine: min(place[id(record)] for record in machine))
    if len(machines) < 2:
        return {id(record): 0 for record in records}
    return {id(record): number for number, machine in enumerate(machines) for record in machine}


def _common_points(versions: Sequence[Version]) -> list[Place]:
    of_versions = [{place_of(record) for record in version.records} for version in versions]
    common = set.intersection(*of_versions)
    if not common:
        points = "; ".join(
            f"{version.name}: {shortened([place_words(place) for place in sorted(own, key=order)])}"
            for version, own in zip(versions, of_versions, strict=True)
        )
        raise UserError(
            f"no point is common to all versions ({points}). Measure the same num_envs, horizon and batch_size in each"
        )
    return sorted(common, key=order)


def _name(records: Sequence[Record], machines: int) -> str:
    """Return the hardware; with its host where there are several machines."""
    kinds = "; ".join(hardware(records)) or "a machine that is not known"
    hosts = sorted({record.outcome.environment.host for record in records if record.outcome.environment})
    return f"{kinds}, host {', '.join(hosts)}" if machines > 1 and hosts else kinds


def _alone(side: Side, sides: Sequence[Side]) -> str:
    where = "; ".join(f"{own.name} on {_name(own.records, 2)}" for own in sides)
    return (
        f"{side.name} shares no machine with another version, and what differs may be the machines' ({where}). Measure all versions on"
        " one machine"
    )
