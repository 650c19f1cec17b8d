"""Combines the measurements of all ranks into the row of an iteration, and tells whether the row ends the trial. Pure."""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from envknee.base.point import rollout_size
from envknee.record.build import reward_average
from envknee.record.metric import Metric, metrics_of
from envknee.record.schema import (
    Failure,
    GradientSquares,
    Load,
    MemoryMap,
    MemoryUse,
    Phase,
    Pipeline,
    RankRow,
    Request,
    Row,
)
from envknee.record.status import Status


class TrialDone(Exception):
    """Raised when the trial has its result, into the loop of a trainer, or of what follows a foreign command."""

    def __init__(self, status: Status, reason: str | None = None, failure: Failure | None = None) -> None:
        super().__init__(reason or status)
        self.status: Status = status
        self.reason = reason
        self.failure = failure


PAUSED = (
    "its process was stopped and continued while it was measured (SIGCONT, as after `kill -STOP`), so its times count for nothing. Run the"
    " sweep again to measure it"
)
"""Why a trial has no result that was paused without its launcher, which notices its own pauses."""


class Part(RankRow):
    """One rank's measurements of an iteration."""

    wall_s: float
    unix_time_s: float
    return_sum: float
    length_sum: float
    losses: dict[str, float]
    learning_rate: float
    action_std: float
    pipeline: Pipeline | None = None
    gradient_squares: tuple[float, float] | None
    """Squared norms of the rank's own gradient and of the shared one: means over the iteration's optimizer steps."""


class Collected(Load):
    """Figures of a collector in another process about a rollout; seconds by its own clocks."""

    env_step_s: float
    phases_s: dict[Phase, float] | None
    """They add up to the whole rollout, until it lay in the collector's own storage."""
    episodes: int
    return_sum: float
    length_sum: float
    memory: MemoryUse
    memory_map: MemoryMap | None


def parts_of_collectors(learner: Part, collected: Sequence[Collected]) -> list[Part]:
    """Return each collector's part of a row: its own figures, with the learner's seconds of the iteration. Pure.

    A collector's phases add up to its rollout. The rest of the iteration is learning, other work of the learner, and
    the time beyond the rollout until the learner had stored all rollouts: Ray's transport and slower collectors. The latter counts
    as storage.
    """
    parts = []
    for number, collector in enumerate(collected):
        phases_s = collector.phases_s and {
            **collector.phases_s,
            "storage": collector.phases_s["storage"] + learner.collect_s - sum(collector.phases_s.values()),
            "learning": learner.learn_s,
            "other": collector.phases_s["other"] + learner.iteration_s - learner.collect_s - learner.learn_s,
        }
        figures = {name: getattr(collector, name) for name in Collected.model_fields.keys() & Part.model_fields.keys()}
        parts.append(learner.model_copy(update={**figures, "rank": number, "phases_s": phases_s}))
    return parts


def whole_row(parts: Sequence[Part], before: Sequence[Row], num_mini_batches: int | None, request: Request) -> Row:
    """Return the row that follows `before`. Each rank collected a rollout, and learned it in mini-batches (None: a replay buffer). Pure.

    Ranks synchronize in every optimizer step, so the slowest sets the pace. Waiting for it counts as learning.
    """
    pipeline = parts[0].pipeline
    figures = {
        name: combined(metric, [getattr(part, name) for part in parts])
        for name, metric in metrics_of(Row).items()
        if metric.ranks != "derived"
    }
    if pipeline is not None and pipeline.memory is not None:
        figures["memory"] = combined(Metric("largest"), [figures["memory"], pipeline.memory])
    ranks = [RankRow(**{name: getattr(part, name) for name in RankRow.model_fields}) for part in parts]
    rollout, episodes = rollout_size(request.num_envs, request.horizon), figures["episodes"]
    collected = rollout * len(parts)
    whole_s = max(part.collect_s + part.learn_s for part in parts)
    return Row(
        **figures,
        iteration=len(before),
        warmup=len(before) < request.untimed_iterations,
        frames=(before[-1].frames if before else 0) + collected,
        learn_s=whole_s - figures["collect_s"],
        fps_env_step=collected / figures["env_step_s"],
        fps_env_step_inference=collected / figures["collect_s"],
        fps_total=collected / whole_s,
        reward_mean=sum(part.return_sum for part in parts) / episodes if episodes else None,
        episode_length_mean=sum(part.length_sum for part in parts) / episodes if episodes else None,
        pipeline=pipeline,
        ranks=ranks if len(ranks) > 1 else None,
        gradients=_gradients([part.gradient_squares for part in parts], rollout // (num_mini_batches or 1)),
    )


def combined(metric: Metric, values: Sequence[Any]) -> Any:
    """Return one figure for all ranks; None if no rank has it. Figures of mappings and of memory are combined one by one."""
    known = [value for value in values if value is not None]
    if metric.ranks == "first" or not known:
        return values[0]
    if isinstance(known[0], Mapping):
        return {key: combined(metric, [value[key] for value in known]) for key in known[0]}
    if isinstance(known[0], MemoryUse):
        return MemoryUse(**combined(metric, [value.model_dump() for value in known]))
    return {"mean": statistics.fmean, "sum": sum, "largest": max}[metric.ranks](known)


def _gradients(squares: Sequence[tuple[float, float] | None], rank_batch: int) -> GradientSquares | None:
    known = [square for square in squares if square is not None]
    if not known:
        return None
    rank_mean, shared = (statistics.fmean(column) for column in zip(*known, strict=True))
    return GradientSquares(rank_batch=rank_batch, batch=rank_batch * len(known), rank_mean=rank_mean, shared=shared)


MOST_TIMES = 20
"""With `timed_share`, a foreign command is timed for at most this many times its `iterations`."""


def end_if_done(
    rows: Sequence[Row], request: Request, least_timed_s: float = 0.0, start_s: float | None = None
) -> None:
    """Raise a TrialDone if the newest row has ended the trial: all timed, known well enough, target reached, or budget spent.

    Timed iterations of a throughput trial go on until they took `least_timed_s` together. `start_s` are the seconds of a foreign command
    before its first timed iteration.
    """
    if request.kind == "throughput":
        timed = timed_rows(rows, request)
        fps = [row.fps_total for row in timed if row.fps_total is not None]
        # A foreign command runs all of them: whether its memory leaks takes several to tell.
        share = request.precision if request.command is None else None
        if not (has_enough(rows, request) or is_known_within(fps, share)):
            return
        if request.timed_share is not None and not _is_long_enough(rows, request, start_s or 0.0):
            return
        if sum(row.iteration_s or 0.0 for row in timed) >= least_timed_s:
            raise TrialDone("ok")
        return
    average = reward_average(rows, request.target_episodes or 1)
    if average is not None and request.target_reward is not None and average >= request.target_reward:
        raise TrialDone("target_reached")
    if request.budget_s is not None and rows[-1].wall_s >= request.budget_s:
        raise TrialDone(
            "timeout", f"{request.budget_s:g} s of training were spent below reward {request.target_reward:g}"
        )


def timed_rows(rows: Sequence[Row], request: Request) -> list[Row]:
    """Return the rows behind the warm-up that have FPS."""
    return [row for row in rows[request.untimed_iterations :] if row.fps_total is not None]


def has_enough(rows: Sequence[Row], request: Request) -> bool:
    """Tell whether a throughput trial has the iterations that it needs at least."""
    return request.kind == "throughput" and len(timed_rows(rows, request)) >= (request.iterations or 0)


def _is_long_enough(rows: Sequence[Row], request: Request, start_s: float) -> bool:
    """Tell whether a foreign command was timed for long enough after `start_s` seconds of start-up.

    Nothing in the verdict's rule changes by it: a trial stays one figure, and repeats tell the noise. A row's `iteration_s` is that of one
    rollout, and some programs log a row after ten: so the clock counts.
    """
    timed = timed_rows(rows, request)
    timed_s = rows[-1].wall_s - rows[request.untimed_iterations - 1].wall_s
    is_long = timed_s >= (request.timed_share or 0.0) * start_s
    fps = [row.fps_total for row in timed if row.fps_total is not None]
    is_most = len(timed) >= MOST_TIMES * (request.iterations or 0)
    return is_long or is_most or is_known_within(fps, request.precision)


def is_known_within(fps: Sequence[float], share: float | None) -> bool:
    """Tell whether the standard error of the median of timed iterations is at most `share` of that median.

    It needs at least two iterations. With normal noise the standard error of a median is 1.2533 times that of a mean.
    """
    if share is None or len(fps) < 2:
        return False
    return 1.2533 * statistics.stdev(fps) / math.sqrt(len(fps)) <= share * statistics.median(fps)
