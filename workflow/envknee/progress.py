"""How far a study is, in one line: trials done of planned, what the last one gave, time left.

Input: the study's folder. Output: text. Pure but for reading records' file names and durations.
"""

import statistics
from collections.abc import Mapping, Sequence

from envknee.config import Kind
from envknee.limits import Ranks
from envknee.record import Record, Request, Row
from envknee.space import Slot


def parameters(request: Request) -> str:
    """Return a trial's parameters in a few words: `throughput stock · 64 envs x 2 GPUs · T16 · B256 · repeat 1`."""
    if request.skip is not None:
        return f"{request.kind} {request.arm}"
    batch = "B library" if request.batch_size is None else f"B{request.batch_size}"
    envs = f"{request.num_envs} envs" + (f" x {Ranks.of(request)}" if request.world_size > 1 else "")
    return f"{request.kind} {request.arm} · {envs} · T{request.horizon} · {batch} · repeat {request.repeat + 1}"


def live(request: Request, rows: Sequence[Row], elapsed_s: float) -> str:
    """Return what a running trial does: starting, or its latest iteration."""
    if not rows:
        return f"starting, {elapsed_s:.0f} s"
    row = rows[-1]
    reward = "" if row.reward_mean is None else f", reward {row.reward_mean:.2f}"
    if request.iterations is not None:
        position = f"iteration {row.iteration + 1} of {request.warmup_iterations + request.iterations}"
    else:
        position = f"{row.wall_s:.0f} of {request.budget_s:.0f} s"
    return f"{position}, {row.fps_total:,.0f} FPS{reward}"


def result(record: Record) -> str:
    """Return what a trial gave: `ok: 1,432 FPS, 0.90 GB, 9 s`."""
    if record.outcome.status == "skipped":
        return f"skipped: {record.outcome.reason}"
    parts = []
    if record.fps_total is not None:
        parts.append(f"{record.fps_total.median:,.0f} FPS")
    if record.seconds_to_target is not None:
        parts.append(f"target in {record.seconds_to_target:.1f} s")
    elif record.best_reward is not None:
        parts.append(f"best reward {record.best_reward:.2f}")
    if record.memory_peak_gb is not None:
        parts.append(f"{record.memory_peak_gb:.2f} GB")
    parts.append(f"{record.outcome.total_s:.0f} s")
    return f"{record.outcome.status}: {', '.join(parts)}"


def time_left_s(slots: Sequence[Slot], seconds_by_number: Mapping[int, float], side_by_side: int) -> float | None:
    """Return the expected seconds until the last trial ends, from the mean duration of finished trials of each kind.

    Args:
        slots: the whole plan
        seconds_by_number: duration of each finished trial
        side_by_side: how many trials run at once

    Returns:
        None when no trial of any kind has finished. A kind without a finished trial counts like the other one.
    """
    durations: dict[Kind, list[float]] = {}
    for slot in slots:
        if slot.number in seconds_by_number:
            durations.setdefault(slot.kind, []).append(seconds_by_number[slot.number])
    if not durations:
        return None
    typical = statistics.fmean([second for seconds in durations.values() for second in seconds])
    means = {kind: statistics.fmean(seconds) for kind, seconds in durations.items()}
    return sum(means.get(slot.kind, typical) for slot in slots if slot.number not in seconds_by_number) / side_by_side


def rough_time(seconds: float | None) -> str:
    """Return a duration in the precision a person wants: `about 4 min left`."""
    if seconds is None:
        return ""
    if seconds < 90:
        return f"about {round(seconds / 10) * 10:.0f} s left"
    if seconds < 5400:
        return f"about {seconds / 60:.0f} min left"
    return f"about {seconds / 3600:.1f} h left"
