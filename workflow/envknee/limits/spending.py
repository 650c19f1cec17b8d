"""What the trials of a study took: GPU-hours, energy and waiting in a queue, per arm and together. Pure.

Input: records. Output: a `Spending` per arm, and one of all. Only trials with a record are counted: an attempt that was lost
with its machine leaves no figures.
"""

import statistics
from collections.abc import Sequence

from envknee.record import Frozen, Record

JOULES_PER_KWH = 3.6e6


class Spending(Frozen):
    """What some trials took."""

    arm: str | None
    """None: all arms together."""
    trials: int
    gpu_hours: float
    """GPUs x hours for which trials held them, start-up included."""
    trial_hours: float
    """Hours of all trials one after another, on whatever they ran."""
    energy_kwh: float | None
    """Of the GPUs, by their own counters; None where no trial tells."""
    energy_trials: int
    """Trials whose energy is in it."""
    queue_wait_median_s: float | None
    """From submission to start of a trial's job; None without SLURM."""
    queue_wait_longest_s: float | None
    statement: str


def analyse(records: Sequence[Record], arms: Sequence[str]) -> list[Spending]:
    """Return what each arm took, then all together."""
    own = [_spending(arm, [record for record in records if record.request.arm == arm]) for arm in arms]
    return [*own, _spending(None, records)]


def _spending(arm: str | None, records: Sequence[Record]) -> Spending:
    gpu_hours = sum(record.gpu_hours or 0.0 for record in records)
    trial_hours = sum(record.outcome.total_s for record in records) / 3600
    energies = [record.energy_j for record in records if record.energy_j is not None]
    waits = [record.queue_wait_s for record in records if record.queue_wait_s is not None]
    energy_kwh = sum(energies) / JOULES_PER_KWH if energies else None
    median, longest = (statistics.median(waits), max(waits)) if waits else (None, None)
    statement = f"{gpu_hours:.2f} GPU-hours" if gpu_hours else f"{trial_hours:.2f} hours without a GPU"
    statement += f" in {len(records)} {'trial' if len(records) == 1 else 'trials'}"
    if energy_kwh is not None:
        some = f" in {len(energies)} of them" if len(energies) < len(records) else ""
        statement += f", {energy_kwh:.2f} kWh{some}"
    if median is not None:
        statement += f"; a job waited {median:,.0f} s (median), {longest:,.0f} s at most"
    return Spending(
        arm=arm,
        trials=len(records),
        gpu_hours=gpu_hours,
        trial_hours=trial_hours,
        energy_kwh=energy_kwh,
        energy_trials=len(energies),
        queue_wait_median_s=median,
        queue_wait_longest_s=longest,
        statement=statement,
    )
