"""What about an arm's machines may pass for an effect of num_envs: other hosts, other commits, other GPUs of the same name.

Input: records of one arm, and its throughput limits. Output: sentences for the arm's notes. Pure.

GPUs of several kinds are told by `verdict.hardware`, and so is the CPU where it is the device; this is about what looks alike.
"""

from collections.abc import Sequence

from envknee.limits import by_series
from envknee.limits.throughput import ThroughputLimit
from envknee.record import Record


def notes(records: Sequence[Record], limits: Sequence[ThroughputLimit]) -> list[str]:
    """Return a sentence about hosts, about commits, and about each doubling shown below delta whose ends share no GPU.

    Args:
        records: of one arm, of all kinds
        limits: its throughput limits, of collecting and learning
    """
    timed = [record for record in records if record.request.kind == "throughput" and record.outcome.status == "ok"]
    environments = [record.outcome.environment for record in timed if record.outcome.environment]
    hosts = {f"{one.cpu_model}, {one.cpu_cores} cores" for one in environments if one.device.type == "cuda"}
    commits = {one.git_commit[:7] for one in environments if one.git_commit}
    return [
        *_several(hosts, "kinds of host CPU", "the hosts'", "; "),
        *_several(commits, "commits", "the code's", ", "),
        *_other_gpus(timed, limits),
    ]


def _several(found: set[str], what: str, whose: str, between: str) -> list[str]:
    if len(found) < 2:
        return []
    return [
        f"throughput was measured on {len(found)} {what} ({between.join(sorted(found))}): differences of FPS may be {whose}"
    ]


def _other_gpus(timed: Sequence[Record], limits: Sequence[ThroughputLimit]) -> list[str]:
    by_point = by_series(timed, "throughput")
    found = []
    for limit in limits:
        for gain in limit.gains:
            ends = [
                [gpu for record in by_point[limit.series][size] for gpu in record.outcome.gpus]
                for size in (gain.num_envs, gain.doubled)
            ]
            if (
                gain.shown_below_delta
                and all(ends)
                and not {gpu.uuid for gpu in ends[0]} & {gpu.uuid for gpu in ends[1]}
            ):
                alike = " of the same kind" if len({gpu.name for gpu in (*ends[0], *ends[1])}) == 1 else ""
                series = f" ({limit.series})" if len(limits) > 1 else ""
                found.append(
                    f"sizes {gain.num_envs:,} and {gain.doubled:,}{series} ran on different GPUs{alike}:"
                    " their difference may be the machines'"
                )
    return found
