"""When a section has enough repeats: every series is decided at a look. Pure.

Every repeat from the third on is a look. What it costs to look so often is counted in each (`verdict.rule.looks`), so that stopping at the
first success keeps the promised error (docs/verdicts.md).
"""

from collections.abc import Sequence

from envknee.ask.question import Question
from envknee.record.schema import Record
from envknee.study.model import Decide
from envknee.study.sweep import UntilDecided
from envknee.verdict.measurements import measurements_of
from envknee.verdict.rule.schedule import EVERY_REPEAT, LEAST_REPEATS


def decided_at(records: Sequence[Record], question: Question, rule: UntilDecided) -> int | None:
    """Return the first look at which every series was decided, or None."""
    from envknee.verdict import learning, throughput  # SciPy, which most requests do without

    decide = Decide(delta=rule.delta, delta_learning=rule.delta, confidence=rule.confidence)
    analyse = throughput.analyse if question.slot.kind == "throughput" else learning.analyse
    for look in range(LEAST_REPEATS, _whole_repeats(records, question) + 1):
        before = [record for record in records if record.request.repeat < look]
        limits = analyse(measurements_of(before), decide, EVERY_REPEAT)
        if all(limit.state != "undecided" for limit in limits):
            return look
    return None


def _whole_repeats(records: Sequence[Record], question: Question) -> int:
    """Return how many of the first repeats have a record of each trial that was asked for."""
    measured = {record.request.number for record in records}
    begun = 1 + max((asked.repeat for asked in question.asked), default=-1)
    return min((asked.repeat for asked in question.asked if asked.number not in measured), default=begun)
