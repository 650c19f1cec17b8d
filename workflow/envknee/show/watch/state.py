"""What a sweep has done so far, as its live view shows it. Pure: study, requests and records in, a `State` out."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from envknee.base.fields import Kind
from envknee.decide.study import decide
from envknee.record.read import without_skipped
from envknee.record.schema import Record, Request
from envknee.record.status import BROKE, DID_NOT_FIT
from envknee.run.time_left import time_left
from envknee.study import space
from envknee.study.model import Study
from envknee.study.sweep import Sweep
from envknee.verdict.schema.study import Verdict
from envknee.words.joint import joint_statement, threshold_line
from envknee.words.progress import time_left_words
from envknee.words.statements import statement

Mark = Literal["running", "failed", "do not fit", "done", "skipped", "waiting"]
"""How far a trial is."""

MARKS: tuple[Mark, ...] = ("running", "failed", "do not fit", "done", "skipped", "waiting")

SILENT_S = 300.0
"""Seconds without a write after which no sweep seems to run. A running trial gives a sign of life every 20 seconds."""


@dataclass(frozen=True)
class Running:
    """A trial that has begun and has no record yet."""

    request: Request
    began_unix_s: float | None
    """None before its first attempt says so."""


@dataclass(frozen=True)
class Seen:
    """What lies in a study's folder at one look."""

    records: Mapping[int, Record]
    running: Sequence[Running]
    silent_s: float
    """Seconds since the newest write."""
    newest_record_s: float
    """When the newest record was written, in Unix seconds; 0 without any."""


@dataclass(frozen=True)
class Grid:
    """Trials of an arm and a kind: a row for each size, a cell for each repeat.

    A joint study has a cell for the whole search, then one for each round of fresh seeds.
    """

    arm: str
    kind: Kind
    has_several: bool
    """Whether a repeat has several trials of a size, with other horizons or batch sizes."""
    is_joint: bool
    rows: Mapping[int, Sequence[Sequence[Mark]]]
    """num_envs -> trials of each repeat; a cell without one is waiting, or is left out in a joint study's column that has ended."""
    ended: Sequence[bool]
    """Of each column of a joint study, whether all of its trials have ended."""


@dataclass(frozen=True)
class State:
    """Everything that the view shows."""

    study: str
    counts: Mapping[Mark, int]
    planned: int
    grids: Sequence[Grid]
    findings: Sequence[str]
    running: Sequence[Running]
    time_left: str
    end: str | None
    """Why nothing more is expected; None while the sweep goes on."""

    @property
    def is_whole(self) -> bool:
        """Whether every planned trial has ended."""
        return not self.counts["waiting"] and not self.counts["running"]


def verdict_of(study: Study, records: Mapping[int, Record]) -> Verdict | None:
    """Return what the records so far decide; None without any that was measured."""
    known = [records[number] for number in sorted(records)]
    return decide(known, study) if without_skipped(known) else None


def findings_of(verdict: Verdict | None) -> list[str]:
    """Return a verdict in a sentence for each arm and kind: the deciding doubling beside its cut-off."""
    said = []
    for arm in verdict.arms if verdict is not None else ():
        for joint in arm.joint:
            named = [threshold_line(joint, own) for own in joint.thresholds if own.axis == "num_envs"]
            answer = "; ".join([joint_statement(joint, arm.ranks), *named])
            said.append(f"{arm.arm}, {joint.kind}: {answer}")
        limits = [*([arm.recommended] if arm.recommended else []), *arm.learning[:1]]
        said += [f"{arm.arm}: {statement(limit)}" for limit in limits]
    return said


def state_of(study: Study, seen: Seen, findings: Sequence[str]) -> State:
    """Return the state of a sweep at one look; `findings` are those of its records."""
    slots = list(space.plan(study))
    records = seen.records
    seconds = {number: record.outcome.total_s for number, record in records.items()}
    skipped = {number for number, record in records.items() if mark_of(record) == "skipped"}
    counts: dict[Mark, int] = {mark: 0 for mark in MARKS}
    for record in records.values():
        counts[mark_of(record)] += 1
    counts["running"] = len(seen.running)
    counts["waiting"] = max(0, len(slots) - len(records) - len(seen.running))
    left = "" if len(records) >= len(slots) else time_left_words(time_left(study, slots, seconds, skipped))
    grids = [_grid(study, arm, kind, seen, slots) for kind in study.sections for arm in study.arms_of(kind)]
    end = _end(counts, seen.silent_s)
    return State(study.study, counts, len(slots), grids, findings, seen.running, left, end)


def mark_of(record: Record) -> Mark:
    """Return how a trial ended, in one of few words."""
    status = record.outcome.status
    if status == "skipped":
        return "skipped"
    if status in DID_NOT_FIT:
        return "do not fit"
    return "failed" if status in (*BROKE, "crashed") else "done"


def _end(counts: Mapping[Mark, int], silent_s: float) -> str | None:
    if not counts["waiting"] and not counts["running"]:
        return "The sweep is whole: every planned trial has ended."
    has_begun = any(count for mark, count in counts.items() if mark != "waiting")
    if silent_s >= SILENT_S and has_begun:  # before, kernels are compiled, or an image is built
        return f"Nothing has been written for {silent_s / 60.0:.0f} minutes: no sweep seems to run."
    return None


def _grid(study: Study, arm: str, kind: Kind, seen: Seen, slots: Sequence[space.Slot]) -> Grid:
    section = study.sections[kind]
    of_grid = [slot for slot in slots if (slot.arm, slot.kind) == (arm, kind)]
    marks: list[tuple[Request, Mark]] = [(record.request, mark_of(record)) for record in seen.records.values()]
    runs: Mark = "running"
    marks.extend((trial.request, runs) for trial in seen.running)
    own: list[tuple[Request, Mark]] = [
        (request, mark) for request, mark in marks if (request.arm, request.kind) == (arm, kind)
    ]
    planned = [_column(section, slot) for slot in of_grid]
    columns = 1 + max(planned + [_column(section, request) for request, _ in own], default=0)
    sizes = {*space.axes(section)[0], *(request.num_envs for request, _ in own)}
    cells: dict[int, list[list[Mark]]] = {size: [[] for _ in range(columns)] for size in sorted(sizes)}
    for request, mark in own:
        cells[request.num_envs][_column(section, request)].append(mark)
    has_several = len(space.listed_points(section)) > len(space.axes(section)[0])
    left = Counter(planned)
    left.subtract(_column(section, request) for request, mark in own if mark != "running")
    return Grid(arm, kind, has_several, section.is_joint, cells, [left[column] <= 0 for column in range(columns)])


def _column(section: Sweep, trial: Request | space.Slot) -> int:
    """Return the cell of a trial in its row: its repeat; of a joint study 0 for the search, then the rounds of fresh seeds."""
    if not section.is_joint:
        return trial.repeat
    return trial.repeat - section.first_fresh + 1 if trial.confirms else 0
