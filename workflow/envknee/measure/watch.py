"""Finds the first broken number of a rollout, with its step, its environments and their last good state.

Broken: NaN, infinite, or (actions excepted) beyond `EXPLODED_ABOVE`. Input: the tensors of every environment step. Only
`first_broken` waits for the device.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch.nn import functional

NEVER = 2**31 - 1
"""Stands for the step at which an environment broke, as long as it has not."""

EXPLODED_ABOVE = 1e10
"""Limit of the magnitude of every state, observation and reward: MuJoCo's own limit of positions, velocities and accelerations
(mjMAXVAL). Actions may be larger, because their effects show whether they are too large."""

LOOK_EVERY = 8
"""Least number of steps that are checked together."""

KEPT_BYTES = 16_000_000
"""So many bytes are kept before they are checked: some 130 steps of 1,024 cart-poles, 8 of 16,384 humanoids."""

ACTIONS_ABOVE = torch.finfo(torch.float32).max

State = Mapping[str, Sequence[torch.Tensor]]
"""Tensors of joints and bodies by name, each one or several [num_envs, ...]."""

ORDER = ("actions", "joint_state", "body_pose", "joint_state_after_reset", "observations", "rewards")
"""Tensors that can break in a step, causes before effects: actions, physics, resets, observations and rewards."""


class Broken(NamedTuple):
    """The first broken tensor of a rollout."""

    tensor: str
    step: int
    env_indices: torch.Tensor
    """[k], the environments in which the tensor was broken at that step."""


class Watch:
    """Keeps for each environment the first broken step with all its tensors, and the last good state.

    Calls in each environment step: `note_actions`, `note_state`, then `end_step`. The last two copy their tensors with one kernel
    each, and must get the same names in every step. Several steps are checked together, because every further kernel makes a step
    slower if the CPU limits it.
    """

    def __init__(self, num_envs: int, device: torch.device) -> None:
        self.num_envs = num_envs
        self._settings: Mapping[str, Any] = {}
        self._joints: Callable[[], State] = dict
        self._device = device
        self._every = torch.arange(num_envs, device=device)
        self._shapes: dict[str, dict[str, tuple[int, ...]]] = {}
        """For each part of a step (`before` and `after` its resets), in the order of first calls: name -> shape for one environment."""
        self._widths: dict[str, int] = {}
        """Numbers of each part."""
        self._actions: torch.Tensor | None = None
        """Actions of a step whose state is not noted yet."""
        self._steps: list[dict[str, torch.Tensor]] = []
        """Steps since the last check: part -> [num_envs, numbers]."""
        self._states = 0
        """How many of these steps have a state."""
        self._limits = torch.empty(0, device=device)
        """[numbers], largest allowed magnitude of each number of a step."""
        self._rows: torch.Tensor | None = None
        """[num_envs, numbers], all numbers of one step: the step at which the environment broke, else the newest."""
        self._good: torch.Tensor | None = None
        """[num_envs, numbers], the newest state of a step in which nothing was broken."""
        self.begin_rollout()

    def describe_task(self, settings: Mapping[str, Any], joints: Callable[[], State]) -> None:
        """Take what the task knows, before its first step.

        Args:
            settings: fields of the environment that affect its stability, by dotted name
            joints: returns the joints at a step's end, after resets, by names such as `joint_state_after_reset/robot`
        """
        self._settings, self._joints = settings, joints

    @property
    def settings(self) -> Mapping[str, Any]:
        """Fields of the environment that affect its stability, by dotted name."""
        return self._settings

    def release(self) -> None:
        """Hold nothing of the simulation any more."""
        self._joints = dict

    def begin_rollout(self) -> None:
        """Forget the steps of the previous rollout, but keep the last good state."""
        self._look()
        self._looked_at = 0
        self._actions = None
        self._broken_at = torch.full((self.num_envs,), NEVER, device=self._device)

    def note_actions(self, actions: torch.Tensor, state: Callable[[], State]) -> None:
        """Keep the actions [num_envs, ...] that a step will apply; `state` returns the state before the very first step."""
        if self._good is None and (before := state()):
            self._good = self._joined(before)
        self._actions = actions

    def note_state(self, state: State) -> None:
        """Store the actions, and joints and bodies after the physics of a step and before any reset.

        Args:
            state: by names such as `joint_state/robot` and `body_pose/robot`, each one or several tensors [num_envs, ...]
        """
        actions = {} if self._actions is None else {"actions": [self._actions]}
        self._actions = None
        self._steps.append({"before": self._row_of("before", actions | dict(state))})
        self._states += 1

    def end_step(self, seen: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Store the results of a step, each [num_envs, ...]: `rewards`, and `observations/<group>` without images. And the joints.

        Return the copies, [num_envs, numbers]: of `seen` in its order, after those of the joints.

        Reading every image would slow the step down. The trainer stores the images: `broken_image` checks them later.
        """
        if not self._steps or "after" in self._steps[-1]:  # a task without a state
            self._steps.append({})
        results = {**self._joints(), **{name: [tensor] for name, tensor in seen.items()}}
        self._steps[-1]["after"] = self._row_of("after", results)
        newest_step = self._steps[-1]
        unchecked_bytes = len(self._steps) * sum(part.nbytes for part in newest_step.values())
        if len(self._steps) >= LOOK_EVERY and unchecked_bytes >= KEPT_BYTES:
            self._look()
        return newest_step["after"]

    def first_step(self) -> torch.Tensor:
        """Return the step of `first_broken` [], or `NEVER`. Does not wait for the device."""
        if self._actions is not None:  # the step broke before its state was noted
            self._steps.append({"before": self._row_of("before", {"actions": [self._actions]})})
            self._actions = None
        self._look()
        return self._broken_at.amin()

    def first_broken(self) -> Broken | None:
        """Return the first broken tensor of this rollout, an unfinished step included; None if nothing is broken."""
        step = int(self.first_step())
        if self._rows is None or step == NEVER:
            return None
        indices = (self._broken_at == step).nonzero()[:, 0]
        fine = self._rows[indices].abs() <= self._limits  # False for NaN
        # Of tensors that broke at the same step the first in `ORDER` is the cause.
        for name, columns in sorted(
            self._names().items(), key=lambda at: (ORDER.index(at[0].partition("/")[0]), at[0])
        ):
            broken = ~fine[:, columns].all(dim=1)
            if broken.any():
                return Broken(name, step, indices[broken])
        raise RuntimeError("an environment broke, and none of its numbers did")

    def last_good(self, indices: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return the last good state of some environments [k] as `last_good/<name>`, and the actions applied to it as `actions`."""
        tensors = {}
        if self._good is not None:
            shapes = {name: self._shapes["before"][name] for name in self._state_names()}
            for name, columns in _columns(shapes).items():
                tensors[f"last_good/{name}"] = self._good[indices, columns].view(-1, *shapes[name])
        columns = self._names().get("actions")
        if self._rows is not None and columns is not None:
            tensors["actions"] = self._rows[indices, columns].view(-1, *self._shapes["before"]["actions"])
        return tensors

    def _row_of(self, part: str, named: State) -> torch.Tensor:
        """Return a copy of the named tensors, [num_envs, numbers]."""
        row = self._joined(named)
        if part not in self._shapes:
            shapes = self._shapes[part] = {name: _shape_of(tensors) for name, tensors in named.items()}
            limits = {name: ACTIONS_ABOVE if name == "actions" else EXPLODED_ABOVE for name in shapes}
            new = [torch.full((math.prod(shapes[name]),), limits[name], device=self._device) for name in shapes]
            self._limits = torch.cat([self._limits, *new])
            self._widths[part] = row.shape[1]
        # A step that broke before its state was noted has actions alone.
        missing = self._widths[part] - row.shape[1]
        return functional.pad(row, (0, missing)) if missing else row

    def _joined(self, named: State) -> torch.Tensor:
        pieces = [
            tensor if tensor.ndim == 2 else tensor.reshape(self.num_envs, -1)
            for tensors in named.values()
            for tensor in tensors
        ]
        return torch.cat(pieces, dim=1).detach()

    def _look(self) -> None:
        """Check the steps since the last check, an unfinished one included."""
        if not self._steps:
            return
        steps, self._steps = self._steps, []
        count, began = len(steps), self._looked_at
        self._looked_at += count
        parts = [
            step[part] if part in step else torch.zeros(self.num_envs, self._widths[part], device=self._device)
            for step in steps
            for part in self._shapes
        ]
        rows = torch.cat(parts, dim=1).view(self.num_envs, count, -1)
        fine = (rows.abs() <= self._limits).all(dim=2)
        first = torch.where(fine, count, torch.arange(count, device=self._device)).amin(dim=1)
        is_whole = self._broken_at == NEVER
        if names := self._state_names():
            # The newest step may have no state yet.
            good = first.clamp(max=self._states)
            columns = slice(self._names()[names[0]].start, self._names()[names[-1]].stop)
            states = rows[self._every, (good - 1).clamp(min=0), columns]
            has_good_step = (is_whole & (good > 0))[:, None]
            self._good = states if self._good is None else torch.where(has_good_step, states, self._good)
        newest = rows[self._every, first.clamp(max=count - 1)]
        if self._rows is not None:
            before = functional.pad(self._rows, (0, newest.shape[1] - self._rows.shape[1]))
            newest = torch.where(is_whole[:, None], newest, before)
        self._rows = newest
        self._broken_at = torch.where(is_whole & (first < count), first + began, self._broken_at)
        self._states = 0

    def _state_names(self) -> list[str]:
        """Return the names of the tensors of a state, which lie side by side in a row."""
        return [name for name in self._shapes.get("before", {}) if name != "actions"]

    def _names(self) -> dict[str, slice]:
        """Return the columns of each tensor in a row of a whole step."""
        return _columns({name: shape for shapes in self._shapes.values() for name, shape in shapes.items()})


def _columns(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, slice]:
    """Return the columns of each tensor, which lie side by side in the order of `shapes`."""
    widths = [math.prod(shape) for shape in shapes.values()]
    ends = itertools.accumulate(widths)
    return {name: slice(end - width, end) for name, width, end in zip(shapes, widths, ends, strict=True)}


def _shape_of(tensors: Sequence[torch.Tensor]) -> tuple[int, ...]:
    """Return the shape for one environment of tensors [num_envs, ...]; several are flattened and joined."""
    if len(tensors) == 1:
        return tuple(tensors[0].shape[1:])
    return (sum(math.prod(tensor.shape[1:]) for tensor in tensors),)
