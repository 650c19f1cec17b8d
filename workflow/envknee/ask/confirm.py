"""The confirming stage: which setting has its next fresh seed. Pure.

A model of the search chooses the settings, from the records that the stage's first request may use. All requests of the stage follow from
the same records, so that neither the fresh seeds nor the order in which they end have a say: what they show is no result of having been
chosen by them. Each round has one seed of every setting, in an order of its own.

A time limit ends a search, and never this stage. A seed that is lost with its machine is measured again, as any trial.
"""

from collections.abc import Sequence
from dataclasses import replace

from envknee.ask.question import Choice, Question
from envknee.ask.refusals import KnownMemory
from envknee.ask.settings_left import settings_left
from envknee.base.point import Point
from envknee.record.reasons import SamplerDone
from envknee.study import designs


def choose(question: Question) -> Choice:
    """Return the next confirming trial; none where fewer settings than planned fit the memory."""
    slot = question.slot
    chosen = settings_to_confirm(question)
    order = designs.shuffled(chosen, question.study.seed, "confirm", slot.arm, slot.kind, slot.repeat)
    if slot.chunk >= len(order):
        return Choice(min(question.points), slot.repeat, SamplerDone(), confirms=True)
    return Choice(order[slot.chunk], slot.repeat, None, confirms=True)


def settings_to_confirm(question: Question) -> Sequence[Point]:
    """Return the settings of an arm that have fresh seeds: the best one of each num_envs, then the next best."""
    from threadpoolctl import threadpool_limits

    from envknee.verdict.joint import selection, surface  # SciPy, which most requests do without
    from envknee.verdict.joint.observed import trials_of

    stage = question.sweep.confirm
    assert stage is not None, "only sections with `confirm`"
    known = _as_at_the_start(question)
    trials = trials_of(known.results, known.points, known.slot.kind)
    if not trials.places:
        return []
    left = settings_left(known)
    allowed = [place for place, setting in enumerate(known.points) if setting in left]
    with threadpool_limits(limits=1):  # the same arithmetic in any process
        fitted = surface.fit(known.points, trials)
    return [known.points[place] for place in selection.to_confirm(fitted, allowed, stage.settings)]


def _as_at_the_start(question: Question) -> Question:
    """Return the question with what was known to the first request of the stage."""
    slot = question.slot._replace(first_unknown=question.slot.chosen_before)
    asked = [asked for asked in question.history.asked if asked.number < slot.first_unknown]
    visible = question.history.footprints_before(slot.first_unknown)
    memory = KnownMemory.from_footprints(slot.arm, visible, question.study.arms[slot.arm])
    return replace(question, slot=slot, history=replace(question.history, asked=asked), memory=memory)
