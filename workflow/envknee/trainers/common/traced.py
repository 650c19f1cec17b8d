"""Exports a policy as traced TorchScript, for libraries without an export.

Input: a network from observations to actions. Output: a file with the call of RSL-RL's exports: `policy(torch.zeros(n, 0), [frames])`
for camera frames, `policy(numbers)` for vectors.
"""

from pathlib import Path
from typing import Any

import torch


class OfImages(torch.nn.Module):
    """Takes an empty tensor of numbers and a list of images, as RSL-RL's exported camera policies do."""

    def __init__(self, means: torch.nn.Module) -> None:
        """Take a traced network of one image."""
        super().__init__()
        self.means = means

    def forward(self, numbers: torch.Tensor, images: list[torch.Tensor]) -> torch.Tensor:
        """Return actions [n, num_actions] for numbers [n, 0] and one image [n, channels, height, width]."""
        return self.means(images[0])


def save_policy(means: torch.nn.Module, observations: torch.Tensor, path: Path) -> None:
    """Write a policy for the CPU. This moves its networks to the CPU, so training cannot go on.

    Args:
        means: mean actions [n, num_actions] from observations [n, ...]
        observations: an example
        path: the file to write
    """
    example = observations.cpu()
    with torch.no_grad():
        traced: Any = torch.jit.trace(means.eval().cpu(), example)
    policy = torch.jit.script(OfImages(traced)) if example.ndim == 4 else traced
    torch.jit.save(policy, str(path))
