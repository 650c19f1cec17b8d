"""What a study's trials cost, in a sentence. Pure."""

from envknee.verdict.schema.study import Energy, LostAttempts, Spending
from envknee.words.numbers import counted


def spending_statement(spending: Spending) -> str:
    """Return `0.38 GPU-hours in 29 trials, 0.15 kWh`, with waits in a queue and lost attempts."""
    used = f"{spending.gpu_hours:.2f} GPU-hours"
    if not spending.gpu_hours:
        used = f"{spending.hours:.2f} hours without a GPU"
    parts = [f"{used} in {counted(spending.trials, 'trial')}"]
    if spending.energy is not None:
        parts.append(_energy(spending.energy, "", spending.trials))
    if spending.node_energy is not None:
        parts.append(_energy(spending.node_energy, " by whole nodes", spending.trials))
    sentence = ", ".join(parts)
    if spending.queue_wait is not None:
        wait = spending.queue_wait
        sentence += f"; a job waited {wait.median_s:,.0f} s (median), {wait.largest_s:,.0f} s at most"
    if spending.waiting_trials:
        before = f"before {counted(spending.waiting_trials, 'trial')}"
        sentence += f"; waited {spending.waited_s:,.0f} s for other processes ({before})"
    if spending.lost is not None:
        sentence += f"; {_lost(spending.lost)}"
    return sentence


def _energy(energy: Energy, whose: str, trials: int) -> str:
    some = f" in {energy.trials} of them" if energy.trials < trials else ""
    return f"{energy.kwh:.2f} kWh{whose}{some}"


def _lost(lost: LostAttempts) -> str:
    were = "attempt was" if lost.attempts == 1 else "attempts were"
    took = f" with {lost.gpu_hours:.2f} GPU-hours more" if lost.gpu_hours else ""
    return f"{lost.attempts} {were} lost{took}"
