"""Which number of a simulation broke first: in which environments, at which step, from which last good state.

Input: the tensors of every environment step, as they come. Nothing here waits for the device until a rollout ends.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch.nn import functional

NEVER = 2**31 - 1
"""The step at which a finite environment broke."""

EXPLODED_ABOVE = 1e10
"""What every state, observation and reward stays below; MuJoCo's own limit of positions, velocities and accelerations
(mjMAXVAL). Actions may be larger: what they lead to tells whether they are too large."""

LOOK_EVERY = 8
"""Steps that are looked at together: their states are kept until then, a few hundred bytes per environment and step."""

ORDER = ("actions", "joint_state", "body_pose", "joint_state_after_reset", "observations", "rewards")
"""What can break in a step, causes before what follows from them: actions of the step, physics, resets, and what is seen of them."""


class Broken(NamedTuple):
    """What broke first in a rollout."""

    tensor: str
    step: int
    env_indices: torch.Tensor
    """[k], the environments in which it was broken at that step."""


class Watch:
    """Notes, for each environment, the first step at which it broke, all that was noted of that step, and the last good state.

    In the order of an environment step: `note_actions`, `note_state`, maybe `note_reset`, then `end_step`. Each copies what it is
    given with one kernel, and has the same names in every step. Copies are looked at some steps at a time: where a GPU waits for
    the CPU, every kernel more makes a step slower.
    """

    def __init__(self, num_envs: int, device: torch.device) -> None:
        """Begin with an empty rollout of `num_envs` environments."""
        self.num_envs = num_envs
        self.settings: Mapping[str, Any] = {}
        """Fields of the environment that decide how stable it is, by dotted name; the task says which there are."""
        self._device = device
        self._every = torch.arange(num_envs, device=device)
        self._shapes: dict[str, dict[str, tuple[int, ...]]] = {}
        """By what was noted (`state`, ...), in the order in which it first was: by name, the shape for one environment."""
        self._steps: list[dict[str, torch.Tensor]] = []
        """Of each step since the last look, by the same words, [num_envs, numbers]."""
        self._limits = torch.empty(0, device=device)
        """Of each number of a step's row, what its magnitude must not pass."""
        self._rows: torch.Tensor | None = None
        """[num_envs, numbers], all of a step: of an environment that broke the step at which it did, of another the newest."""
        self._good: torch.Tensor | None = None
        """[num_envs, numbers], the newest state at whose step nothing was broken."""
        self.begin_rollout()

    def begin_rollout(self) -> None:
        """Forget the steps of the rollout before, but for the last good state."""
        if self._steps:
            self._look()
        self._looked_at = 0
        self._in_step = False
        self._broken_at = torch.full((self.num_envs,), NEVER, device=self._device)

    def note_actions(self, actions: torch.Tensor, state: Callable[[], Mapping[str, Sequence[torch.Tensor]]]) -> None:
        """Note what a step is about to apply, [num_envs, ...]; `state` tells the state before the very first step."""
        if self._good is None and (before := state()):
            self._good = self._row_of("state", before)
        self._note("actions", {"actions": [actions]})

    def note_state(self, state: Mapping[str, Sequence[torch.Tensor]]) -> None:
        """Note joints and bodies after the physics of a step and before any reset.

        Args:
            state: by names such as `joint_state/robot` and `body_pose/robot`, each one tensor [num_envs, ...] or several
        """
        self._note("state", state)

    def note_reset(self, joints: Mapping[str, Sequence[torch.Tensor]]) -> None:
        """Note joints once some environments were reset, by the names that `note_state` has for them."""
        renamed = {name.replace("joint_state", "joint_state_after_reset", 1): every for name, every in joints.items()}
        self._note("reset", renamed)

    def end_step(self, seen: Mapping[str, torch.Tensor]) -> None:
        """Note what a step gave, each [num_envs, ...]: `rewards`, and `observations/<group>` that are no images.

        To read every image would take a GPU a part of what a step takes. The trainer keeps them: see `broken_image`.
        """
        self._note("seen", {name: [tensor] for name, tensor in seen.items()})
        self._in_step = False
        if len(self._steps) == LOOK_EVERY:
            self._look()

    def first_broken(self) -> Broken | None:
        """Return what broke first in this rollout, a step without an end included; None where all is finite."""
        if self._steps:
            self._look()
        step = int(self._broken_at.amin())
        if self._rows is None or step == NEVER:
            return None
        indices = (self._broken_at == step).nonzero()[:, 0]
        fine = self._rows[indices].abs() <= self._limits  # no NaN is below a limit
        for name, columns in sorted(self._names().items(), key=lambda item: (rank(item[0]), item[0])):
            broken = ~fine[:, columns].all(dim=1)
            if broken.any():
                return Broken(name, step, indices[broken])
        raise RuntimeError("an environment broke, and none of its numbers did")

    def last_good(self, indices: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return the last good state of some environments [k], and the actions that were applied to it."""
        tensors = {}
        if self._good is not None:
            shapes = self._shapes["state"]
            for name, columns in _columns(shapes).items():
                tensors[f"last_good/{name}"] = self._good[indices, columns].view(-1, *shapes[name])
        columns = self._names().get("actions")
        if self._rows is not None and columns is not None:
            tensors["actions"] = self._rows[indices, columns].view(-1, *self._shapes["actions"]["actions"])
        return tensors

    def _note(self, what: str, named: Mapping[str, Sequence[torch.Tensor]]) -> None:
        if not self._in_step:
            self._steps.append({})
            self._in_step = True
        if named:
            self._steps[-1][what] = self._row_of(what, named)

    def _row_of(self, what: str, named: Mapping[str, Sequence[torch.Tensor]]) -> torch.Tensor:
        """Return a copy of all that is to be noted, [num_envs, numbers]."""
        if what not in self._shapes:
            self._shapes[what] = {name: _shape_of(tensors) for name, tensors in named.items()}
            # Actions may be larger: what they lead to tells whether they are too large.
            limit = torch.finfo(torch.float32).max if what == "actions" else EXPLODED_ABOVE
            self._limits = torch.cat([self._limits, torch.full((self._width(what),), limit, device=self._device)])
        pieces = [
            tensor if tensor.ndim == 2 else tensor.reshape(self.num_envs, -1)
            for tensors in named.values()
            for tensor in tensors
        ]
        return torch.cat(pieces, dim=1).detach()

    def _look(self) -> None:
        """Take the newest steps into what is known of the rollout."""
        steps, self._steps, self._in_step = self._steps, [], False
        count, began = len(steps), self._looked_at
        self._looked_at += count
        nothing = {
            what: torch.zeros(self.num_envs, self._width(what), device=self._device)
            for what in self._shapes
            if any(what not in step for step in steps)
        }
        parts = [step[what] if what in step else nothing[what] for step in steps for what in self._shapes]
        rows = torch.cat(parts, dim=1).view(self.num_envs, count, -1)
        fine = (rows.abs() <= self._limits).all(dim=2)
        first = torch.where(fine, count, torch.arange(count, device=self._device)).amin(dim=1)
        is_whole = self._broken_at == NEVER
        if "state" in self._shapes:
            # The newest step may have had no state yet.
            good = first.clamp(max=sum("state" in step for step in steps))
            columns = _columns({what: (self._width(what),) for what in self._shapes})["state"]
            states = rows[self._every, (good - 1).clamp(min=0), columns]
            newer = (is_whole & (good > 0))[:, None]
            self._good = states if self._good is None else torch.where(newer, states, self._good)
        newest = rows[self._every, first.clamp(max=count - 1)]
        if self._rows is not None:
            before = functional.pad(self._rows, (0, newest.shape[1] - self._rows.shape[1]))
            newest = torch.where(is_whole[:, None], newest, before)
        self._rows = newest
        self._broken_at = torch.where(is_whole & (first < count), first + began, self._broken_at)

    def _width(self, what: str) -> int:
        return sum(math.prod(shape) for shape in self._shapes[what].values())

    def _names(self) -> dict[str, slice]:
        """Return, by name, where its numbers are in a row of all that is noted."""
        return _columns({name: shape for shapes in self._shapes.values() for name, shape in shapes.items()})


def _columns(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, slice]:
    """Return where the numbers of each name are, which lie side by side in this order."""
    widths = [math.prod(shape) for shape in shapes.values()]
    ends = itertools.accumulate(widths)
    return {name: slice(end - width, end) for name, width, end in zip(shapes, widths, ends, strict=True)}


def _shape_of(tensors: Sequence[torch.Tensor]) -> tuple[int, ...]:
    """Return the shape for one environment of what several tensors [num_envs, ...] make together."""
    if len(tensors) == 1:
        return tuple(tensors[0].shape[1:])
    return (sum(math.prod(tensor.shape[1:]) for tensor in tensors),)


def rank(name: str) -> int:
    """Return the place of a tensor in `ORDER`: of those that broke at the same step the first is the cause. Pure."""
    return ORDER.index(name.partition("/")[0])
