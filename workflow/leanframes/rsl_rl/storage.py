"""RSL-RL's rollout storage, with each camera frame stored once, as uint8."""

from typing import Any

import torch
from rsl_rl.storage import RolloutStorage
from tensordict import TensorDict

from leanframes import checks, gather, gather_normalized, launch, operations
from leanframes.errors import LeanError
from leanframes.rollouts import frames_of
from leanframes.stacks import lean_stacks

MOST_FRAMES = 255
"""The largest number in a history, which is uint8."""


class FrameStorage(RolloutStorage):
    """A rollout that stores each camera frame once, and stacks frames again when they are read.

    It stores all frames of the stacks at a rollout's first step, and the newest frame of later stacks. After an episode's end the
    environment fills the stack with the new episode's first frame. Reading does the same.
    """

    def __init__(
        self,
        num_envs: int,
        num_transitions_per_env: int,
        obs: TensorDict,
        stack_sizes: dict[str, int],
        actions_shape: list[int],
        device: str,
    ) -> None:
        """Allocate a rollout of t steps of n environments, with observations like `obs`.

        `stack_sizes` has the number of frames k of each group that is a stack [n, k * c, h, w].

        Raises:
            LeanError: when a stack's channels are not a multiple of k, or k exceeds `MOST_FRAMES`.
        """
        super().__init__("rl", num_envs, num_transitions_per_env, obs.exclude(*stack_sizes), actions_shape, device)
        self.stack_sizes = stack_sizes
        frames, sums = {}, {}
        for group, size in stack_sizes.items():
            channels, *image = obs[group].shape[1:]
            if size > MOST_FRAMES or channels % size:
                raise LeanError(
                    f"observations/{group} of shape {tuple(obs[group].shape)} is no stack of {size} frames"
                    f" (at most {MOST_FRAMES})"
                )
            shape = (num_transitions_per_env + size - 1, num_envs, channels // size)
            frames[group] = torch.zeros(*shape, *image, dtype=obs[group].dtype, device=device)
            if obs[group].dtype == torch.uint8:
                sums[group] = torch.zeros(shape, dtype=torch.int64, device=device)
        self.frames = TensorDict(frames, batch_size=[])
        """Frames by group [t + k - 1, n, c, h, w]; the newest frame of step s is at s + k - 1."""
        self.sums = TensorDict(sums, batch_size=[])
        """Sums of each channel's pixels [t + k - 1, n, c], for groups of uint8 frames, which are normalized later."""
        self._newest = {
            group: [*zip(newest, sums[group][-len(newest) :] if group in sums else [None] * len(newest), strict=True)]
            for group, newest in self.newest_frames.items()
        }
        """Views of each step's newest frame [n, c, h, w] and its sums [n, c] (None: floats), by group: a view costs as much as a launch."""
        self._rows = {group: tensor.unbind() for group, tensor in self.observations.items()}
        """Views of each step's other observations [n, ...], by group."""
        self.history = torch.full((num_transitions_per_env, num_envs), MOST_FRAMES, dtype=torch.uint8, device=device)
        """For each step, the number of earlier frames of the same episode [t, n], or `MOST_FRAMES` if the rollout has no episode start
        before it. Valid once the rollout is full."""

    @property
    def newest_frames(self) -> dict[str, torch.Tensor]:
        """Views of each step's newest frame by group [t, n, c, h, w]."""
        return {group: self.frames[group][size - 1 :] for group, size in self.stack_sizes.items()}

    def add_transition(self, transition: RolloutStorage.Transition) -> None:
        """Add a transition at the current step, with only the newest frame of its stacks (at the first step, all)."""
        step = self.step
        observations: Any = transition.observations
        if step < self.num_transitions_per_env:  # otherwise upstream complains
            for group, size in self.stack_sizes.items():
                self._add_frames(group, observations[group], size, step)
            if step == self.num_transitions_per_env - 1:
                self._find_history()
        transition.observations = observations.exclude(*self.stack_sizes)
        super().add_transition(transition)

    def add_observations(self, observations: TensorDict, step: int) -> None:
        """Add what was observed before a step, ahead of the rest of its transition."""
        for group, size in self.stack_sizes.items():
            self._add_frames(group, observations[group], size, step)
        for group, rows in self._rows.items():
            rows[step].copy_(observations[group])

    def _add_frames(self, group: str, stacked: torch.Tensor, size: int, step: int) -> None:
        frames: Any = self.frames[group]
        _, envs, channels, *image = frames.shape
        checks.check_tensor(
            f"observations/{group}", stacked, (frames.dtype,), (envs, size * channels, *image), frames.device, False
        )
        if step > 0:
            newest, sums = self._newest[group][step]
            if sums is not None:
                operations.copy_newest(stacked, newest, sums)
            else:
                newest.copy_(stacked[:, -channels:])
            return
        frames[:size].copy_(stacked.unflatten(1, (size, channels)).transpose(0, 1))
        if group in self.sums:
            operations.plane_sums(frames[:size].flatten(0, 2).flatten(1), self.sums[group][:size].view(-1))

    def _find_history(self) -> None:
        """Set `history` from the episode ends in this rollout."""
        steps = torch.arange(1, self.num_transitions_per_env, device=self.history.device).unsqueeze(1)
        begun = ((self.dones[:-1, :, 0] != 0) * steps).cummax(0).values  # the newest first step of an episode so far
        self.history[1:] = torch.where(begun > 0, steps - begun, MOST_FRAMES).clamp(max=MOST_FRAMES)

    def stacks(self, group: str, places: torch.Tensor, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """Return the stacks of a group for transitions [b] (int64), step * num_envs + environment: [b, k * c, h, w].

        Frames of uint8 are normalized, to `dtype`.
        """
        frames, size = self.frames[group], self.stack_sizes[group]
        if group in self.sums:
            return gather_normalized(frames, self.sums[group], self.history, places, size, dtype)
        return self.raw_stacks(group, places)

    def raw_stacks(self, group: str, places: torch.Tensor) -> torch.Tensor:
        """Return the stacks of a group for transitions [b], as they were observed: [b, k * c, h, w]."""
        return gather(self.frames[group], self.history, places, self.stack_sizes[group])

    def planes(self, group: str, places: torch.Tensor) -> torch.Tensor:
        """Return the indices of the planes of `frames[group]` in the stacks of transitions [b]: [b, k * c], oldest frame first."""
        channels, size = self.frames[group].shape[2], self.stack_sizes[group]
        if launch.HAS_WARP:
            planes = torch.empty(len(places), size * channels, dtype=torch.int64, device=places.device)
            arguments = [launch.array(self.history), launch.array(places), channels, size, launch.array(planes)]
            launch.run(launch.kernels.planes_of_stacks, tuple(planes.shape), arguments, planes.device)
            return planes
        frames = frames_of(self.history, places, size)
        return (frames.unsqueeze(2) * channels + torch.arange(channels, device=places.device)).flatten(1)


def stack_sizes_of(obs: TensorDict, env: Any) -> dict[str, int]:
    """Return the number of frames of each observation group that is a stack of frames.

    Raises:
        LeanError: when no group is one, or two stacks of the same shape hold different numbers of frames.
    """
    by_group = {}
    for group, tensor in obs.items():
        stacks = [(stack.newest, stack.frames) for stack in lean_stacks(env) if stack.newest is not None]
        sizes = [(tuple(newest.shape[1:]), frames) for newest, frames in stacks if newest.dtype == tensor.dtype]
        fitting = {frames for shape, frames in sizes if shape == tensor.shape[1:]}
        if not fitting and (tensor.dtype != torch.uint8 or tensor.ndim != 4):
            continue  # what comes from no lean stack is stored as upstream does
        if len(fitting) != 1:
            raise LeanError(
                f"observations/{group} of shape {tuple(tensor.shape)} matches {len(fitting)} stacks of frames, and 1 was expected"
                f" (stacks, and their frames: {sizes}). Give each camera's stack its own shape"
            )
        (by_group[group],) = fitting
    if not by_group:
        raise LeanError(
            "LeanPPO learns from stacks of frames of a LeanFrameStack, and the observations have none:"
            f" {', '.join(f'{group} {tensor.dtype}' for group, tensor in obs.items())}."
            " Call leanframes.isaaclab.use_lean_frames(env) before the runner is made, or use stock PPO"
        )
    return by_group
