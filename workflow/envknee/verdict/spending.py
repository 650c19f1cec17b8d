"""Resources of a study's trials: GPU-hours, energy and waiting in a queue, per arm and together. Pure.

Input: records. Output: a `Spending` per arm, and one for all. Lost attempts count separately, at the trial that later had a result.
"""

import statistics
from collections.abc import Iterable, Sequence

from envknee.record.schema import Record
from envknee.verdict.schema.study import Energy, LostAttempts, QueueWait, Spending

JOULES_PER_KWH = 3.6e6


def analyse(records: Sequence[Record], arms: Iterable[str]) -> list[Spending]:
    """Return the spending of each arm, then of all together."""
    by_arm = [_spending(arm, [record for record in records if record.request.arm == arm]) for arm in arms]
    return [*by_arm, _spending(None, records)]


def _spending(arm: str | None, records: Sequence[Record]) -> Spending:
    return Spending(
        arm=arm,
        trials=len(records),
        hours=sum(record.outcome.total_s for record in records) / 3600,
        gpu_hours=sum(record.gpu_hours or 0.0 for record in records),
        energy=_energy(record.energy_j for record in records),
        node_energy=_energy(record.job_energy_j for record in records),
        queue_wait=_queue_wait(records),
        lost=_lost(records),
        waited_s=sum(record.waited_s for record in records),
        waiting_trials=sum(record.waited_s > 0.0 for record in records),
    )


def _energy(joules: Iterable[float | None]) -> Energy | None:
    known = [value for value in joules if value is not None]
    if not known:
        return None
    return Energy(kwh=sum(known) / JOULES_PER_KWH, trials=len(known))


def _queue_wait(records: Sequence[Record]) -> QueueWait | None:
    waits = [record.queue_wait_s for record in records if record.queue_wait_s is not None]
    if not waits:
        return None
    return QueueWait(median_s=statistics.median(waits), largest_s=max(waits))


def _lost(records: Sequence[Record]) -> LostAttempts | None:
    attempts = sum(record.lost_attempts for record in records)
    if not attempts:
        return None
    return LostAttempts(attempts=attempts, gpu_hours=sum(record.lost_gpu_hours for record in records))
