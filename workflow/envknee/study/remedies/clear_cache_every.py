"""`clear_cache_every`: PyTorch frees its cached memory, so that simulation and renderer can use it."""

from typing import Any

from envknee.base.fields import newer
from envknee.study.remedies import Remedy
from envknee.study.value_types import Positive


def _clear(every: int, meter: Any) -> Any:
    """Every `every` iterations, clear the cache of a GPU and return the memory in use before: this iteration needed it."""
    if meter.device.type != "cuda" or (len(meter.rows) + 1) % every:
        return None
    in_use = meter.memory.use()
    with meter.timeline.phase("learning"):  # clearing takes time, which counts as learning
        meter.memory.clear_cache()
    return in_use


REMEDY = Remedy(
    type=Positive | None,
    field=newer(
        default=None,
        description="Return PyTorch's cached memory to the GPU after every this many iterations (torch.cuda.empty_cache).",
    ),
    after_learning=_clear,
)
