"""When a section has enough repeats: every series is decided, its time is over, or a point decides nothing. Pure.

The first repeat measures every point. Later repeats measure the points that decide the verdict: the ends of the largest doubling and
of each doubling that may gain less than delta. Looks are few and fixed (`LOOKS`), so that stopping at the first success keeps the
promised error (docs/verdicts.md).
"""

import itertools
import math
from collections.abc import Sequence

from envknee.ask.question import Question
from envknee.record.schema import Record
from envknee.study.model import Decide
from envknee.study.space import Point
from envknee.study.sweep import UntilDecided

LOOKS = (3, 5, 8, 13)
"""Numbers of repeats after which a section, or a size in `sampler: adaptive`, may count as decided."""

DECIDED = "decided after"


def why(question: Question, point: Point) -> str | None:
    """Return why a trial at `point` is not needed, or None."""
    sweep, slot = question.sweep, question.slot
    # A decision stays: a look uses the first repeats only, which later records do not change.
    if decided := next(
        (request.skip for request in question.requests if (request.skip or "").startswith(DECIDED)), None
    ):
        return decided
    own = [
        record
        for record in question.records.values()
        if (record.request.arm, record.request.kind) == (slot.arm, slot.kind)
    ]
    if sweep.until_decided and (look := decided_at(own, question, sweep.until_decided)):
        return f"{DECIDED} {look} repeats"
    # The first repeat is always measured, and so are more_repeats: their user has seen how long a repeat takes.
    if sweep.time_limit_s is not None and 0 < slot.repeat < sweep.repeats:
        measured = [record for record in own if record.outcome.status != "skipped"]
        spent_s = sum(record.outcome.total_s for record in measured)
        repeats = len({record.request.repeat for record in measured})
        if repeats and spent_s * (repeats + 1) / repeats > sweep.time_limit_s:
            return f"time_limit_s {sweep.time_limit_s:g}: {repeats} repeats took {spent_s:.0f} s, and another would take too long"
    if sweep.until_decided and slot.repeat and slot.kind == "throughput" and _is_clear(own, point, sweep.until_decided):
        return "its doublings clearly gain more than delta: no repeat of it would change the verdict"
    return None


def decided_at(records: Sequence[Record], question: Question, rule: UntilDecided) -> int | None:
    """Return the first look at which every series was decided, or None."""
    asked: dict[int, set[int]] = {}
    for request in question.requests:
        asked.setdefault(request.repeat, set()).add(request.number)
    known = {record.request.number for record in records}
    whole = next((n for n in itertools.count() if n not in asked or not asked[n] <= known), 0)
    for look in (look for look in LOOKS if look <= whole):
        if _is_decided([record for record in records if record.request.repeat < look], question, rule):
            return look
    return None


def _is_decided(records: Sequence[Record], question: Question, rule: UntilDecided) -> bool:
    from envknee.verdict import learning, throughput  # SciPy, which most requests do without

    decide = Decide(delta=rule.delta, delta_learning=rule.delta, confidence=rule.confidence)
    analyse = throughput.analyse if question.slot.kind == "throughput" else learning.analyse
    return all(limit.state != "undecided" for limit in analyse(records, decide))


def _is_clear(records: Sequence[Record], point: Point, rule: UntilDecided) -> bool:
    """Tell whether every doubling with this point clearly gains more than delta, and none of them is the largest."""
    from envknee.verdict import noise, throughput

    series = (point.horizon, point.batch_size)
    same = [r for r in records if (r.request.listed_horizon, r.request.listed_batch_size) == series]
    for limit in throughput.analyse(same, Decide(delta=rule.delta, confidence=rule.confidence)):
        half = limit.law.half_saturation_num_envs if limit.law else None
        on_cpu = any(r.outcome.environment and r.outcome.environment.device.type == "cpu" for r in records)
        cvs = {
            measured.num_envs: (noise.CPU_CV if on_cpu else noise.assumed_cv(measured.num_envs, half))
            / math.sqrt(len(measured.fps_repeats))
            for measured in limit.points
        }
        clear = [
            noise.gain_interval(math.log1p(gain.gain), (cvs[gain.num_envs], cvs[gain.doubled]), rule.confidence)[0]
            > math.log1p(rule.delta)
            and gain is not limit.gains[-1]
            for gain in limit.gains
            if point.num_envs in (gain.num_envs, gain.doubled)
        ]
        return bool(clear) and all(clear)
    return False
