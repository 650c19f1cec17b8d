"""The statistical block of each trial: its process or its machine. Pure.

A process that measured several sizes is a block within one machine. The block of any other trial (`Request.fresh`, too) is its machine. A
machine is a GPU, by its UUID, or for trials on a CPU a host, by its name. If trials run side by side on the GPUs of one host, maybe no
GPU has both ends of a doubling. Then the host is the machine, if each size ran on at least two of its GPUs: a GPU's effect cannot look
like a size's.
"""

from collections.abc import Hashable, Mapping, Sequence

from envknee.record.schema import Record
from envknee.verdict.rule.contrasts import Process


def blocks_of(records: Mapping[int, Sequence[Record]]) -> dict[int, list[Hashable]]:
    """Return num_envs -> the block of each of its trials, in their order."""
    gpus, hosts = (
        {size: [of(record) for record in group] for size, group in records.items()} for of in (_gpus_of, _host_of)
    )
    spread = all(len({*own}) > 1 for own in gpus.values())
    machines = hosts if spread and _kept(gpus) < min(0.5, _kept(hosts)) else gpus
    return {
        size: [_block(record, machine) for record, machine in zip(group, machines[size], strict=True)]
        for size, group in records.items()
    }


def blocks_of_arms(*arms: Sequence[Record]) -> list[list[Hashable]]:
    """Return the block of each trial of arms with different numbers of GPUs: GPUs that trained together are one machine."""
    machines: list[set[Hashable]] = []
    for gpus in ({*_gpus_of(record)} for records in arms for record in records):
        overlapping = [machine for machine in machines if machine & gpus]
        machines = [machine for machine in machines if machine not in overlapping] + [gpus.union(*overlapping)]

    def machine_of(record: Record) -> Hashable:
        return next(frozenset(machine) for machine in machines if not machine.isdisjoint(_gpus_of(record)))

    return [[_block(record, machine_of(record)) for record in records] for records in arms]


def _block(record: Record, machine: Hashable) -> Hashable:
    number = record.request.block
    return machine if number is None or record.request.fresh else Process(machine, number)


def _gpus_of(record: Record) -> tuple[Hashable, ...]:
    """Return the UUIDs of a trial's GPUs, or its host if none is known."""
    return tuple(sorted({gpu.uuid for gpu in record.outcome.gpus if gpu.uuid})) or (_host_of(record),)


def _host_of(record: Record) -> Hashable:
    environment = record.outcome.environment
    return environment.host if environment else None


def _kept(blocks: Mapping[int, Sequence[Hashable]]) -> float:
    """Return the share of trials in doublings whose block has both ends of the doubling."""
    kept = total = 0
    for size, own in blocks.items():
        other = blocks.get(2 * size)
        if other is not None:
            common = {*own} & {*other}
            kept += sum(block in common for block in (*own, *other))
            total += len(own) + len(other)
    return kept / total if total else 1.0
