"""Hardware of trials, in words. Pure."""

from collections import Counter
from collections.abc import Sequence

from envknee.record.schema import Environment, Record


def hardware(records: Sequence[Record]) -> list[str]:
    """Return the hardware of trials, such as `NVIDIA H100 (85.0 GB)` or `2 x NVIDIA H200 (150.1 GB each)`, each once."""
    return sorted({_hardware(record, record.outcome.environment) for record in records if record.outcome.environment})


def _hardware(record: Record, environment: Environment) -> str:
    ranks, device = record.world_size, environment.device
    if device.type == "cpu":
        shared = f"; {ranks} ranks" if ranks > 1 else ""
        return f"{device.name} ({environment.cpu_cores} cores, {device.memory_gb:.1f} GB{shared})"
    learner = record.outcome.learner_device
    # A trial that broke at its start knows the device of one rank only. The others are assumed to be alike.
    gpus = record.rank_devices if learner is None else [device, learner]
    kinds = Counter((gpu.name, f"{gpu.memory_gb:.1f} GB") for gpu in gpus)
    if learner is not None and len(kinds) > 1:
        sides = {"simulating": device, "learning": learner}
        return " + ".join(f"{gpu.name} ({gpu.memory_gb:.1f} GB) {side}" for side, gpu in sides.items())
    return " + ".join(
        f"{count} x {name} ({memory} each)" if count > 1 else f"{name} ({memory})"
        for (name, memory), count in sorted(kinds.items())
    )
