"""Resources of a study's trials: GPU-hours, energy and waiting in a queue, per arm and together. Pure.

Input: records. Output: a `Spending` per arm, and one for all. Lost attempts count separately, at the trial that later had a result.
"""

import statistics
from collections.abc import Iterable, Sequence

from envknee.record.schema import Record
from envknee.verdict.schema.study import Spending
from envknee.verdict.words.numbers import counted

JOULES_PER_KWH = 3.6e6


def analyse(records: Sequence[Record], arms: Iterable[str]) -> list[Spending]:
    """Return the spending of each arm, then of all together."""
    own = [_spending(arm, [record for record in records if record.request.arm == arm]) for arm in arms]
    return [*own, _spending(None, records)]


def _spending(arm: str | None, records: Sequence[Record]) -> Spending:
    gpu_hours = sum(record.gpu_hours or 0.0 for record in records)
    energies = [record.energy_j for record in records if record.energy_j is not None]
    of_jobs = [record.job_energy_j for record in records if record.job_energy_j is not None]
    waits = [record.queue_wait_s for record in records if record.queue_wait_s is not None]
    hours = sum(record.outcome.total_s for record in records) / 3600
    statement = f"{gpu_hours:.2f} GPU-hours" if gpu_hours else f"{hours:.2f} hours without a GPU"
    statement += f" in {counted(len(records), 'trial')}"
    for joules, whose in ((energies, ""), (of_jobs, " by whole nodes")):
        if joules:
            some = f" in {len(joules)} of them" if len(joules) < len(records) else ""
            statement += f", {sum(joules) / JOULES_PER_KWH:.2f} kWh{whose}{some}"
    if waits:
        statement += f"; a job waited {statistics.median(waits):,.0f} s (median), {max(waits):,.0f} s at most"
    if lost := sum(record.lost_attempts for record in records):
        lost_gpu_hours = sum(record.lost_gpu_hours for record in records)
        took = f" with {lost_gpu_hours:.2f} GPU-hours more" if lost_gpu_hours else ""
        statement += f"; {lost} {'attempt was' if lost == 1 else 'attempts were'} lost{took}"
    return Spending(
        arm=arm,
        trials=len(records),
        gpu_hours=gpu_hours,
        energy_kwh=sum(energies) / JOULES_PER_KWH if energies else None,
        statement=statement,
    )
