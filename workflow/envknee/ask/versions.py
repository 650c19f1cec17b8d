"""Which version of the rules asks: the study's `ask_version`, fixed when its folder is made.

1  requests hold texts; its rules are frozen in `envknee.ask.version_1`
2  requests hold reasons with their numbers (`envknee.record.reasons`); its rules are `envknee.ask.policies` and `samplers/trials`
3  a fresh seed knows the whole search before it (`study.space`); all else as in 2

A version that requests were published with must keep its answers. To change the rules of the newest one after that, freeze them in a
module as version 1 is, raise `study.value_types.ASK_VERSION`, and add the module here.
"""

from envknee.ask import policies, samplers
from envknee.ask.question import Choice, NotRun, Question
from envknee.ask.refusals import KnownMemory
from envknee.ask.samplers import TRIAL_SAMPLERS
from envknee.base.point import Point
from envknee.record.reasons import RefusalReason


def not_run(question: Question, point: Point) -> NotRun:
    """Return why a trial at `point` is not run, by the rules of its study."""
    if question.study.ask_version == 1:
        from envknee.ask import version_1  # SciPy, which newer studies mostly do without

        return version_1.not_run(question, point)
    return policies.not_run(question, point)


def refusal(ask_version: int, memory: KnownMemory, point: Point) -> RefusalReason | str | None:
    """Return why a point cannot fit the memory, or None."""
    reason = memory.refusal(point)
    if reason is not None and ask_version == 1:
        from envknee.ask import version_1

        return version_1.text_of(reason)
    return reason


def choose(question: Question) -> Choice:
    """Return what a sampler that chooses trials answers."""
    if question.study.ask_version == 1 and question.sweep.sampler == "adaptive":
        from envknee.ask import version_1

        return version_1.choose(question)
    return samplers.load(TRIAL_SAMPLERS, question.sweep.sampler).choose(question)
