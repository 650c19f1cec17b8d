"""RSL-RL's rollout storage with each camera frame kept once, as uint8."""

from typing import Any

import torch
from rsl_rl.storage import RolloutStorage
from tensordict import TensorDict

from envknee.lean import Layout, checks, gather, gather_normalized, operations
from envknee.lean.rollouts import PLAIN, frames_of
from envknee.study.errors import UserError
from envknee.tasks.frames import lean_stacks

MOST_FRAMES = 255
"""What a history of uint8 can count."""


class FrameStorage(RolloutStorage):
    """A rollout that keeps each camera frame once, with what is needed to stack it again.

    Of the stacks at a rollout's first step all frames are kept, of later ones the newest. Where an episode ended at the
    step before, the history was filled with the new episode's first frame, and is filled with it again.
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
        """Allocate a rollout.

        Args:
            num_envs: environments, n
            num_transitions_per_env: steps, t
            obs: one observation of each group, the stacks of frames [n, k * c, h, w]
            stack_sizes: of the groups that are such stacks, how many frames each holds: k
            actions_shape: of one action
            device: where all of it lies
        """
        super().__init__("rl", num_envs, num_transitions_per_env, obs.exclude(*stack_sizes), actions_shape, device)
        self.stack_sizes = stack_sizes
        frames, sums = {}, {}
        for group, size in stack_sizes.items():
            channels, *image = obs[group].shape[1:]
            if size > MOST_FRAMES or channels % size:
                raise UserError(
                    f"observations/{group} of shape {tuple(obs[group].shape)} is no stack of {size} frames"
                    f" (at most {MOST_FRAMES})"
                )
            shape = (num_transitions_per_env + size - 1, num_envs, channels // size)
            frames[group] = torch.zeros(*shape, *image, dtype=obs[group].dtype, device=device)
            if obs[group].dtype == torch.uint8:
                sums[group] = torch.zeros(shape, dtype=torch.int64, device=device)
        self.frames = TensorDict(frames, batch_size=[])
        """By group [t + k - 1, n, c, h, w]; the frame of step s at s + k - 1."""
        self.sums = TensorDict(sums, batch_size=[])
        """Of the pixels of each channel [t + k - 1, n, c], for frames that are normalized later: uint8."""
        self.history = torch.full((num_transitions_per_env, num_envs), MOST_FRAMES, dtype=torch.uint8, device=device)
        """How many frames before a step's are of the same episode [t, n], as far as this rollout knows them: once it is full."""

    @property
    def newest_frames(self) -> dict[str, torch.Tensor]:
        """By group, the newest frame of each step [t, n, c, h, w]: views."""
        return {group: self.frames[group][size - 1 :] for group, size in self.stack_sizes.items()}

    def add_transition(self, transition: RolloutStorage.Transition) -> None:
        """Add one transition at the current step, of its stacks the newest frame."""
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
        """Add what was observed before a step other than the first, ahead of the rest of its transition."""
        for group, size in self.stack_sizes.items():
            self._add_frames(group, observations[group], size, step)
        for group, kept in self.observations.items():
            kept[step].copy_(observations[group])

    def _add_frames(self, group: str, stacked: torch.Tensor, size: int, step: int) -> None:
        frames: Any = self.frames[group]
        _, envs, channels, *image = frames.shape
        checks.check_tensor(
            f"observations/{group}", stacked, (frames.dtype,), (envs, size * channels, *image), frames.device, False
        )
        if step == 0:
            first = 0
            frames[:size].copy_(stacked.unflatten(1, (size, channels)).transpose(0, 1))
        else:
            first = step + size - 1
            frames[first].copy_(stacked[:, -channels:])
        if group in self.sums:
            new, sums = frames[first : step + size], self.sums[group]
            operations.plane_sums(new.flatten(0, 2).flatten(1), sums[first : step + size].view(-1))

    def _find_history(self) -> None:
        """Count how long each step's episode has been in this rollout; its end is another step's."""
        steps = torch.arange(1, self.num_transitions_per_env, device=self.history.device).unsqueeze(1)
        begun = ((self.dones[:-1, :, 0] != 0) * steps).cummax(0).values  # the newest step that was an episode's first
        self.history[1:] = torch.where(begun > 0, steps - begun, MOST_FRAMES).clamp(max=MOST_FRAMES)

    def stacks(self, places: torch.Tensor, layouts: dict[str, Layout] | None = None) -> dict[str, torch.Tensor]:
        """Return the stacks of some transitions by group, each [b, k * c, h, w] or, if normalized here, as its layout says.

        Args:
            places: transitions [b] (int64), step * num_envs + environment
            layouts: of the groups that are wanted; None: all, float32, as Isaac Lab's environments give them
        """
        stacks = {}
        for group, layout in (layouts if layouts is not None else dict.fromkeys(self.stack_sizes, PLAIN)).items():
            frames, size = self.frames[group], self.stack_sizes[group]
            if group in self.sums:
                stacks[group] = gather_normalized(frames, self.sums[group], self.history, places, size, layout)
            else:
                stacks[group] = gather(frames, self.history, places, size)
        return stacks

    def planes(self, group: str, places: torch.Tensor) -> torch.Tensor:
        """Return which planes of `frames[group]` the stacks of some transitions [b] are: [b, k * c], oldest frame first."""
        channels = self.frames[group].shape[2]
        frames = frames_of(self.history, places, self.stack_sizes[group])
        return (frames.unsqueeze(2) * channels + torch.arange(channels, device=places.device)).flatten(1)


def stack_sizes_of(obs: TensorDict, env: Any) -> dict[str, int]:
    """Return, of each group of observations that is a stack of frames, how many it holds.

    Raises:
        UserError: when there is none, or two stacks of the same shape hold different numbers of frames.
    """
    sizes: dict[tuple[torch.dtype, tuple[int, ...]], set[int]] = {}
    for stack in lean_stacks(env):
        if stack.dtype is not None and stack.stacked_shape is not None:
            sizes.setdefault((stack.dtype, stack.stacked_shape), set()).add(stack.frames)
    of_groups = {}
    for group, tensor in obs.items():
        if tensor.ndim != 4:
            continue
        fitting = sizes.get((tensor.dtype, tuple(tensor.shape[1:])), set())
        if not fitting and tensor.dtype != torch.uint8:
            continue  # images that no lean stack made are kept as upstream keeps them
        if len(fitting) != 1:
            shapes = sorted(shape for dtype, shape in sizes if dtype == tensor.dtype)
            raise UserError(
                f"observations/{group} of shape {tuple(tensor.shape)} is not told from {len(fitting)} stacks of frames of"
                f" this shape (there are: {shapes}). Give each camera's stack a shape of its own"
            )
        (of_groups[group],) = fitting
    if not of_groups:
        raise UserError(
            "LeanPPO learns from stacks of frames, and the observations hold none that a LeanFrameStack made:"
            f" {', '.join(f'{group} {tensor.dtype}' for group, tensor in obs.items())}."
            ' Call envknee.tasks.frames.use("lean", env) before the runner is made, or use stock PPO'
        )
    return of_groups
