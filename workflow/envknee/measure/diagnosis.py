"""What broke first in a training that broke.

Input: what a `Watch` noted, images that a trainer kept, losses. Output: a `Failure`, and a file with the last good state.
"""

import math
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy
import torch

from envknee.measure.hints import LARGE_ACTION, hints
from envknee.measure.watch import EXPLODED_ABOVE, Broken, Watch
from envknee.record.schema import Failure

MAX_ENV_INDICES = 64
"""How many of the environments with a NaN are named in the record and dumped."""

DIVERGED_ABOVE = 1e6
"""A loss or an action std of this size never comes back: PPO's clipped losses and a useful std stay below 100."""

IMAGE_NDIM = 4
"""Dimensions of a tensor of images, [num_envs, ...]."""


def is_image(tensor: torch.Tensor) -> bool:
    """Tell whether a tensor [num_envs, ...] has a picture of each environment."""
    return tensor.ndim >= IMAGE_NDIM


def broken_image(kept: Mapping[str, torch.Tensor], newest: Mapping[str, torch.Tensor], steps: int) -> Broken | None:
    """Return the first image of a rollout that is not finite, among those that a trainer kept; None where all are.

    Args:
        kept: by group [horizon, num_envs, ...]; slot t is what was seen before step t
        newest: by name [num_envs, ...], what the newest step gave
        steps: of the rollout until now
    """
    images = [
        (max(slot - 1, 0), f"observations/{group}", tensor[slot])
        for group, tensor in kept.items()
        for slot in range(min(steps, len(tensor)))
    ]
    images += [(steps - 1, name, tensor) for name, tensor in newest.items()]
    for step, name, image in sorted(images, key=lambda place: place[:2]):
        if is_image(image) and image.is_floating_point():
            sums = image.reshape(len(image), -1).sum(dim=1, dtype=torch.float32)
            indices = (~sums.isfinite()).nonzero()[:, 0]
            if len(indices):
                return Broken(name, step, indices)
    return None


def of_rollout(
    watch: Watch, broken: Broken, iteration: int, seen: Callable[[int], Mapping[str, torch.Tensor]], dump: Path
) -> tuple[str, Failure]:
    """Say what broke first in a rollout, in a sentence and as a failure, and dump what is known of it.

    Args:
        watch: what noted the rollout
        broken: what broke first in it; of an image the last good state is the newest one
        iteration: whose rollout it is
        seen: gives what a step observed, as far as that is still known, each [num_envs, ...]
        dump: the file to write, .npz without pickles
    """
    name, step, every = broken
    indices = every[:MAX_ENV_INDICES]
    good = watch.last_good(indices)
    arrays = (
        {key: tensor[indices.to(tensor.device)] for key, tensor in seen(step).items()} | good | {"env_indices": indices}
    )
    numpy.savez_compressed(dump, **{key: tensor.cpu().numpy() for key, tensor in arrays.items()})  # type: ignore[arg-type]
    largest = float(good["actions"].abs().max()) if "actions" in good else 0.0
    failure = Failure(
        iteration=iteration,
        step=step,
        tensor=name,
        env_indices=indices.tolist(),
        dump=dump.name,
        hints=hints(name, watch.settings, largest),
    )
    after = f", after actions of up to {largest:.3g}" if largest > LARGE_ACTION else ""
    return (
        f"{name} became NaN or infinite (or passed {EXPLODED_ABOVE:g}) in {len(every)} of {watch.num_envs} environments"
        f" at iteration {iteration}, step {step}{after}",
        failure,
    )


def of_value(name: str, value: float, iteration: int) -> tuple[str, Failure] | None:
    """Say what is wrong with a loss or a parameter's largest element, in a sentence and as a failure; None where nothing is.

    Args:
        name: such as `losses/value`
        value: the number
        iteration: at which it was seen
    """
    if abs(value) <= DIVERGED_ABOVE:
        return None
    verb = "grew to" if math.isfinite(value) else "became"
    failure = Failure(iteration=iteration, tensor=name, env_indices=[], dump=None, hints=hints(name, {}, 0.0))
    return f"{name} {verb} {value:.3g} at iteration {iteration}", failure
