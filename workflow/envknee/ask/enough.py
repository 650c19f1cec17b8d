"""When a section has repeats enough: every series is decided, or its time is over. Pure.

Looks are few and fixed (`LOOKS`), so that stopping at the first success keeps the promised error (docs/verdicts.md).
"""

from collections.abc import Sequence

from envknee.ask.question import Question
from envknee.record.schema import Record
from envknee.study.model import Decide
from envknee.study.sweep import UntilDecided

LOOKS = (3, 5, 8, 13)
"""Repeats after which a section may be found decided."""


def why(question: Question) -> str | None:
    """Return why no further trial of this section is needed, or None."""
    sweep, slot = question.sweep, question.slot
    own = [
        record
        for record in question.records.values()
        if (record.request.arm, record.request.kind) == (slot.arm, slot.kind)
    ]
    if sweep.until_decided and (look := decided_at(own, question, sweep.until_decided)):
        return f"decided after {look} repeats"
    if sweep.time_limit_s is not None and slot.repeat:  # without the first repeat there is no answer at all
        measured = [record for record in own if record.outcome.status != "skipped"]
        spent_s = sum(record.outcome.total_s for record in measured)
        repeats = len({record.request.repeat for record in measured})
        if repeats and spent_s * (repeats + 1) / repeats > sweep.time_limit_s:
            return f"time_limit_s {sweep.time_limit_s:g}: {repeats} repeats took {spent_s:.0f} s, and another would take too long"
    return None


def decided_at(records: Sequence[Record], question: Question, rule: UntilDecided) -> int | None:
    """Return the first look at which every series was decided; None where none was."""
    asked: dict[int, set[int]] = {}
    for request in question.requests:
        asked.setdefault(request.repeat, set()).add(request.number)
    known = {record.request.number for record in records}
    for look in LOOKS:
        repeats = range(look)
        if not all(asked.get(repeat) and asked[repeat] <= known for repeat in repeats):
            return None
        if _is_decided([record for record in records if record.request.repeat in repeats], question, rule):
            return look
    return None


def _is_decided(records: Sequence[Record], question: Question, rule: UntilDecided) -> bool:
    from envknee.verdict import learning, throughput  # SciPy, which most requests do without

    decide = Decide(delta=rule.delta, delta_learning=rule.delta, confidence=rule.confidence)
    analyse = throughput.analyse if question.slot.kind == "throughput" else learning.analyse
    return all(limit.state != "undecided" for limit in analyse(list(records), decide))
