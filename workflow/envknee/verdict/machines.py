"""Differences between an arm's machines that may look like an effect of num_envs: hosts, commits, GPUs of the same name, drift.

Input: records of one arm, and its learning limits. Output: `MachineEffects`. Pure. (`hardware` names different GPUs.)
"""

from collections.abc import Mapping, Sequence

import numpy as np

from envknee.base.fields import Kind
from envknee.record.schema import Record
from envknee.verdict.learning_cost import ran
from envknee.verdict.measurements import Groups, Measurements, every_record, filtered
from envknee.verdict.schema.learning import LearningLimit
from envknee.verdict.schema.study import HostCpu, MachineEffects, MachineMix, OtherGpus
from envknee.verdict.series import OfSeries

ORDERED = 0.9
"""Trials count as measured in order of num_envs from this rank correlation of number and size on, or from this share of processes on."""

LEAST_PAIRS = 3
"""Fewest doublings, in two processes each, that are checked: fewer are often in order by chance."""


def analyse(measured: Measurements, learned: Sequence[LearningLimit] = ()) -> MachineEffects:
    """Return hosts and commits that differ, series that may have drifted, and savings shown below delta whose ends share no GPU.

    FPS are compared within machines (`statistical_blocks`), so only seconds to the target depend on the GPU.
    """
    timed = filtered(measured.throughput, lambda record: record.outcome.status == "ok")
    trained = filtered(measured.learning, ran)
    mixes = (_mix("throughput", list(every_record(timed))), _mix("learning", list(every_record(trained))))
    in_order = [
        OfSeries(**series._asdict())
        for series, by_size in timed.items()
        if _ordered(by_size) or _processes_ordered(by_size)
    ]
    return MachineEffects(
        mixes=[mix for mix in mixes if mix is not None],
        in_order=in_order,
        other_gpus=_other_gpus(trained, learned),
    )


def _mix(kind: Kind, records: Sequence[Record]) -> MachineMix | None:
    """Return the kinds of host CPU and the commits of trials of one kind; None if all had the same."""
    environments = [record.outcome.environment for record in records if record.outcome.environment]
    hosts = {
        (environment.cpu_model, environment.cpu_cores)
        for environment in environments
        if environment.device.type == "cuda"
    }
    commits = {environment.git_commit[:7] for environment in environments if environment.git_commit}
    if len(hosts) < 2 and len(commits) < 2:
        return None
    return MachineMix(
        kind=kind,
        host_cpus=[HostCpu(model=model, cores=cores) for model, cores in sorted(hosts)] if len(hosts) > 1 else [],
        commits=sorted(commits) if len(commits) > 1 else [],
    )


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


def _other_gpus(trained: Groups, learned: Sequence[LearningLimit]) -> list[OtherGpus]:
    found = []
    for limit in learned:
        for gain in limit.gains:
            ends = [
                [gpu for record in trained[limit.series][size] for gpu in record.outcome.gpus]
                for size in (gain.num_envs, gain.doubled)
            ]
            apart = not {gpu.uuid for gpu in ends[0]} & {gpu.uuid for gpu in ends[1]}
            if gain.shown_below_delta and all(ends) and apart:
                names = {gpu.name for gpu in (*ends[0], *ends[1])}
                found.append(
                    OtherGpus(
                        **limit.series._asdict(),
                        num_envs=gain.num_envs,
                        doubled=gain.doubled,
                        same_kind=len(names) == 1,
                    )
                )
    return found
