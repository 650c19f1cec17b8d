"""How long a sweep still takes: a range for each kind of trial, from the trials of that kind that have ended. Pure.

The lower end leaves out trials that a study may decide not to need.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from envknee.base.fields import Kind
from envknee.study.model import Study, Sweep
from envknee.study.space import Slot
from envknee.verdict.durations import Durations
from envknee.verdict.schema.plan import KindTime


class _ArmLeft(NamedTuple):
    """Trials of an arm that have not ended."""

    first: int
    """Of the first repeat, which is always measured."""
    repeats: int
    """Of later repeats, which a time limit may end."""
    more: int
    """Of `more_repeats`, which no time limit ends."""
    spent_s: float
    """Seconds of its trials so far."""

    @property
    def trials(self) -> int:
        return self.first + self.repeats + self.more


def time_left(
    study: Study,
    slots: Sequence[Slot],
    seconds_by_number: Mapping[int, float],
    skipped: Collection[int] = (),
    side_by_side: float | None = None,
) -> list[KindTime]:
    """Return how long the trials of each kind still take; kinds whose trials have all ended are left out.

    Args:
        study: whose sections may have a `time_limit_s`, by which repeats end
        slots: the whole plan
        seconds_by_number: duration of each finished trial
        skipped: finished trials that were not needed, which others of their kind may not be either; if a whole repeat was skipped, later
            ones are expected to be skipped, too
        side_by_side: trials that run at the same time; None: as many as the study has slots or workers
    """
    found = []
    for kind, sweep in study.sections.items():
        of_kind = [slot for slot in slots if slot.kind == kind]
        if all(slot.number in seconds_by_number for slot in of_kind):
            continue
        arms = [
            _left_of([slot for slot in of_kind if slot.arm == arm], sweep, seconds_by_number, skipped)
            for arm in study.arms
        ]
        timed = [
            seconds_by_number[slot.number]
            for slot in of_kind
            if slot.number in seconds_by_number and slot.number not in skipped
        ]
        skips = any(slot.number in skipped for slot in of_kind)
        together = side_by_side or sweep.workers or study.slots
        found.append(_time_of(kind, sweep, arms, Durations.of(timed), skips, together))
    return found


def _left_of(
    slots: Sequence[Slot], sweep: Sweep, seconds_by_number: Mapping[int, float], skipped: Collection[int]
) -> _ArmLeft:
    """Return what is left of an arm's trials of one kind."""
    done = [slot for slot in slots if slot.number in seconds_by_number]
    newest = max((slot.repeat for slot in done), default=None)
    if done and all(slot.number in skipped for slot in done if slot.repeat == newest):
        return _ArmLeft(0, 0, 0, 0.0)
    left = [slot.repeat for slot in slots if slot.number not in seconds_by_number]
    first, more = left.count(0), sum(repeat >= sweep.repeats for repeat in left)
    spent_s = sum(seconds_by_number[slot.number] for slot in done)
    return _ArmLeft(first, len(left) - first - more, more, spent_s)


def _time_of(
    kind: Kind, sweep: Sweep, arms: Sequence[_ArmLeft], durations: Durations | None, skips: bool, side_by_side: float
) -> KindTime:
    trials = sum(arm.trials for arm in arms)
    if durations is None:
        return KindTime(kind=kind, trials=trials, least_s=None, most_s=None)
    sure = sum(arm.first for arm in arms) if skips or sweep.may_end_early else trials
    most_s = durations.most_s(trials)
    if sweep.time_limit_s is not None and trials:
        each_s = most_s / trials
        most_s = sum(_within_limit_s(arm, each_s, sweep.time_limit_s) for arm in arms)
    least_s = min(durations.least_s(sure), most_s)
    return KindTime(kind=kind, trials=trials, least_s=least_s / side_by_side, most_s=most_s / side_by_side)


def _within_limit_s(arm: _ArmLeft, each_s: float, time_limit_s: float) -> float:
    """Return the most seconds of an arm whose repeats end by `time_limit_s`, at `each_s` a trial."""
    first_s = arm.first * each_s
    repeats_s = min(arm.repeats * each_s, max(0.0, time_limit_s - arm.spent_s - first_s))
    return first_s + repeats_s + arm.more * each_s
