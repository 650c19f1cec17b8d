"""Describes a trainer's learner to the meter: what it learns, what it stores, and how it works."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from envknee.machine.nvml import GB


@dataclass(frozen=True, kw_only=True)
class LearnerDescription:
    """What a meter must know of a learner. What is left out, the learner does not have."""

    state: Callable[[], Mapping[str, torch.Tensor]] = dict
    """Returns the learner's state by name: `torch.nn.Parameter`s, and running statistics as plain tensors."""
    num_mini_batches: int | None = None
    """Optimizer steps per epoch; None if batches are drawn from a replay buffer."""
    rollout_observations: Callable[[], Mapping[str, torch.Tensor]] = dict
    """Returns, by group, the storage of the newest rollout's observations [horizon, num_envs, ...]; slot t has the policy's observations
    before step t."""
    previous_observations: Callable[[], Mapping[str, torch.Tensor]] = dict
    """The same for the rollout that a pipeline learns from, which was collected one iteration earlier."""
    stored_bytes: int | None = None
    """Size of the whole rollout or replay buffer on the device; None: the trainer reported the learner to `MemoryWatch` itself."""
    optimizers: Sequence[torch.optim.Optimizer] = ()
    """Optimizers of the tensors in `state`; their own state is the model's memory, too."""
    export_policy: Callable[[Path], None] | None = None
    """Writes the policy to a file."""
    calls_while_gpu_learns: bool = False
    """Whether each update calls `Meter.while_gpu_learns`."""

    def parameters(self) -> dict[str, torch.Tensor]:
        """Return the parameters by name, without running statistics: some of those count transitions."""
        return {
            name: tensor.detach()
            for name, tensor in self.state().items()
            if isinstance(tensor, torch.nn.Parameter) and tensor.numel()
        }

    def rollout_gb(self, device: torch.device) -> float:
        """Return the size of the stored observations on the device; without any, that of the whole storage."""
        observations = self.rollout_observations().values()
        if not observations:
            return (self.stored_bytes or 0) / GB
        # Storage on the host takes no GPU memory.
        return sum(tensor.nbytes for tensor in observations if tensor.device.type == device.type) / GB


NO_LEARNER = LearnerDescription()
"""Stands for the learner as long as none is made, and after it was released."""
