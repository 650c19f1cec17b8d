"""Resources of trials, as a frozen model."""

from envknee.record.schema import Frozen


class Spending(Frozen):
    """Resources of some trials."""

    arm: str | None
    """None: all arms together."""
    trials: int
    gpu_hours: float
    """GPUs x hours for which trials held them, start-up included."""
    trial_hours: float
    """Sum of the hours of all trials, on GPUs or CPUs."""
    energy_kwh: float | None
    """Energy of the GPUs, by their own counters; None if unknown for all trials."""
    energy_trials: int
    """Trials with known energy."""
    job_energy_kwh: float | None = None
    """Energy of the nodes of their SLURM jobs, by the nodes' sensors; None if unknown for all trials."""
    job_energy_trials: int = 0
    queue_wait_median_s: float | None
    """From submission to start of a trial's job; None without SLURM."""
    queue_wait_longest_s: float | None
    lost_attempts: int = 0
    """Attempts at these trials without a result."""
    lost_gpu_hours: float = 0.0
    """GPU-hours of lost attempts; not in `gpu_hours`."""
    statement: str
