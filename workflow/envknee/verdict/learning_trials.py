"""Costs of seeds, from learning trials. Pure."""

from collections.abc import Iterable, Sequence

from envknee.record.schema import Record
from envknee.record.status import DID_NOT_FIT
from envknee.verdict.learning_cost import Seeds


def that_ran(records: Sequence[Record]) -> list[Record]:
    """Return the trials that fitted the memory and had a valid simulation: only they tell something about learning."""
    return [record for record in records if record.outcome.status not in (*DID_NOT_FIT, "invalid")]


def seconds_of(records: Sequence[Record]) -> Seeds:
    """Return the wall seconds to the target of the trials that ran, or lower bounds if they did not reach it."""
    return seeds_of((record.seconds_to_target, _floor_s(record)) for record in that_ran(records))


def gpu_seconds_of(records: Sequence[Record]) -> Seeds:
    """Return the same times the number of GPUs, of the trials that held any."""
    on_gpu = [record for record in that_ran(records) if gpus_of(record)]
    return seeds_of((record.gpu_seconds_to_target, gpus_of(record) * _floor_s(record)) for record in on_gpu)


def frames_of(records: Sequence[Record]) -> Seeds:
    """Return the frames to the target of the trials that ran, or lower bounds if they did not reach it."""
    return seeds_of((record.frames_to_target, max(record.frames, 1)) for record in that_ran(records))


def seeds_of(costs_and_floors: Iterable[tuple[float | None, float]]) -> Seeds:
    """Split trials into costs of seeds that reached the target, and lower bounds of the others."""
    pairs = list(costs_and_floors)
    return Seeds(
        tuple(float(cost) for cost, _ in pairs if cost is not None),
        tuple(float(floor) for cost, floor in pairs if cost is None),
    )


def _floor_s(record: Record) -> float:
    """Return a lower bound of the seconds to the target, for a seed that did not reach it."""
    if record.outcome.status == "timeout":
        return max(record.train_s, 1e-9)
    # A seed that became NaN or diverged would never reach it; it counts with its whole budget.
    return max(record.train_s, record.request.budget_s or 0.0, 1e-9)


def gpus_of(record: Record) -> int:
    """Return how many GPUs a trial held; 0 on a CPU."""
    environment = record.outcome.environment
    return record.devices if environment is not None and environment.device.type == "cuda" else 0
