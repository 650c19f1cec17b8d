"""Points drawn at random without replacement, the same for all arms."""

from envknee.ask.question import Question
from envknee.study import designs, space
from envknee.study.model import Study
from envknee.study.rules import Kind
from envknee.study.space import Point


def new_point(question: Question) -> Point:
    """Return the first point of the order that was not asked yet."""
    return question.new(order(question.study, question.slot.kind))[0]


def order(study: Study, kind: Kind) -> list[Point]:
    """Return all legal points of one kind in the order in which they are asked."""
    sweep = study.sweep(kind)
    assert sweep is not None, "the plan has trials only of kinds that the study has"
    return designs.shuffled(space.legal_points(sweep, study.world_sizes), study.seed, "random", kind)
