"""How long a whole study takes and what it costs, from earlier trials of its task on this machine. Pure."""

from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

from envknee.base.fields import Kind
from envknee.record.schema import Record
from envknee.study.model import Study, Sweep
from envknee.study.space import Slot
from envknee.study.strategies import STRATEGIES
from envknee.verdict.durations import Durations, TrialsToCome
from envknee.verdict.schema.plan import KindTime, PlanTime

HOUR_S = 3600.0


class _Section(NamedTuple):
    """Seconds of the trials of one kind, one after the other."""

    kind: Kind
    trials: int
    least_s: float | None
    most_s: float | None
    limit_s: float
    side_by_side: int
    gpus: float
    """Of a trial, the mean over arms."""

    def gpu_hours(self, seconds: float | None) -> float | None:
        """Return the GPU-hours of so many seconds of trials."""
        return None if seconds is None else seconds * self.gpus / HOUR_S

    def wall_s(self, seconds: float | None) -> float | None:
        """Return how long so many seconds of trials take side by side."""
        return None if seconds is None else seconds / self.side_by_side


def expected_time(study: Study, slots: Sequence[Slot], earlier: Sequence[Record], visible_gpus: int) -> PlanTime:
    """Return the time and GPU-hours of a study, kind by kind. A kind of which fewer than two trials ran earlier has no range."""
    timed = [
        record for record in earlier if record.request.kind in study.sections and record.outcome.status != "skipped"
    ]
    sections = [
        _section(study, kind, [slot for slot in slots if slot.kind == kind], timed, visible_gpus)
        for kind in study.sections
    ]
    has_gpus = any(own.gpus for own in sections)
    return PlanTime(
        kinds=[
            KindTime(kind=own.kind, trials=own.trials, least_s=own.wall_s(own.least_s), most_s=own.wall_s(own.most_s))
            for own in sections
        ],
        earlier_trials=len(timed),
        least_s=_sum([own.wall_s(own.least_s) for own in sections]),
        most_s=_sum([own.wall_s(own.most_s) for own in sections]),
        limit_s=sum(own.limit_s / own.side_by_side for own in sections),
        gpu_hours_least=_sum([own.gpu_hours(own.least_s) for own in sections]) if has_gpus else None,
        gpu_hours_most=_sum([own.gpu_hours(own.most_s) for own in sections]) if has_gpus else None,
        gpu_hours_limit=_sum([own.gpu_hours(own.limit_s) for own in sections]) if has_gpus else None,
    )


def _section(study: Study, kind: Kind, slots: Sequence[Slot], timed: Sequence[Record], visible_gpus: int) -> _Section:
    sweep = study.sections[kind]
    durations = Durations.of([record.outcome.total_s for record in timed if record.request.kind == kind])
    least_s, most_s = None, None
    if durations is not None:
        sure = sum(slot.repeat == 0 for slot in slots) if sweep.may_end_early else len(slots)
        most_s = _most_s(sweep, slots, durations.most_s(len(slots)) / len(slots))
        least_s = min(durations.least_s(sure), most_s)
    return _Section(
        kind=kind,
        trials=len(slots),
        least_s=least_s,
        most_s=most_s,
        limit_s=_most_s(sweep, slots, sweep.limit_s),
        side_by_side=sweep.workers or study.slots,
        gpus=fmean(_gpus(study, slot.arm, visible_gpus) for slot in slots),
    )


def _most_s(sweep: Sweep, slots: Sequence[Slot], each_s: float) -> float:
    """Return the seconds of all trials at `each_s`; with `time_limit_s` an arm's later repeats end with it, but for `more_repeats`."""
    repeats_by_arm: dict[str, list[int]] = {}
    for slot in slots:
        repeats_by_arm.setdefault(slot.arm, []).append(slot.repeat)
    arms = (TrialsToCome.of(repeats, sweep.repeats, spent_s=0.0) for repeats in repeats_by_arm.values())
    return sum(arm.most_s(each_s, sweep.time_limit_s) for arm in arms)


def _gpus(study: Study, arm: str, visible_gpus: int) -> int:
    """Return the GPUs that a trial of an arm holds."""
    asked = study.arms[arm]
    auto = min(STRATEGIES[asked.strategy].gpus_of_auto, visible_gpus)
    return (auto if asked.gpus == "auto" else asked.gpus) * asked.nodes


def _sum(values: Sequence[float | None]) -> float | None:
    """Return the sum; None if a value is unknown."""
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None
