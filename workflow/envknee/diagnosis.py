"""What broke first in a training that broke: which tensor, in which environments, at which step, and what may help.

Input: the tensors of every environment step, as they come. Output: a `Failure`, and a file with the last good state. Knows
torch, and nothing of Isaac Lab. Nothing here waits for the device until a rollout ends.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy
import torch

from envknee.record import Failure

NEVER = 2**31 - 1
"""The step at which a finite environment broke."""

MAX_ENV_INDICES = 64
"""How many of the environments with a NaN are named in the record and dumped."""

DIVERGED_ABOVE = 1e6
"""A loss or an action std of this size never comes back: PPO's clipped losses and a useful std stay below 100."""

EXPLODED_ABOVE = 1e10
"""What every state, observation and reward stays below; MuJoCo's own limit of positions, velocities and accelerations
(mjMAXVAL). Actions may be larger: what they lead to tells whether they are too large."""

LOOK_EVERY = 8
"""Steps that are looked at together: their states are kept until then, a few hundred bytes per environment and step."""

IMAGE_NDIM = 4
"""Dimensions of a tensor of images, [num_envs, ...]."""

LARGE_ACTION = 100.0
"""Policies give actions of about 1; what exceeds this is named as a likely cause."""

STATE = ("joint_state", "body_pose")
ORDER = ("actions", "joint_state", "body_pose", "joint_state_after_reset", "observations", "rewards")
"""What can break in a step, causes before what follows from them: actions of the step, physics, resets, and what is seen of them."""

GUIDE = (
    "Isaac Lab's Debugging and Training Guide, section Debugging NaNs during Training:"
    " https://isaac-sim.github.io/IsaacLab/main/source/overview/reinforcement-learning/training_guide.html"
)
SOLVER_GUIDE = (
    "Isaac Lab's guide Tune MJWarp:"
    " https://isaac-sim.github.io/IsaacLab/release/3.0.0/source/concepts/solver-tuning/tune_mjwarp.html"
)


class Broken(NamedTuple):
    """What broke first in a rollout."""

    tensor: str
    step: int
    env_indices: torch.Tensor
    """[k], the environments in which it was broken at that step."""


class Watch:
    """Notes, for each environment, the first step at which each tensor broke, and the last state at which none had.

    In the order of an environment step: `note_actions`, `note_state`, maybe `note_reset`, then `end_step`. Each takes copies,
    which nothing writes to any more. They are looked at some steps at a time: where a GPU waits for the CPU, every kernel more
    makes a step slower.
    """

    def __init__(self, num_envs: int, device: torch.device) -> None:
        """Begin with an empty rollout of `num_envs` environments."""
        self.num_envs = num_envs
        self.settings: Mapping[str, Any] = {}
        """Fields of the environment that decide how stable it is, by dotted name; the task says which there are."""
        self._device = device
        self._every = torch.arange(num_envs, device=device)
        self._good: dict[str, torch.Tensor] = {}
        """By name [num_envs, ...]: the newest state of each environment at whose step nothing was broken."""
        self._applied: torch.Tensor | None = None
        """Actions [num_envs, ...] that came after that state, in an environment that broke: those of the step at which it did."""
        self._newest: list[dict[str, torch.Tensor]] = []
        """Of each step since the last look, by name, [num_envs, ...]."""
        self.begin_rollout()

    def begin_rollout(self) -> None:
        """Forget the steps of the rollout before, but for the last good state."""
        if self._newest:
            self._look()
        self._looked_at = 0
        self._in_step = False
        self._firsts: dict[str, list[torch.Tensor]] = {}
        """By name, of each look [num_envs]: the first step at which it was broken, or `NEVER`."""
        self._is_whole = torch.ones(self.num_envs, dtype=torch.bool, device=self._device)

    def note_actions(self, actions: torch.Tensor, state: Callable[[], Mapping[str, torch.Tensor]]) -> None:
        """Note what a step is about to apply, [num_envs, ...]; `state` tells the state before the very first step."""
        if not self._good:
            self._good = dict(state())
        self._note("actions", actions)

    def note_state(self, state: Mapping[str, torch.Tensor]) -> None:
        """Note joints and bodies after the physics of a step and before any reset.

        Args:
            state: by names such as `joint_state/robot` and `body_pose/robot`, each [num_envs, ...]
        """
        for name, tensor in state.items():
            self._note(name, tensor)

    def note_reset(self, joints: Mapping[str, torch.Tensor]) -> None:
        """Note joints once some environments were reset, by the names that `note_state` has for them."""
        for name, tensor in joints.items():
            self._note(name.replace("joint_state", "joint_state_after_reset", 1), tensor)

    def end_step(self, seen: Mapping[str, torch.Tensor]) -> None:
        """Note what a step gave, each [num_envs, ...]: `rewards`, and `observations/<group>` that are no images.

        To read every image would take a GPU a part of what a step takes. The trainer keeps them: see `broken_image`.
        """
        for name, tensor in seen.items():
            self._note(name, tensor)
        self._in_step = False
        if len(self._newest) == LOOK_EVERY:
            self._look()

    def first_broken(self) -> Broken | None:
        """Return what broke first in this rollout, a step without an end included; None where all is finite."""
        if self._newest:
            self._look()
        if not self._firsts:
            return None
        firsts = {name: torch.stack(looks).amin(dim=0) for name, looks in self._firsts.items()}
        earliest = torch.stack(list(firsts.values())).amin(dim=1).tolist()
        step, _, name = min((step, rank(name), name) for name, step in zip(firsts, earliest, strict=True))
        return None if step == NEVER else Broken(name, step, (firsts[name] == step).nonzero()[:, 0])

    def last_good(self, indices: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return the last good state of some environments [k], and the actions that were applied to it."""
        applied = {} if self._applied is None else {"actions": self._applied}
        return {name: tensor[indices] for name, tensor in {**_prefixed("last_good", self._good), **applied}.items()}

    def _note(self, name: str, tensor: torch.Tensor) -> None:
        if not self._in_step:
            self._newest.append({})
            self._in_step = True
        self._newest[-1][name] = tensor if tensor.is_floating_point() else tensor.float()

    def _look(self) -> None:
        """Take the newest steps into what is known of the rollout."""
        steps, self._newest, self._in_step = self._newest, [], False
        count, began = len(steps), self._looked_at
        self._looked_at += count
        number = torch.arange(count, device=self._device)[:, None]
        tensors, firsts = {}, []
        for name in dict.fromkeys(name for step in steps for name in step):
            tensors[name] = torch.stack(_filled([step.get(name) for step in steps]))  # [count, num_envs, ...]
            limit = torch.finfo(torch.float32).max if name == "actions" else EXPLODED_ABOVE
            # No NaN is below a limit.
            fine = (tensors[name].abs() <= limit).reshape(count, self.num_envs, -1).all(dim=2)
            firsts.append(torch.where(fine, count, number).amin(dim=0))
        first = torch.stack(firsts)
        for name, row in zip(tensors, torch.where(first < count, first + began, NEVER), strict=True):
            self._firsts.setdefault(name, []).append(row)
        first_bad = first.amin(dim=0)
        state = [name for name in tensors if name.partition("/")[0] in STATE]
        # The newest step may have had no state yet.
        good = first_bad.clamp(max=sum(any(name in step for name in state) for step in steps))
        newer, place = self._is_whole & (good > 0), (good - 1).clamp(min=0)
        for name in state:
            newest = tensors[name][place, self._every]
            before = self._good.get(name)
            self._good[name] = newest if before is None else _where(newer, newest, before)
        if "actions" in tensors:
            applied = tensors["actions"][first_bad.clamp(max=count - 1), self._every]
            self._applied = applied if self._applied is None else _where(self._is_whole, applied, self._applied)
        self._is_whole = self._is_whole & (first_bad == count)


def _filled(tensors: Sequence[torch.Tensor | None]) -> list[torch.Tensor]:
    """Put a finite tensor wherever there is none."""
    known = next(tensor for tensor in tensors if tensor is not None)
    nothing = torch.zeros_like(known) if any(tensor is None for tensor in tensors) else known
    return [nothing if tensor is None else tensor for tensor in tensors]


def _where(chosen: torch.Tensor, one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return `one` for the chosen environments [num_envs], and `other` for the rest, both [num_envs, ...]."""
    return torch.where(chosen.view(-1, *[1] * (one.ndim - 1)), one, other)


def _prefixed(prefix: str, tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {f"{prefix}/{name}": tensor for name, tensor in tensors.items()}


def rank(name: str) -> int:
    """Return the place of a tensor in `ORDER`: of those that broke at the same step the first is the cause. Pure."""
    return ORDER.index(name.partition("/")[0])


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


def hints(tensor: str, settings: Mapping[str, Any], largest_action: float) -> list[str]:
    """Return what may help, most likely first, and where that stands. Pure.

    Args:
        tensor: what broke first
        settings: the environment's fields as they are now, by dotted name
        largest_action: of those just before, by magnitude
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
