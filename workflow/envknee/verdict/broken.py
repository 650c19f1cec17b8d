"""Failures of trials, by arm and tensor. Pure."""

from collections.abc import Sequence

from envknee.record.schema import Failure, Record
from envknee.record.status import BROKE
from envknee.verdict.schema.study import Broken


def broken(records: Sequence[Record]) -> list[Broken]:
    """Return the first failure for each arm and tensor, in the order of trial numbers."""
    by_tensor: dict[tuple[str, str], tuple[Failure, list[Record]]] = {}
    for record in sorted(records, key=lambda record: record.request.number):
        failure = record.outcome.failure
        if record.outcome.status in BROKE and failure is not None and failure.tensor is not None:
            by_tensor.setdefault((record.request.arm, failure.tensor), (failure, []))[1].append(record)
    return [
        Broken(
            arm=arm,
            tensor=tensor,
            trials=[record.request.number for record in trials],
            reason=trials[0].outcome.reason or "",
            dump=f"trials/{trials[0].request.number:04d}/{first.dump}" if first.dump else None,
            hints=first.hints,
        )
        for (arm, tensor), (first, trials) in by_tensor.items()
    ]
