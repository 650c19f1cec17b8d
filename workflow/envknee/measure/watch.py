"""Which number of a simulation broke first: in which environments, at which step, and the last good state.

Input: the tensors of every environment step, as they come. Nothing here waits for the device until a rollout ends.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch

from envknee.measure.captured import Captured

NEVER = 2**31 - 1
"""The step at which a finite environment broke."""

EXPLODED_ABOVE = 1e10
"""What every state, observation and reward stays below; MuJoCo's own limit of positions, velocities and accelerations
(mjMAXVAL). Actions may be larger: what they lead to tells whether they are too large."""

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

    In the order of an environment step: `note_actions`, `note_state`, maybe `note_reset`, then `end_step`. The state is copied at
    once, for a reset writes over it; all else at the step's end, when it still is as it was. A copy is one kernel, and so is, on a
    GPU, what then becomes of it: where a GPU waits for the CPU, every kernel more makes a step slower.
    """

    def __init__(self, num_envs: int, device: torch.device) -> None:
        """Begin with an empty rollout of `num_envs` environments."""
        self.num_envs = num_envs
        self.settings: Mapping[str, Any] = {}
        """Fields of the environment that decide how stable it is, by dotted name; the task says which there are."""
        self._device = device
        self._shapes: dict[str, dict[str, tuple[int, ...]]] = {}
        """By what was noted (`state`, ...), in the order in which it first was: by name, the shape for one environment."""
        self._noted: dict[str, list[torch.Tensor]] = {}
        """By the same words, the tensors of this step that are yet to be copied."""
        self._has_state = self._in_step = False
        """Whether this step has noted its state; whether it has noted anything."""
        with _kept():
            self._state = torch.empty(num_envs, 0, device=device)
            self._others = torch.empty(num_envs, 0, device=device)
            """[num_envs, numbers], all of this step but its state."""
            self._limits = torch.empty(0, device=device)
            """Of each number of a row, what its magnitude must not pass: the state's, then those of the others."""
            self._rows = torch.empty(num_envs, 0, device=device)
            """[num_envs, numbers], all of a step: of an environment that broke the step at which it did, of another the newest."""
            self._good: torch.Tensor | None = None
            """[num_envs, numbers], the newest state at whose step nothing was broken."""
            self._step = torch.zeros((), dtype=torch.int64, device=device)
            self._broken_at = torch.full((num_envs,), NEVER, device=device)
        self._look = Captured(self._look_at_step, device, "what a trial notes of a step")

    def begin_rollout(self) -> None:
        """Forget the steps of the rollout before, but for the last good state."""
        if self._in_step:
            self._end(self._noted)
        with _kept():
            self._step.zero_()
            self._broken_at.fill_(NEVER)

    def note_actions(self, actions: torch.Tensor, state: Callable[[], Mapping[str, Sequence[torch.Tensor]]]) -> None:
        """Note what a step is about to apply, [num_envs, ...]; `state` tells the state before the very first step."""
        if self._good is None and (before := state()):
            self._know("state", before)
            with _kept():
                self._good = torch.cat(self._pieces(before), dim=1)
        self._note("actions", {"actions": [actions]})

    def note_state(self, state: Mapping[str, Sequence[torch.Tensor]]) -> None:
        """Note joints and bodies after the physics of a step and before any reset.

        Args:
            state: by names such as `joint_state/robot` and `body_pose/robot`, each one tensor [num_envs, ...] or several
        """
        self._in_step = True
        if state:
            self._know("state", state)
            with _kept():
                torch.cat(self._pieces(state), dim=1, out=self._state)
            self._has_state = True

    def note_reset(self, joints: Mapping[str, Sequence[torch.Tensor]]) -> None:
        """Note joints once some environments were reset, by the names that `note_state` has for them: views that stay."""
        renamed = {name.replace("joint_state", "joint_state_after_reset", 1): every for name, every in joints.items()}
        self._note("reset", renamed)

    def end_step(self, seen: Mapping[str, torch.Tensor]) -> None:
        """Note what a step gave, each [num_envs, ...]: `rewards`, and `observations/<group>` that are no images.

        To read every image would take a GPU a part of what a step takes. The trainer keeps them: see `broken_image`.
        """
        self._note("seen", {name: [tensor] for name, tensor in seen.items()})
        self._end(self._noted)

    def first_broken(self) -> Broken | None:
        """Return what broke first in this rollout, a step without an end included; None where all is finite."""
        if self._in_step:
            self._end(self._noted)
        step = int(self._broken_at.amin())
        if step == NEVER:
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
        found = {}
        if self._good is not None:
            shapes = self._shapes["state"]
            for name, columns in _columns(shapes).items():
                found[f"last_good/{name}"] = self._good[indices, columns].view(-1, *shapes[name])
        columns = self._names().get("actions")
        if columns is not None and self._rows.shape[1]:
            found["actions"] = self._rows[indices, columns].view(-1, *self._shapes["actions"]["actions"])
        return found

    def _note(self, what: str, named: Mapping[str, Sequence[torch.Tensor]]) -> None:
        self._in_step = True
        if named:
            self._know(what, named)
            self._noted[what] = self._pieces(named)

    def _know(self, what: str, named: Mapping[str, Sequence[torch.Tensor]]) -> None:
        """Make room for what is noted for the first time."""
        if what in self._shapes:
            return
        before = self._names()
        self._shapes[what] = {name: _shape_of(tensors) for name, tensors in named.items()}
        names = self._names()
        # Actions may be larger: what they lead to tells whether they are too large.
        limits = [
            torch.finfo(torch.float32).max if name == "actions" else EXPLODED_ABOVE
            for name, columns in names.items()
            for _ in range(columns.start, columns.stop)
        ]
        with _kept():
            self._limits = torch.tensor(limits, device=self._device)
            rows = torch.zeros(self.num_envs, len(limits), device=self._device)
            for name, columns in before.items():
                rows[:, names[name]] = self._rows[:, columns]
            self._rows = rows
            others = sum(self._width(kind) for kind in self._shapes if kind != "state")
            self._others = torch.zeros(self.num_envs, others, device=self._device)
            if what == "state":
                self._state = torch.zeros(self.num_envs, self._width("state"), device=self._device)
        self._look = Captured(self._look_at_step, self._device, "what a trial notes of a step")

    def _pieces(self, named: Mapping[str, Sequence[torch.Tensor]]) -> list[torch.Tensor]:
        """Return all that is to be noted, each [num_envs, numbers]."""
        return [
            tensor.detach() if tensor.ndim == 2 else tensor.detach().reshape(self.num_envs, -1)
            for tensors in named.values()
            for tensor in tensors
        ]

    def _end(self, noted: dict[str, list[torch.Tensor]]) -> None:
        """Take this step into what is known of the rollout; what it has not noted is zero."""
        is_whole = self._has_state or "state" not in self._shapes
        with _kept():
            pieces = [
                piece
                for what in self._shapes
                if what != "state"
                for piece in noted.get(what) or [self._others.new_zeros(self.num_envs, self._width(what))]
            ]
            if pieces:
                torch.cat(pieces, dim=1, out=self._others)
            if is_whole:
                self._look()
            else:
                # The step has had no state yet: it cannot be the last good one.
                good = None if self._good is None else self._good.clone()
                self._state.zero_()
                self._look_at_step()
                if good is not None and self._good is not None:
                    self._good.copy_(good)
        self._noted = {}
        self._has_state = self._in_step = False

    def _look_at_step(self) -> None:
        """Take the newest row into what is known of the rollout: kernels alone, and no new tensor stays."""
        row = torch.cat([self._state, self._others], dim=1)
        is_fine = (row.abs() <= self._limits).all(dim=1)
        is_whole = self._broken_at == NEVER
        self._rows.copy_(torch.where(is_whole[:, None], row, self._rows))
        if self._good is not None:
            self._good.copy_(torch.where((is_whole & is_fine)[:, None], self._state, self._good))
        self._broken_at.copy_(torch.where(is_whole & ~is_fine, self._step, self._broken_at))
        self._step += 1

    def _width(self, what: str) -> int:
        return sum(math.prod(shape) for shape in self._shapes[what].values())

    def _names(self) -> dict[str, slice]:
        """Return, by name, where its numbers are in a row of all that is noted: the state's come first."""
        ordered = sorted(self._shapes, key=lambda what: what != "state")  # a stable sort
        return _columns({name: shape for what in ordered for name, shape in self._shapes[what].items()})


@contextmanager
def _kept() -> Iterator[None]:
    """Make and change tensors that outlive a rollout, wherever trainers call from: many step in inference mode."""
    with torch.inference_mode(False), torch.no_grad():
        yield


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
