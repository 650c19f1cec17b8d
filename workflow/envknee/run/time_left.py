"""How long a sweep still takes: a range for each kind of trial, from the trials of that kind that have ended. Pure.

The lower end leaves out trials that a study may decide not to need.
"""

from collections.abc import Collection, Mapping, Sequence

from envknee.base.fields import Kind
from envknee.study.model import Study, Sweep
from envknee.study.space import Slot
from envknee.verdict.durations import Durations, TrialsToCome
from envknee.verdict.schema.plan import KindTime


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
            for arm in study.arms_of(kind)
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
) -> TrialsToCome:
    """Return what is left of an arm's trials of one kind."""
    done = [slot for slot in slots if slot.number in seconds_by_number]
    newest = max((slot.repeat for slot in done), default=None)
    if done and all(slot.number in skipped for slot in done if slot.repeat == newest):
        return TrialsToCome(0, 0, 0, 0.0)
    left = [slot.repeat for slot in slots if slot.number not in seconds_by_number]
    return TrialsToCome.of(left, sweep.repeats, sum(seconds_by_number[slot.number] for slot in done))


def _time_of(
    kind: Kind,
    sweep: Sweep,
    arms: Sequence[TrialsToCome],
    durations: Durations | None,
    skips: bool,
    side_by_side: float,
) -> KindTime:
    trials = sum(arm.trials for arm in arms)
    if durations is None:
        return KindTime(kind=kind, trials=trials, least_s=None, most_s=None)
    sure = sum(arm.first for arm in arms) if skips or sweep.may_end_early else trials
    each_s = durations.most_s(trials) / trials if trials else 0.0
    most_s = sum(arm.most_s(each_s, sweep.time_limit_s) for arm in arms)
    least_s = min(durations.least_s(sure), most_s)
    return KindTime(kind=kind, trials=trials, least_s=least_s / side_by_side, most_s=most_s / side_by_side)
