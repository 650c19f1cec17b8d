"""Describes the first broken value of a rollout.

Input: a `Watch`, images in a trainer's storage. Output: a `Failure`, and a file with the last good state.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy
import torch

from envknee.measure.hints import LARGE_ACTION, hints
from envknee.measure.watch import EXPLODED_ABOVE, Broken, Watch
from envknee.record.schema import Failure

MAX_ENV_INDICES = 64
"""Most broken environments that are named in the record and dumped."""

DIVERGED_ABOVE = 1e6
"""Training never recovers from a loss or an action std of this size: PPO's clipped losses and a useful std stay below 100."""


def is_image(tensor: torch.Tensor) -> bool:
    """Tell whether a tensor [num_envs, ...] has an image of each environment: at least four dimensions."""
    return tensor.ndim >= 4


def broken_image(kept: Mapping[str, torch.Tensor], newest: Mapping[str, torch.Tensor], steps: int) -> Broken | None:
    """Return the first stored image of a rollout that is not finite; None if all are finite.

    Args:
        kept: by group, the trainer's storage [horizon, num_envs, ...]; slot t has the observations before step t
        newest: by name, results of the newest step [num_envs, ...]
        steps: number of steps of the rollout so far
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
    """Return a sentence and a failure for the first broken tensor of a rollout, and dump its environments' tensors.

    Args:
        watch: the watch of the rollout
        broken: its first broken tensor; for an image the last good state is the newest state
        iteration: iteration of the rollout
        seen: returns the observations after a step, as far as they are still stored, each [num_envs, ...]
        dump: .npz file to write, without pickles
    """
    name, step, all_indices = broken
    indices = all_indices[:MAX_ENV_INDICES]
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
        f"{name} became NaN or infinite (or passed {EXPLODED_ABOVE:g}) in {len(all_indices)} of {watch.num_envs} environments"
        f" at iteration {iteration}, step {step}{after}",
        failure,
    )
