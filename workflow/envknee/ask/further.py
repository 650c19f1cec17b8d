"""Which further repeats may decide what a measured study left open. Pure.

Input: a study, its verdict and records. Output: for each kind of trial the number of repeats, and their time. Nothing where repeats do not
help: a larger size, a lower target or more memory would.
"""

from collections.abc import Iterator, Sequence

from envknee.ask.time_limit import expected_s
from envknee.base.fields import Kind
from envknee.record.read import without_skipped
from envknee.record.schema import Record
from envknee.study.model import Study
from envknee.study.sweep import Sweep
from envknee.verdict.schema.further import Further
from envknee.verdict.schema.joint import JointAnswer
from envknee.verdict.schema.study import ArmVerdict, Verdict


def further_of(study: Study, verdict: Verdict, records: Sequence[Record]) -> list[Further]:
    """Return the further repeats of each kind whose answer is open in some arm: as many as the arm needs that needs most."""
    found = []
    for kind, sweep in study.sections.items():
        if not _takes_more(sweep):
            continue
        repeats = max((_repeats(arm, kind) for arm in verdict.arms), default=0)
        if repeats:
            seconds = repeats * _seconds_of_one(records, kind, sweep)
            found.append(Further(kind=kind, repeats=repeats, in_all=sweep.more_repeats + repeats, seconds=seconds))
    return found


def _takes_more(sweep: Sweep) -> bool:
    """Tell whether `more_repeats` may be set: a sampler that chooses trials takes them for `confirm` alone."""
    return sweep.confirm is not None or not sweep.chooses_trials


def _repeats(arm: ArmVerdict, kind: Kind) -> int:
    """Return the repeats that may decide an arm's answer of one kind; 0: it is decided, or they do not help."""
    joint = next((found for found in arm.joint if found.kind == kind), None)
    if joint is not None:
        return _seeds(joint)
    limit = arm.recommended
    if kind == "learning":
        first = next((limit for limit in arm.learning if limit.state != "no data"), None)
        limit = first if arm.soonest is None else arm.soonest[0]
    if limit is None or limit.state != "undecided":
        return 0
    return limit.more_repeats or 0


def _seeds(found: JointAnswer) -> int:
    """Return the seeds that may decide; 0 if the answer is whole, or the surface is too rough for them to help."""
    is_open = found.soonest is None or bool(found.open_thresholds)
    has_arrived = any(setting.reached for setting in found.confirmed)
    if found.state != "confirmed" or not is_open or found.is_rough or not has_arrived:
        return 0
    return found.more_seeds or 0


def _seconds_of_one(records: Sequence[Record], kind: Kind, sweep: Sweep) -> float:
    """Return the seconds of one further repeat of every point, in all arms."""
    return sum(expected_s(own, frozenset()) for own in _by_arm(records, kind, sweep.confirm is not None))


def _by_arm(records: Sequence[Record], kind: Kind, confirms: bool) -> Iterator[list[Record]]:
    """Yield the records of each arm that a further repeat repeats: with `confirm` those of the fresh seeds."""
    repeated = [
        record
        for record in without_skipped(records)
        if record.request.kind == kind and (record.request.confirms or not confirms)
    ]
    for arm in sorted({record.request.arm for record in repeated}):
        yield [record for record in repeated if record.request.arm == arm]
