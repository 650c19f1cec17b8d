"""Every legal point, in a shuffled order that all arms share."""

from envknee.ask.question import Question
from envknee.study import designs
from envknee.study.space import Point


def new_point(question: Question) -> Point:
    """Return the first point of the order that was not asked yet."""
    return question.new(designs.shuffled(question.points, question.study.seed, "grid", question.slot.kind))[0]
