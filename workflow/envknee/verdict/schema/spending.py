"""What trials took, as a frozen model."""

from envknee.record.schema import Frozen


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
    job_energy_kwh: float | None = None
    """Of the nodes of their SLURM jobs, by the nodes' own sensors; None where no trial tells."""
    job_energy_trials: int = 0
    queue_wait_median_s: float | None
    """From submission to start of a trial's job; None without SLURM."""
    queue_wait_longest_s: float | None
    lost_attempts: int = 0
    """That left no result, of these trials."""
    lost_gpu_hours: float = 0.0
    """What those took; not in `gpu_hours`."""
    statement: str
