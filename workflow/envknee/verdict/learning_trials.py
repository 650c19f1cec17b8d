"""Costs of seeds, from learning trials. Pure."""

from collections.abc import Sequence

from envknee.record.schema import Record
from envknee.record.status import DID_NOT_FIT
from envknee.verdict.learning_cost import Seeds


def that_ran(records: Sequence[Record]) -> list[Record]:
    """Return the trials that fitted the memory and had a valid simulation: only they tell something about learning."""
    return [record for record in records if record.outcome.status not in (*DID_NOT_FIT, "invalid")]


def seconds_of(records: Sequence[Record]) -> Seeds:
    """Return the wall seconds to the target of the trials that ran, or lower bounds if they did not reach it."""
    ran = that_ran(records)
    return seeds_by(ran, [record.seconds_to_target for record in ran], [floor_s(record) for record in ran])


def seeds_by(records: Sequence[Record], costs: Sequence[float | None], floors: Sequence[float]) -> Seeds:
    """Split `records` into costs of seeds that reached the target, and lower bounds of the others."""
    reached = tuple(float(cost) for cost in costs if cost is not None)
    censored = tuple(float(floor) for cost, floor in zip(costs, floors, strict=True) if cost is None)
    assert len(reached) + len(censored) == len(records)
    return Seeds(reached, censored)


def floor_s(record: Record) -> float:
    """Return a lower bound of the seconds to the target, for a seed that did not reach it."""
    if record.outcome.status == "timeout":
        return max(record.train_s, 1e-9)
    # A seed that became NaN or diverged would never reach it; it counts with its whole budget.
    return max(record.train_s, record.request.budget_s or 0.0, 1e-9)


def gpus_of(record: Record) -> int:
    """Return how many GPUs a trial held; 0 on a CPU."""
    environment = record.outcome.environment
    return record.devices if environment is not None and environment.device.type == "cuda" else 0
