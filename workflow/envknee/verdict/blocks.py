"""Which machine each trial ran on, as the statistical block that it is. Pure.

A GPU's UUID names it wherever it is, and a CPU's machine goes by its host's name. Trials that ran side by side on the GPUs of one host
may leave no GPU with both ends of a doubling: then the host is the block, if each size ran on two of its GPUs at least, so that no GPU
passes for a size.
"""

from collections.abc import Hashable, Mapping, Sequence

from envknee.record.schema import Record


def machine_blocks(records: Mapping[int, Sequence[Record]]) -> dict[int, list[Hashable]]:
    """Return num_envs -> the block of each of its trials, in their order."""
    gpus = {size: [gpu_of(record) for record in group] for size, group in records.items()}
    spread = all(len({*gpus[size]}) > 1 for size in gpus)
    if spread and _kept(gpus) < 0.5:
        hosts = {size: [_host_of(record) for record in group] for size, group in records.items()}
        if _kept(hosts) > _kept(gpus):
            return hosts
    return gpus


def gpu_of(record: Record) -> Hashable:
    """Return the UUIDs of a trial's GPUs, or its host where it has none that are known."""
    known = tuple(sorted({gpu.uuid for gpu in record.outcome.gpus if gpu.uuid}))
    return known or _host_of(record)


def _host_of(record: Record) -> Hashable:
    environment = record.outcome.environment
    return environment.host if environment else None


def _kept(blocks: Mapping[int, Sequence[Hashable]]) -> float:
    """Return the share of trials in doublings whose block has both ends."""
    kept = total = 0
    for size, own in blocks.items():
        other = blocks.get(2 * size)
        if other is not None:
            common = {*own} & {*other}
            kept += sum(block in common for block in (*own, *other))
            total += len(own) + len(other)
    return kept / total if total else 1.0
