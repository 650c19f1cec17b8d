"""Why a trial is not run, by the rules of the newest version: policies in order, of which the first with a reason answers. Pure.

A policy takes what is known of the trial's repeat, and the trial's point. It returns a reason with its numbers, or None.
"""

from collections.abc import Callable

from envknee.ask import enough, horizons
from envknee.ask.question import NotRun, Question
from envknee.ask.repeat import Repeat
from envknee.ask.time_limit import expected_s
from envknee.base.parts import FURTHEST
from envknee.base.point import Point
from envknee.record.reasons import (
    ClearlyPays,
    Composed,
    CrashedBefore,
    Decided,
    DriftKnown,
    LargeRollout,
    Refusal,
    RefusalReason,
    ShownSlower,
    SkipReason,
    TimeSpent,
)

Policy = Callable[[Repeat, Point], SkipReason | RefusalReason | None]


def not_run(question: Question, point: Point) -> NotRun:
    """Return why a trial at `point` is not run, if a policy has a reason."""
    repeat = Repeat(question)
    for policy in POLICIES:
        reason = policy(repeat, point)
        if isinstance(reason, Refusal):
            return NotRun(refusal=reason)
        if reason is not None:
            return NotRun(skip=reason)
    return NotRun()


def was_decided(repeat: Repeat, _: Point) -> Decided | None:
    """A decision stays: a look uses the first repeats only, which later records do not change."""
    return next((asked.skip for asked in repeat.question.asked if isinstance(asked.skip, Decided)), None)


def is_decided(repeat: Repeat, _: Point) -> Decided | None:
    """Stop with `until_decided` at the first look at which every series is decided."""
    rule = repeat.question.sweep.until_decided
    look = enough.decided_at(repeat.records, repeat.question, rule) if rule else None
    return Decided(repeats=look) if look else None


def time_is_spent(repeat: Repeat, _: Point) -> TimeSpent | None:
    """Begin no repeat that would outlast `time_limit_s`.

    Earlier repeats alone say whether there is time, so that a repeat is measured whole or not at all.
    """
    question = repeat.question
    limit_s = question.sweep.time_limit_s
    if limit_s is None or not _is_limited(question):
        return None
    measured = [
        record
        for record in repeat.records
        if record.request.repeat < question.slot.repeat and record.outcome.status != "skipped"
    ]
    if not measured:
        return None
    spent_s = sum(record.outcome.total_s for record in measured)
    first = set[Point]()
    if question.composes:
        first = {other for other in question.points if not horizons.is_far(other, question.points)}
    if spent_s + expected_s(measured, repeat.clear_points | repeat.composed_points, first) <= limit_s:
        return None
    repeats = len({record.request.repeat for record in measured})
    return TimeSpent(time_limit_s=limit_s, repeats=repeats, spent_s=round(spent_s))


def drift_is_known(repeat: Repeat, _: Point) -> DriftKnown | None:
    """With a time limit, measure a block's first point again in the first repeat alone."""
    question = repeat.question
    limited = question.sweep.time_limit_s is not None and _is_limited(question)
    return DriftKnown() if limited and question.slot.again else None


def _is_limited(question: Question) -> bool:
    """Tell whether a time limit counts: the first repeat is always measured, and so are more_repeats.

    The user who asks for more_repeats has seen how long a repeat takes.
    """
    return 0 < question.slot.repeat < question.sweep.repeats


def clearly_pays(repeat: Repeat, point: Point) -> ClearlyPays | None:
    """Leave out later repeats of a point whose doublings clearly gain more than delta."""
    return ClearlyPays() if point in repeat.clear_points else None


def follows(repeat: Repeat, point: Point) -> Composed | None:
    """Leave out a point whose FPS follow from others."""
    if point not in repeat.composed_points:
        return None
    parts = repeat.parts[point]
    return Composed(
        horizon=parts.collects.horizon,
        collects_num_envs=parts.collects.num_envs,
        learns_num_envs=tuple(part.num_envs for part in parts.learns),
    )


def has_large_rollout(repeat: Repeat, point: Point) -> LargeRollout | None:
    """Leave out the largest rollouts until the memory of others is known."""
    question = repeat.question
    if question.composes and not repeat.records and horizons.is_far(point, question.points):
        return LargeRollout(times=FURTHEST)
    return None


def crashed_before(repeat: Repeat, point: Point) -> CrashedBefore | None:
    """Leave out repeats of a point whose program crashes."""
    question = repeat.question
    here = [asked.number for asked in question.asked if asked.point == point and asked.number in question.footprints]
    first = next((number for number in here if question.footprints[number].status == "crashed"), None)
    return None if first is None else CrashedBefore(num_envs=point.num_envs, trial=first)


def cannot_fit(repeat: Repeat, point: Point) -> RefusalReason | None:
    """Refuse a point that cannot fit the memory."""
    return repeat.question.memory.refusal(point)


def is_slower(repeat: Repeat, point: Point) -> ShownSlower | None:
    """With `skip_decided`, give a size that is shown slower no more seeds. It is asked last: a refusal says more."""
    question = repeat.question
    if not getattr(question.sweep, "skip_decided", False):
        return None
    from envknee.ask import economy  # SciPy, which most requests do without

    return economy.shown_slower(question.slot.arm, point, question.records.values())


POLICIES: tuple[Policy, ...] = (
    was_decided,
    is_decided,
    time_is_spent,
    drift_is_known,
    clearly_pays,
    follows,
    has_large_rollout,
    crashed_before,
    cannot_fit,
    is_slower,
)
