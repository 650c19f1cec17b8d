"""Describes the first broken value of a rollout, and remedies for it."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy
import torch

from envknee.measure.watch import EXPLODED_ABOVE, Broken, Watch
from envknee.record.schema import Failure

MAX_ENV_INDICES = 64
"""Most broken environments that are named in the record and dumped."""

DIVERGED_ABOVE = 1e6
"""Training never recovers from a loss or an action std of this size: PPO's clipped losses and a useful std stay below 100."""

LARGE_ACTION = 100.0
"""Policies give actions of about 1; larger actions than this are named as a likely cause."""

GUIDE = (
    "Isaac Lab's Debugging and Training Guide, section Debugging NaNs during Training:"
    " https://isaac-sim.github.io/IsaacLab/main/source/overview/reinforcement-learning/training_guide.html"
)
SOLVER_GUIDE = (
    "Isaac Lab's guide Tune MJWarp:"
    " https://isaac-sim.github.io/IsaacLab/release/3.0.0/source/concepts/solver-tuning/tune_mjwarp.html"
)


def is_image(tensor: torch.Tensor) -> bool:
    """Tell whether a tensor [num_envs, ...] has an image of each environment: at least four dimensions."""
    return tensor.ndim >= 4


def broken_image(stored: Mapping[str, torch.Tensor], newest: Mapping[str, torch.Tensor], steps: int) -> Broken | None:
    """Return the first stored image of a rollout that is not finite; None if all are finite.

    Args:
        stored: by group, the trainer's storage [horizon, num_envs, ...]; slot t has the observations before step t
        newest: by name, results of the newest step [num_envs, ...]
        steps: number of steps of the rollout so far
    """
    images = [
        (max(slot - 1, 0), f"observations/{group}", tensor[slot])
        for group, tensor in stored.items()
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


def hints(tensor: str, settings: Mapping[str, Any], largest_action: float) -> list[str]:
    """Return remedies for the first broken `tensor`, the most likely first, then links to guides. Pure.

    `settings` are current values of the environment's fields, by dotted name; `largest_action` is a magnitude, just before.
    """
    kind = tensor.partition("/")[0]
    bounds = "keep actions within what the robot can do: agent.clip_actions, a smaller action scale"
    if largest_action > LARGE_ACTION:
        first, last = [f"{bounds} (just before they came up to {largest_action:.3g})"], []
    else:
        first, last = [], [bounds]
    if kind == "joint_state_after_reset":
        return [
            "reset into valid states: joints within their limits, no bodies inside each other, quaternions of length 1",
            "look at the ranges of the task's resets",
            GUIDE,
        ]
    if kind in ("joint_state", "body_pose"):
        steps = _now(settings, "env.sim.dt", "with env.decimation larger by as much")
        iterations = _now(settings, "env.sim.physics.solver_cfg.iterations")
        return [
            *first,
            f"a smaller time step of the physics: {steps}",
            f"more solver iterations or substeps: {iterations}, {_now(settings, 'env.sim.physics.num_substeps')}",
            "limits of joints' positions, velocities and efforts, and gains that fit the robot (env.scene.*.actuators)",
            *last,
            GUIDE,
            SOLVER_GUIDE,
        ]
    if kind in ("observations", "rewards"):
        return [
            *first,
            f"joints and bodies were finite: look at how the task computes {tensor} (divisions, roots, logarithms, sensors)",
            GUIDE,
        ]
    return [
        "learn in smaller steps: agent.algorithm.learning_rate, agent.algorithm.max_grad_norm",
        "normalize observations and rewards, so that both are of about 1",
        "a larger batch, or fewer epochs (agent.algorithm.num_learning_epochs)",
        GUIDE,
    ]


def _now(settings: Mapping[str, Any], name: str, more: str = "") -> str:
    now = f"now {settings[name]:.4g}" if name in settings else ""
    known = ", ".join(part for part in (now, more) if part)
    return f"{name} ({known})" if known else name
