"""Failures of trials, by arm and tensor. Pure."""

from collections.abc import Sequence

from envknee.record.schema import Record
from envknee.record.status import BROKE
from envknee.verdict.schema.study import Broken


def broken(records: Sequence[Record]) -> list[Broken]:
    """Return the first failure for each arm and tensor, in the order of trial numbers."""
    by_tensor: dict[tuple[str, str], list[Record]] = {}
    for record in sorted(records, key=lambda record: record.request.number):
        failure = record.outcome.failure
        if record.outcome.status in BROKE and failure is not None and failure.tensor is not None:
            by_tensor.setdefault((record.request.arm, failure.tensor), []).append(record)
    return [_broken(arm, tensor, trials) for (arm, tensor), trials in by_tensor.items()]


def _broken(arm: str, tensor: str, records: Sequence[Record]) -> Broken:
    first = records[0]
    failure = first.outcome.failure
    assert failure is not None, "`broken` takes only records with a failure"
    return Broken(
        arm=arm,
        tensor=tensor,
        trials=[record.request.number for record in records],
        reason=first.outcome.reason or "",
        dump=f"trials/{first.request.number:04d}/{failure.dump}" if failure.dump else None,
        hints=failure.hints,
    )
