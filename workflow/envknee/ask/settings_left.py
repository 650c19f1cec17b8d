"""The settings that a search may still try. Pure."""

from envknee.ask.question import Question
from envknee.base.fields import Kind
from envknee.base.point import Point
from envknee.record.status import DOES_NOT_RUN


def settings_left(question: Question) -> set[Point]:
    """Return the settings that may fit the memory, and of which no trial ended without a cost: another one would, too."""
    known = question.footprints
    failed = {
        asked.point
        for asked in question.asked
        if asked.number in known and _tells_nothing(question.slot.kind, known[asked.number].status)
    }
    return {point for point in question.points if point not in failed and question.memory.refusal(point) is None}


def _tells_nothing(kind: Kind, status: str) -> bool:
    """Tell whether a trial that ended so has no cost, not even a lower bound."""
    if kind == "throughput":
        return status not in ("ok", "skipped")
    return status in (*DOES_NOT_RUN, "invalid")
