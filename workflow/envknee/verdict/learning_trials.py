"""Learning trials to what their seeds cost. Pure."""

from collections.abc import Sequence

from envknee.record.schema import Record
from envknee.record.status import DID_NOT_FIT
from envknee.verdict.learning_cost import Seeds


def that_ran(records: Sequence[Record]) -> list[Record]:
    """Return the trials that tell something about learning: those that had the memory to try, and a simulation that was valid."""
    return [record for record in records if record.outcome.status not in (*DID_NOT_FIT, "invalid")]


def seconds_of(records: Sequence[Record]) -> Seeds:
    """Return the wall seconds to the target of the trials that ran, with lower bounds where it was not reached."""
    ran = that_ran(records)
    return seeds_by(ran, [record.seconds_to_target for record in ran], [floor_s(record) for record in ran])


def seeds_by(records: Sequence[Record], costs: Sequence[float | None], floors: Sequence[float]) -> Seeds:
    """Split the costs of `records` into those of seeds that reached the target and lower bounds for the others."""
    reached = tuple(float(cost) for cost in costs if cost is not None)
    censored = tuple(float(floor) for cost, floor in zip(costs, floors, strict=True) if cost is None)
    assert len(reached) + len(censored) == len(records)
    return Seeds(reached, censored)


def floor_s(record: Record) -> float:
    """Return the least number of seconds that a seed which did not reach the target would have taken."""
    if record.outcome.status == "timeout":
        return max(record.train_s, 1e-9)
    # NaN or diverged: it never would have. The whole budget is the least that a reader must expect to pay.
    return max(record.train_s, record.request.budget_s or 0.0, 1e-9)


def gpus_of(record: Record) -> int:
    """Return how many GPUs a trial held; 0 on a CPU."""
    environment = record.outcome.environment
    return record.devices if environment is not None and environment.device.type == "cuda" else 0
