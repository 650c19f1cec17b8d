"""What to measure next to decide an open throughput threshold. Pure."""

from typing import Literal

from envknee.record.status import Status
from envknee.verdict.estimate import Estimate
from envknee.verdict.schema.headline import NextMeasurement
from envknee.verdict.schema.throughput import ThroughputLimit


def measure_next(
    limit: ThroughputLimit, best: Estimate | None = None, doubled_ended: Status | None = None
) -> NextMeasurement:
    """Return the measurements that would decide a threshold: a doubling needs N and 2N.

    `best` is the estimate without repeats, if there is one. `doubled_ended` is the status of the last trial at twice the largest num_envs,
    of which none was timed; None without a trial.
    """
    if not limit.points:
        return NextMeasurement(kind="smaller_size")
    largest = limit.points[-1].num_envs
    unable = min(limit.infeasible, key=lambda point: point.num_envs, default=None)
    failed = None if unable is None else unable.num_envs
    if unable is not None and not unable.lacks_memory:
        doubled_ended = "crashed"
    if best is not None and (best.num_envs is not None or failed is None):
        return NextMeasurement(kind="doubling", num_envs=_of_a_doubling(best.num_envs or largest, failed))
    last = limit.gains[-1] if limit.gains else None
    if last is not None and limit.state == "undecided" and limit.unsure is not None:
        if not last.machines:
            return NextMeasurement(kind="same_machine", num_envs=last.num_envs)
        decidable = limit.more_repeats is not None
        return NextMeasurement(kind="repeats" if decidable else "either_size", num_envs=limit.unsure.num_envs)
    if last is not None and last.doubled == largest:
        return _larger(2 * largest, "doubling_gains", failed, doubled_ended)
    after = "no_doubling" if last is None else "no_doubling_with_largest"
    smaller = _of_a_doubling(largest, failed)
    if smaller == largest:
        return _larger(2 * largest, after, failed, doubled_ended)
    return _larger(smaller, after, failed, _of_crash(doubled_ended))


def _larger(
    wanted: int,
    after: Literal["no_doubling", "no_doubling_with_largest", "doubling_gains"],
    failed: int | None,
    doubled_ended: Status | None,
) -> NextMeasurement:
    if failed is not None and failed <= wanted:
        return NextMeasurement(
            kind="memory_ends", num_envs=wanted, after=after, failed=failed, ended=_of_crash(doubled_ended)
        )
    return NextMeasurement(kind="size", num_envs=wanted, after=after, ended=doubled_ended)


def _of_crash(ended: Status | None) -> Status | None:
    """Return `crashed` if the measurements end with a crash, not with the memory."""
    return ended if ended == "crashed" else None


def _of_a_doubling(size: int, failed: int | None) -> int:
    """Return the smaller end of a doubling with `size`: its half if twice as many cannot fit."""
    return size // 2 if failed is not None and failed <= 2 * size and size % 2 == 0 else size
