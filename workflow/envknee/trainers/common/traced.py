"""Exports a policy as traced TorchScript, for libraries without an export.

Input: a network from observations to actions. Output: a file with the call of RSL-RL's exports: `policy(torch.zeros(n, 0), [frames])`
for camera frames, `policy(numbers)` for vectors.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch


class Means(torch.nn.Module):
    """A function of observations, as a module that holds the networks which the function calls."""

    def __init__(self, networks: torch.nn.Module, means: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.networks = networks
        self.forward = means


class OfImages(torch.nn.Module):
    """Takes an empty tensor of numbers and a list of images, as RSL-RL's exported camera policies do."""

    def __init__(self, means: torch.nn.Module) -> None:
        super().__init__()
        self.means = means

    def forward(self, numbers: torch.Tensor, images: list[torch.Tensor]) -> torch.Tensor:
        """Return actions [n, num_actions] for numbers [n, 0] and one image [n, channels, height, width]."""
        return self.means(images[0])


def save_policy(
    networks: torch.nn.Module, means: Callable[[torch.Tensor], torch.Tensor], observations: torch.Tensor, path: Path
) -> None:
    """Write a policy for the CPU. This moves its networks to the CPU, so training cannot go on.

    `means` calls `networks`, and returns mean actions [n, num_actions] for observations [n, ...] such as the given ones.
    """
    example = observations.cpu()
    with torch.no_grad():
        traced: Any = torch.jit.trace(Means(networks, means).eval().cpu(), example)
    policy = torch.jit.script(OfImages(traced)) if example.ndim == 4 else traced
    torch.jit.save(policy, str(path))
