"""`clear_cache_every`: PyTorch gives back what it keeps for later, for simulation and renderer to take."""

from typing import Any

from pydantic import Field

from envknee.study.remedies import Remedy
from envknee.study.rules import Positive


def _clear(every: int, meter: Any) -> Any:
    """Clear the cache of a GPU, where it is time to; return what was in use until then, which this iteration needed."""
    if meter.device.type != "cuda" or (len(meter.rows) + 1) % every:
        return None
    in_use = meter.memory.use()
    with meter.timeline.phase("learning"):  # what it takes is the learner's, and counts
        meter.memory.clear_cache()
    return in_use


REMEDY = Remedy(
    type=Positive | None,
    field=Field(
        default=None,
        description="After every so many iterations give back to the GPU what PyTorch keeps for later (torch.cuda.empty_cache).",
        exclude_if=lambda value: value is None,
    ),
    after_learning=_clear,
)
