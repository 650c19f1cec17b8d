"""What about an arm's machines may pass for an effect of num_envs: other hosts, other commits, other GPUs of the same name.

Input: records of one arm, and its throughput and learning limits. Output: sentences for the arm's notes. Pure.

GPUs of several kinds are told by `verdict.hardware`, and so is the CPU where it is the device; this is about what looks alike.
Seconds to the target are as much a machine's as FPS are.
"""

from collections.abc import Sequence

from envknee.config import Kind
from envknee.limits import Series, by_series
from envknee.limits.learning import LearningLimit, Saving, that_ran
from envknee.limits.throughput import Gain, ThroughputLimit
from envknee.record import Record


def notes(
    records: Sequence[Record], limits: Sequence[ThroughputLimit], learned: Sequence[LearningLimit] = ()
) -> list[str]:
    """Return a sentence about hosts, about commits, and about each doubling shown below delta whose ends share no GPU.

    Args:
        records: of one arm, of all kinds
        limits: its throughput limits, of collecting and learning
        learned: its learning limits
    """
    timed = [record for record in records if record.request.kind == "throughput" and record.outcome.status == "ok"]
    trained = that_ran([record for record in records if record.request.kind == "learning"])
    return [
        *_hosts_and_commits(timed, "throughput was measured", "FPS"),
        *_hosts_and_commits(trained, "learning was measured", "seconds to the target"),
        *_other_gpus(timed, "throughput", [(limit.series, limit.gains) for limit in limits]),
        *_other_gpus(trained, "learning", [(limit.series, limit.savings) for limit in learned]),
    ]


def _hosts_and_commits(records: Sequence[Record], measured: str, of: str) -> list[str]:
    environments = [record.outcome.environment for record in records if record.outcome.environment]
    hosts = {f"{one.cpu_model}, {one.cpu_cores} cores" for one in environments if one.device.type == "cuda"}
    commits = {one.git_commit[:7] for one in environments if one.git_commit}
    return [
        f"{measured} on {len(found)} {what} ({between.join(sorted(found))}): differences of {of} may be {whose}"
        for found, what, whose, between in (
            (hosts, "kinds of host CPU", "the hosts'", "; "),
            (commits, "commits", "the code's", ", "),
        )
        if len(found) > 1
    ]


def _other_gpus(
    ran: Sequence[Record], kind: Kind, doublings: Sequence[tuple[Series, Sequence[Gain] | Sequence[Saving]]]
) -> list[str]:
    by_point = by_series(ran, kind)
    found = []
    for of_series, tested in doublings:
        for one in tested:
            ends = [
                [gpu for record in by_point[of_series][size] for gpu in record.outcome.gpus]
                for size in (one.num_envs, one.doubled)
            ]
            if (
                one.shown_below_delta
                and all(ends)
                and not {gpu.uuid for gpu in ends[0]} & {gpu.uuid for gpu in ends[1]}
            ):
                alike = " of the same kind" if len({gpu.name for gpu in (*ends[0], *ends[1])}) == 1 else ""
                series = f" ({of_series})" if len(doublings) > 1 else ""
                found.append(
                    f"{'learning at ' if kind == 'learning' else ''}sizes {one.num_envs:,} and {one.doubled:,}{series} ran on"
                    f" different GPUs{alike}: their difference may be the machines'"
                )
    return found
