"""What broke first in a training that broke: which tensor, in which environments, at which step, and what may help.

Input: the tensors of every environment step, as they come. Output: a `Failure`, and a file with the last good state. Knows
torch, and nothing of Isaac Lab. Nothing here waits for the device until a rollout ends.
"""

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

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
"""What the sum over an environment's state, observation or reward stays below; MuJoCo's own limit of positions, velocities and
accelerations (mjMAXVAL). Actions may be larger: what they lead to tells whether they are too large."""

LARGE_ACTION = 100.0
"""Policies give actions of about 1; what exceeds this is named as a likely cause."""

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


class Watch:
    """Notes, for each environment, the first step at which each tensor broke, and the last state at which none had.

    In the order of an environment step: `note_actions`, `note_state`, maybe `note_reset`, then `end_step`.
    """

    def __init__(self, num_envs: int, device: torch.device) -> None:
        """Begin with an empty rollout of `num_envs` environments."""
        self.num_envs = num_envs
        self.settings: Mapping[str, Any] = {}
        """Fields of the environment that decide how stable it is, by dotted name; the task says which there are."""
        self._finite = torch.zeros(num_envs, device=device)
        """What stands for a tensor that a step has not."""
        self._names: list[str] = []
        self._bounds: torch.Tensor | None = None
        self._good: dict[str, torch.Tensor] = {}
        """By name [num_envs, ...]: the newest state of each environment at whose step nothing was broken."""
        self._applied: dict[str, torch.Tensor] = {}
        """The actions that came after that state, in an environment that broke: those of the step at which it did."""
        self.begin_rollout()

    def begin_rollout(self) -> None:
        """Forget the steps of the rollout before."""
        self.steps = 0
        self._first: torch.Tensor | None = None
        """[tensors, num_envs], rows in the order of `_names`."""
        self._is_whole = torch.ones_like(self._finite, dtype=torch.bool)
        self._begin_step()

    def note_actions(self, actions: torch.Tensor, state: Callable[[], Mapping[str, torch.Tensor]]) -> None:
        """Note what a step is about to apply, [num_envs, ...]; `state` tells the state before the very first step."""
        if not self._good:
            self._good = {name: tensor.detach().clone() for name, tensor in state().items()}
        self._sum("actions", actions)
        self._actions = actions.detach()

    def note_state(self, state: Mapping[str, torch.Tensor]) -> None:
        """Note joints and bodies after the physics of a step and before any reset, each [num_envs, ...].

        Args:
            state: names such as `joint_state/robot` and `body_pose/robot`
        """
        for name, tensor in state.items():
            self._sum(name, tensor)
        # Resets of this step will write to the same memory.
        self._state = {name: tensor.detach().clone() for name, tensor in state.items()}

    def note_reset(self, joints: Mapping[str, torch.Tensor]) -> None:
        """Note joints once some environments were reset, by the names that `note_state` has for them."""
        for name, tensor in joints.items():
            self._sum(name.replace("joint_state", "joint_state_after_reset", 1), tensor)

    def end_step(self, seen: Mapping[str, torch.Tensor]) -> None:
        """Note what a step gave, each [num_envs, ...]: `observations/<group>` and `rewards`."""
        for name, tensor in seen.items():
            self._sum(name, tensor)
        self._settle()
        self.steps += 1

    def first_broken(self) -> tuple[str, int, torch.Tensor] | None:
        """Return the tensor that broke first in this rollout, the step, and the environments [k]; None where all is finite."""
        if self._sums:  # a step that did not come to its end
            self._settle()
        if self._first is None:
            return None
        firsts = self._first.min(dim=1).values.tolist()
        step, _, row = min(
            (step, rank(name), row) for row, (name, step) in enumerate(zip(self._names, firsts, strict=True))
        )
        if step == NEVER:
            return None
        return self._names[row], step, (self._first[row] == step).nonzero()[:, 0]

    def last_good(self, indices: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return the last good state of some environments [k], and the actions that were applied to it."""
        return {
            name: tensor[indices] for name, tensor in {**_prefixed("last_good", self._good), **self._applied}.items()
        }

    def _begin_step(self) -> None:
        self._sums: dict[str, torch.Tensor] = {}
        self._state: dict[str, torch.Tensor] = {}
        self._actions: torch.Tensor | None = None

    def _sum(self, name: str, tensor: torch.Tensor) -> None:
        """Keep the sum over each environment: NaN or infinite when an element is. It reads the tensor once and writes little."""
        if tensor.is_floating_point():
            flat = tensor.detach().reshape(self.num_envs, -1)
            self._sums[name] = flat.sum(dim=1, dtype=torch.float32)

    def _settle(self) -> None:
        """Take the step's sums into what is known of the rollout."""
        self._names += [name for name in self._sums if name not in self._names]
        sums = torch.stack([self._sums.get(name, self._finite) for name in self._names])
        finite = sums.abs() <= self._limits()
        first = torch.where(finite, NEVER, self.steps)
        if self._first is not None:  # names that came later were finite until now
            first[: len(self._first)] = torch.minimum(first[: len(self._first)], self._first)
        self._first = first
        if self._actions is not None:
            known = self._applied.get("actions", self._actions)
            self._applied["actions"] = _where(self._is_whole, self._actions, known)
        self._is_whole = self._is_whole & finite.all(dim=0)
        for name, tensor in self._state.items():
            self._good[name] = _where(self._is_whole, tensor, self._good.get(name, tensor))
        self._begin_step()

    def _limits(self) -> torch.Tensor:
        """Return what each tensor's sum may be, [tensors, 1]; NaN and infinity are beyond any limit."""
        if self._bounds is None or len(self._bounds) != len(self._names):
            finite = torch.finfo(torch.float32).max
            bounds = [finite if name == "actions" else EXPLODED_ABOVE for name in self._names]
            self._bounds = torch.tensor(bounds, device=self._finite.device)[:, None]
        return self._bounds


def _where(chosen: torch.Tensor, one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return `one` for the chosen environments [num_envs], and `other` for the rest, both [num_envs, ...]."""
    return torch.where(chosen.view(-1, *[1] * (one.ndim - 1)), one, other)


def _prefixed(prefix: str, tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {f"{prefix}/{name}": tensor for name, tensor in tensors.items()}


def rank(name: str) -> int:
    """Return the place of a tensor in `ORDER`: of those that broke at the same step the first is the cause. Pure."""
    return ORDER.index(name.partition("/")[0])


def of_rollout(
    watch: Watch, iteration: int, seen: Callable[[int], Mapping[str, torch.Tensor]], dump: Path
) -> tuple[str, Failure] | None:
    """Say what broke first in a rollout, in a sentence and as a failure, and dump what is known of it; None where nothing did.

    Args:
        watch: what noted the rollout
        iteration: whose rollout it is
        seen: gives what a step observed, as far as that is still known, each [num_envs, ...]
        dump: the file to write, .npz without pickles
    """
    found = watch.first_broken()
    if found is None:
        return None
    name, step, every = found
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
