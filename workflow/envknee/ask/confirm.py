"""The confirming stage: which setting has its next fresh seed. Pure.

A model of the whole search chooses the settings. All requests of the stage follow from the records before it, whatever the window says:
the stage waits for the last trial of the search, and then all of its seeds may run side by side. Neither the fresh seeds nor the order in
which they end have a say, so that what they show is no result of having been chosen by them. Each round has one seed of every setting, in
an order of its own.

A fresh seed that does not fit the memory is a result, and the next rounds run its setting again: they do not know it.

An arm that should learn like another one (`learns_like`) has no search: that arm's environment steps and its own FPS say which settings are
good. The other arm has fresh seeds there, too, so that both can be compared.

A time limit ends a search, and never this stage. A seed that is lost with its machine is measured again, as any trial.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from envknee.ask.question import Choice, Question
from envknee.ask.refusals import KnownMemory
from envknee.ask.settings_left import settings_left
from envknee.base.point import Point
from envknee.record.reasons import SamplerDone
from envknee.study import designs

if TYPE_CHECKING:
    from envknee.verdict.joint.surface import Surface


def choose(question: Question) -> Choice:
    """Return the next confirming trial; none where fewer settings than planned fit the memory."""
    slot = question.slot
    chosen = settings_to_confirm(question)
    order = designs.shuffled(chosen, question.study.seed, "confirm", slot.arm, slot.kind, slot.repeat)
    if slot.chunk >= len(order):
        return Choice(min(question.points), slot.repeat, SamplerDone(), confirms=True)
    return Choice(order[slot.chunk], slot.repeat, None, confirms=True)


def settings_to_confirm(question: Question) -> Sequence[Point]:
    """Return the settings of an arm that have fresh seeds: its own, then those of each arm that should learn like it.

    Both arms need them there, so that their environment steps can be compared.
    """
    known = _before_the_stage(question)
    chosen = list(_chosen(known))
    for follower in known.study.followers(known.slot.arm, known.slot.kind):
        chosen += _chosen(_of_arm(known, follower))
    left = settings_left(known)
    return [setting for setting in dict.fromkeys(chosen) if setting in left]


def _chosen(known: Question) -> Sequence[Point]:
    """Return the best setting of each num_envs, then the next best, by the model of an arm's seconds or FPS."""
    from threadpoolctl import threadpool_limits

    from envknee.verdict.joint import selection  # SciPy, which most requests do without

    stage = known.sweep.confirm
    assert stage is not None, "only sections with `confirm`"
    left = _left(known)
    allowed = [place for place, setting in enumerate(known.points) if setting in left]
    with threadpool_limits(limits=1):  # the same arithmetic in any process
        fitted = _surface(known)
    if fitted is None:
        return []
    return [known.points[place] for place in selection.to_confirm(fitted, allowed, stage.settings)]


def _left(known: Question) -> set[Point]:
    """Return the settings that an arm may still try; without a search of its own, none of those whose FPS could not be measured."""
    left = settings_left(known)
    if known.study.leader(known.slot.arm, known.slot.kind) is not None:
        timed = _timed(known)
        left -= set(timed.points) - settings_left(timed)
    return left


def _timed(known: Question) -> Question:
    """Return the question about the throughput trials of the same arm."""
    return replace(known, slot=known.slot._replace(kind="throughput"))


def _surface(known: Question) -> "Surface | None":
    """Return the model of an arm: of its own search, or of the steps of the arm that it learns like and its own FPS."""
    from envknee.verdict.joint import surface
    from envknee.verdict.joint.observed import trials_of
    from envknee.verdict.joint.transfer import transferred

    leader = known.study.leader(known.slot.arm, known.slot.kind)
    if leader is not None:
        return transferred(known.points, _of_arm(known, leader).results, _timed(known).results)
    trials = trials_of(known.results, known.points, known.slot.kind)
    return surface.fit(known.points, trials) if trials.places else None


def _before_the_stage(question: Question) -> Question:
    """Return the question with the requests before the stage alone; it knows no record of a later one."""
    asked = [asked for asked in question.history.asked if asked.number < question.slot.first_unknown]
    return replace(question, history=replace(question.history, asked=asked))


def _of_arm(question: Question, arm: str) -> Question:
    """Return the same question about an arm."""
    slot = question.slot._replace(arm=arm)
    visible = question.history.footprints_before(slot.first_unknown)
    memory = KnownMemory.from_footprints(arm, visible, question.study.arms[arm])
    return replace(question, slot=slot, memory=memory)
