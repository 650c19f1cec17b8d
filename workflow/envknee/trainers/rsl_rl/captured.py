"""A step of learning as one CUDA graph: captured once, then replayed on other mini-batches of the same size."""

from collections.abc import Callable
from typing import Any

import torch
from rsl_rl.storage import RolloutStorage

from envknee.measure.captured import capture


class CapturedStep:
    """Replays what a function did with one mini-batch on others.

    The function reads tensors at the addresses that it found when it was captured: the mini-batch is copied to its place
    before each replay, and everything else (rollout, networks, optimizer) must stay where it is. Random numbers go on as they
    would without a graph.
    """

    def __init__(
        self, step: Callable[[RolloutStorage.Batch], torch.Tensor], batch: RolloutStorage.Batch, pool: Any = None
    ) -> None:
        """Capture `step` without doing it; it must have run before, so that nothing is made for the first time in it.

        Args:
            step: takes a mini-batch, and returns a tensor; must not wait for the GPU
            batch: any mini-batch of the size that all will have
            pool: as for `Captured`
        """
        self._batch = _mapped(batch, torch.clone)
        self._step = step
        self._result: Any = None
        self._graph = capture(self._run, pool)

    def _run(self) -> None:
        self._result = self._step(self._batch)

    def __call__(self, batch: RolloutStorage.Batch) -> torch.Tensor:
        """Do the step with a mini-batch, and return what the function would: overwritten by the next call."""
        for kept, new in zip(_tensors(self._batch), _tensors(batch), strict=True):
            kept.copy_(new)
        self._graph.replay()
        return self._result


def _mapped(batch: RolloutStorage.Batch, function: Callable[[torch.Tensor], torch.Tensor]) -> RolloutStorage.Batch:
    made: Any = RolloutStorage.Batch()
    for name, value in vars(batch).items():
        if isinstance(value, torch.Tensor):
            setattr(made, name, function(value))
        elif name == "old_distribution_params":
            setattr(made, name, tuple(function(tensor) for tensor in value))
    return made


def _tensors(batch: RolloutStorage.Batch) -> list[torch.Tensor]:
    tensors: list[torch.Tensor] = []
    _mapped(batch, lambda tensor: tensors.append(tensor) or tensor)
    return tensors
