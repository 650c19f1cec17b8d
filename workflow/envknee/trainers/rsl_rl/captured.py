"""A step of learning as one CUDA graph: captured once, then replayed on other mini-batches of the same size."""

from collections.abc import Callable
from typing import Any

import torch
from rsl_rl.storage import RolloutStorage

from envknee.measure.captured import capture


class CapturedStep:
    """Replays a function, captured with one mini-batch, on other mini-batches.

    A graph reads tensors at the addresses of its capture. So each mini-batch is copied there before the replay, and rollout, networks and
    optimizer must keep their addresses. Random numbers are the same as without a graph.
    """

    def __init__(
        self, step: Callable[[RolloutStorage.Batch], torch.Tensor], batch: RolloutStorage.Batch, pool: Any = None
    ) -> None:
        """Capture `step` without running it. It must have run before, so that it initializes nothing during the capture.

        Args:
            step: takes a mini-batch and returns a tensor; must not wait for the GPU
            batch: any mini-batch of the size that all will have
            pool: as in `Captured`
        """
        self._batch = _mapped(batch, torch.clone)
        self._step = step
        self._result: Any = None
        self._graph = capture(self._run, pool)

    def _run(self) -> None:
        self._result = self._step(self._batch)

    def __call__(self, batch: RolloutStorage.Batch) -> torch.Tensor:
        """Run the step on a mini-batch and return the function's result, which the next call overwrites."""
        for captured, new in zip(_tensors(self._batch), _tensors(batch), strict=True):
            captured.copy_(new)
        self._graph.replay()
        return self._result


def _mapped(batch: RolloutStorage.Batch, function: Callable[[torch.Tensor], torch.Tensor]) -> RolloutStorage.Batch:
    mapped: Any = RolloutStorage.Batch()
    for name, value in vars(batch).items():
        if isinstance(value, torch.Tensor):
            setattr(mapped, name, function(value))
        elif name == "old_distribution_params" and value is not None:
            setattr(mapped, name, tuple(function(tensor) for tensor in value))
    return mapped


def _tensors(batch: RolloutStorage.Batch) -> list[torch.Tensor]:
    tensors: list[torch.Tensor] = []
    _mapped(batch, lambda tensor: tensors.append(tensor) or tensor)
    return tensors
