"""A trial's record, from its request, rows, outcome and cost. Pure."""

import math
import statistics
from collections.abc import Sequence
from typing import Any

from envknee.record.metric import metrics_of
from envknee.record.schema import (
    PHASES,
    Cost,
    GradientSquares,
    MemoryUse,
    Outcome,
    Phase,
    RankRow,
    RankSpread,
    Record,
    Request,
    Row,
    SlurmJob,
    Spread,
)


def build_record(request: Request, rows: list[Row], outcome: Outcome, cost: Cost | None = None) -> Record:
    """Return the record of a trial."""
    timed = [row for row in rows if not row.warmup]
    memory_peaks = [memory_peak_gb(row.memory) for row in rows]
    memory_counts = outcome.shared is None or outcome.shared.memory_counts
    averaged = reward_averages(rows, request.target_episodes or 1)
    averages = [average for average in averaged if average is not None]
    target = math.inf if request.target_reward is None else request.target_reward
    at_target = (row for row, average in zip(rows, averaged, strict=True) if average is not None and average >= target)
    reached = next(at_target, None)
    learning = request.kind == "learning"
    on_gpu = outcome.environment is not None and outcome.environment.device.type == "cuda"
    gpus = request.world_size + (outcome.learner_device is not None) if on_gpu else 0
    return Record(
        request=request,
        outcome=outcome,
        world_size=request.world_size,
        num_envs_total=request.num_envs * request.world_size,
        ranks=rank_spreads(timed, request.num_envs * request.horizon),
        gradients=mean_gradients(timed),
        staleness=spread([row.pipeline and row.pipeline.staleness for row in timed]),
        learner_s=spread([row.pipeline and row.pipeline.learner_s for row in timed]),
        **metric_spreads(timed),
        phases_s=phase_spreads(timed),
        memory_peak_gb=max(memory_peaks, default=None) if memory_counts else None,
        gpu_peaks_gb=gpu_peaks_gb(rows),
        rollout_gb=outcome.rollout_gb,
        num_mini_batches=outcome.num_mini_batches,
        frames=rows[-1].frames if rows else 0,
        train_s=rows[-1].wall_s if rows else 0.0,
        best_reward=max(averages, default=None) if learning else None,
        final_reward=averages[-1] if learning and averages else None,
        seconds_to_target=reached.wall_s if reached else None,
        gpu_seconds_to_target=reached.wall_s * gpus if reached and gpus else None,
        frames_to_target=reached.frames if reached else None,
        gpu_hours=(cost.gpus * cost.held_s if cost else gpus * outcome.total_s) / 3600,
        energy_j=cost.energy_j if cost else None,
        job_energy_j=cost.slurm.energy_j if cost and cost.slurm else None,
        queue_wait_s=queue_wait_s(cost.slurm) if cost and cost.slurm else None,
        lost_attempts=cost.lost.attempts if cost else 0,
        lost_gpu_hours=cost.gpus * cost.lost.held_s / 3600 if cost else 0.0,
        waited_s=cost.waited_s if cost else 0.0,
    )


def queue_wait_s(job: SlurmJob) -> float | None:
    """Return how long a job waited; None if SLURM does not know."""
    if job.submitted_unix_s is None or job.started_unix_s is None:
        return None
    return max(0.0, job.started_unix_s - job.submitted_unix_s)


def rank_spreads(rows: Sequence[Row], transitions: int) -> list[RankSpread] | None:
    """Return each rank's speed over `rows`, with `transitions` per rank and row; None for a single rank."""
    by_rank: dict[int, list[RankRow]] = {}
    for row in rows:
        for part in row.ranks or []:
            by_rank.setdefault(part.rank, []).append(part)
    return [
        RankSpread(
            rank=rank,
            fps_env_step=_of_some([transitions / part.env_step_s for part in parts]),
            fps_env_step_inference=_of_some([transitions / part.collect_s for part in parts]),
            memory_peak_gb=max(memory_peak_gb(part.memory) for part in parts),
        )
        for rank, parts in sorted(by_rank.items())
    ] or None


def mean_gradients(rows: Sequence[Row]) -> GradientSquares | None:
    """Return the means over `rows`, which all have the same batch size; None for a single rank."""
    measured = [row.gradients for row in rows if row.gradients is not None]
    if not measured:
        return None
    means = {name: statistics.fmean(getattr(own, name) for own in measured) for name in ("rank_mean", "shared")}
    return measured[0].model_copy(update=means)


def metric_spreads(rows: Sequence[Row]) -> dict[str, Any]:
    """Return the spread over `rows` of each recorded figure (`Metric`), by the field of the record; None if not measured.

    Measured figures without a field of their own are in the record's `metrics`.
    """
    recorded = [name for name, metric in metrics_of(Row).items() if metric.recorded]
    spreads = {name: spread([getattr(row, name) for row in rows]) for name in recorded}
    own = {name: value for name, value in spreads.items() if name in Record.model_fields}
    return own | {"metrics": {name: value for name, value in spreads.items() if value and name not in own}}


def phase_spreads(rows: Sequence[Row]) -> dict[Phase, Spread] | None:
    """Return each phase's seconds per iteration over the rows with phases, or None."""
    resolved = [row.phases_s for row in rows if row.phases_s is not None]
    spreads = {phase: spread([phases[phase] for phases in resolved]) for phase in PHASES}
    return {phase: known for phase, known in spreads.items() if known is not None} or None


def reward_average(rows: Sequence[Row], episodes: int) -> float | None:
    """Return the mean return of at least the latest `episodes` finished episodes; None while there are fewer.

    It averages whole iterations, the newest first, each weighted by its number of episodes. RSL-RL's own `Train/mean_reward`
    averages the last 100 episodes, and lags more with fewer environments.
    """
    total, count = 0.0, 0
    for row in reversed(rows):
        if row.reward_mean is not None and row.episodes is None:
            return row.reward_mean  # a program's own average over its latest episodes
        if row.reward_mean is not None and row.episodes is not None:
            total += row.reward_mean * row.episodes
            count += row.episodes
        if count >= episodes:
            return total / count
    return None


def reward_averages(rows: Sequence[Row], episodes: int) -> list[float | None]:
    """Return `reward_average` after each row."""
    return [reward_average(rows[:end], episodes) for end in range(1, len(rows) + 1)]


def memory_peak_gb(memory: MemoryUse) -> float:
    """Return the memory that limits a trial: used memory of the GPU, or on a CPU the process's peak resident set."""
    return memory.peak_rss_gb if memory.device_used_gb is None else memory.device_used_gb


def gpu_peaks_gb(rows: Sequence[Row]) -> list[float] | None:
    """Return the peak of each GPU of a foreign command; None if it does not use several."""
    used = [row.memory.gpus_used_gb for row in rows if row.memory.gpus_used_gb is not None]
    return [max(of_gpu) for of_gpu in zip(*used, strict=True)] or None


def spread(values: Sequence[float | None]) -> Spread | None:
    """Return median and quartiles (linear interpolation) of the known values, or None if none is known."""
    known = [value for value in values if value is not None]
    return _of_some(known) if known else None


def _of_some(values: Sequence[float]) -> Spread:
    if len(values) == 1:
        return Spread(median=values[0], lower_quartile=values[0], upper_quartile=values[0], iterations=1)
    lower, median, upper = statistics.quantiles(values, n=4, method="inclusive")
    return Spread(median=median, lower_quartile=lower, upper_quartile=upper, iterations=len(values))
