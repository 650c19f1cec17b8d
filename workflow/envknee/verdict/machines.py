"""Differences between an arm's machines that may look like an effect of num_envs: hosts, commits, GPUs of the same name, drift.

Input: records of one arm, and its learning limits. Output: sentences for the arm's notes. Pure. (`hardware` names different GPUs.)
"""

from collections.abc import Mapping, Sequence

import numpy as np

from envknee.record.schema import Record
from envknee.verdict.learning_cost import that_ran
from envknee.verdict.schema.learning import LearningLimit
from envknee.verdict.series import by_series
from envknee.words.series import series_words

ORDERED = 0.9
"""Trials count as measured in order of num_envs from this rank correlation of number and size on, or from this share of processes on."""

LEAST_PAIRS = 3
"""Fewest doublings, in two processes each, that are checked: fewer are often in order by chance."""


def notes(records: Sequence[Record], learned: Sequence[LearningLimit] = ()) -> list[str]:
    """Return sentences about hosts, commits, drift, and savings shown below delta whose ends share no GPU.

    FPS are compared within machines (`blocks`), so only seconds to the target need a note about GPUs.
    """
    timed = [record for record in records if record.request.kind == "throughput" and record.outcome.status == "ok"]
    trained = that_ran([record for record in records if record.request.kind == "learning"])
    return [
        *_hosts_and_commits(timed, "throughput was measured", "FPS"),
        *_hosts_and_commits(trained, "learning was measured", "seconds to the target"),
        *(
            f"trials of {series_words(series)} ran in the order of their num_envs: drift of the machine may pass for a gain"
            for series, by_size in by_series(timed, "throughput").items()
            if _ordered(by_size) or _processes_ordered(by_size)
        ),
        *_other_gpus(trained, learned),
    ]


def _hosts_and_commits(records: Sequence[Record], measured: str, of: str) -> list[str]:
    environments = [record.outcome.environment for record in records if record.outcome.environment]
    hosts = {
        f"{environment.cpu_model}, {environment.cpu_cores} cores"
        for environment in environments
        if environment.device.type == "cuda"
    }
    commits = {environment.git_commit[:7] for environment in environments if environment.git_commit}
    return [
        f"{measured} on {len(names)} {what} ({between.join(sorted(names))}): differences of {of} may be {whose}"
        for names, what, whose, between in (
            (hosts, "kinds of host CPU", "the hosts'", "; "),
            (commits, "commits", "the code's", ", "),
        )
        if len(names) > 1
    ]


def _ordered(by_size: Mapping[int, Sequence[Record]]) -> bool:
    """Tell whether trials ran in the order of their sizes, in either direction."""
    order = [(record.request.number, size) for size, group in by_size.items() for record in group]
    if len(by_size) < 3 or len(order) < 2 * len(by_size):
        return False
    from scipy.stats import spearmanr  # takes 0.5 s, which most verdicts do not need

    return abs(float(np.asarray(spearmanr(order))[0])) > ORDERED


def _processes_ordered(by_size: Mapping[int, Sequence[Record]]) -> bool:
    """Tell whether nearly all processes measured N before 2N, or 2N before N: drift within processes is then in every gain."""
    first: dict[tuple[int, int], int] = {}
    for size, group in by_size.items():
        for record in group:
            if record.request.block is not None:
                first.setdefault((record.request.block, size), record.request.number)
    smaller_first = [
        number < first[process, 2 * size] for (process, size), number in first.items() if (process, 2 * size) in first
    ]
    if len({process for process, _ in first}) < 2 or len(smaller_first) < 2 * LEAST_PAIRS:
        return False
    share = sum(smaller_first) / len(smaller_first)
    return not 1.0 - ORDERED < share < ORDERED


def _other_gpus(ran: Sequence[Record], learned: Sequence[LearningLimit]) -> list[str]:
    by_point = by_series(ran, "learning")
    notes = []
    for limit in learned:
        for gain in limit.gains:
            ends = [
                [gpu for record in by_point[limit.series][size] for gpu in record.outcome.gpus]
                for size in (gain.num_envs, gain.doubled)
            ]
            apart = not {gpu.uuid for gpu in ends[0]} & {gpu.uuid for gpu in ends[1]}
            if gain.shown_below_delta and all(ends) and apart:
                alike = " of the same kind" if len({gpu.name for gpu in (*ends[0], *ends[1])}) == 1 else ""
                series = f" ({series_words(limit.series)})" if len(learned) > 1 else ""
                notes.append(
                    f"learning at sizes {gain.num_envs:,} and {gain.doubled:,}{series} ran on different GPUs{alike}:"
                    " their difference may be the machines'"
                )
    return notes
