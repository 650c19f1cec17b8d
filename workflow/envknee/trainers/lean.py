"""RSL-RL's PPO on frames that stay uint8: each is kept once, and normalized where the network reads it.

Input: observations from an environment with `LeanFrameStack` (`envknee.tasks.frames.use("lean", env)`). Output: the same
actions and optimizer steps as stock PPO, within float error, from a rollout that takes an eighth of the memory for two
stacked frames. Upstream: rsl-rl-lib 5.5.1.

    agent_cfg.algorithm.class_name = "envknee.trainers.lean:LeanPPO"
    agent_cfg.actor.class_name = "envknee.trainers.lean:LeanCNNModel"
"""

from typing import Any

import torch
from rsl_rl.algorithms import PPO
from rsl_rl.env import VecEnv
from rsl_rl.models import CNNModel
from rsl_rl.storage import RolloutStorage
from tensordict import TensorDict

from envknee.errors import UserError
from envknee.lean import gather_normalized, kernels, normalized
from envknee.tasks.frames import lean_stacks
from envknee.trainers.accumulate import AccumulatingPPO

MOST_FRAMES = 255
"""What a history of uint8 can count."""


class LeanCNNModel(CNNModel):
    """RSL-RL's CNN model, which normalizes uint8 images itself: `x / 255 - mean`, as Isaac Lab's environments do.

    Images that are floating point already pass as they are. An exported policy takes those, like stock's.
    """

    def get_latent(self, obs: TensorDict, masks: torch.Tensor | None = None, hidden_state: Any = None) -> torch.Tensor:
        """Return the latent [transitions, size] of observations, whose images are uint8 or normalized."""
        images = {group: obs[group] for group in self.obs_groups_2d if obs[group].dtype == torch.uint8}
        if images:
            dtype = compute_dtype(obs[self.obs_groups_2d[0]].device)
            obs = obs.copy()
            for group, image in images.items():
                obs[group] = normalized(image, dtype)
        return super().get_latent(obs, masks, hidden_state)


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
            obs: one observation of each group, the stacks of frames [n, k * c, h, w] in uint8
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
            frames[group] = torch.zeros(*shape, *image, dtype=torch.uint8, device=device)
            sums[group] = torch.zeros(shape, dtype=torch.int64, device=device)
        self.frames = TensorDict(frames, batch_size=[])
        """By group [t + k - 1, n, c, h, w]; the frame of step s at s + k - 1."""
        self.sums = TensorDict(sums, batch_size=[])
        """Of the pixels of each channel [t + k - 1, n, c]."""
        self.history = torch.zeros(num_transitions_per_env, num_envs, dtype=torch.uint8, device=device)
        """How many frames before a step's are of the same episode [t, n], as far as this rollout knows them."""

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
            if step == 0:
                self.history[0] = MOST_FRAMES
            else:
                before = self.history[step - 1]
                goes_on = self.dones[step - 1, :, 0] == 0
                self.history[step] = (before + (before < MOST_FRAMES)) * goes_on
        transition.observations = observations.exclude(*self.stack_sizes)
        super().add_transition(transition)

    def _add_frames(self, group: str, stacked: torch.Tensor, size: int, step: int) -> None:
        frames, sums = self.frames[group], self.sums[group]
        channels = frames.shape[2]
        if step == 0:
            first = 0
            frames[:size].copy_(stacked.unflatten(1, (size, channels)).transpose(0, 1))
        else:
            first = step + size - 1
            frames[first].copy_(stacked[:, -channels:])
        new = frames[first : step + size]
        kernels.plane_sums(new.flatten(0, 2).flatten(1), sums[first : step + size].view(-1))

    def stacks(self, places: torch.Tensor, dtype: torch.dtype) -> dict[str, torch.Tensor]:
        """Return the normalized stacks of some transitions by group, each [b, k * c, h, w].

        Args:
            places: transitions [b] (int64), step * num_envs + environment
            dtype: float32, bfloat16 or float16
        """
        return {
            group: gather_normalized(self.frames[group], self.sums[group], self.history, places, size, dtype)
            for group, size in self.stack_sizes.items()
        }


class LeanPPO(AccumulatingPPO):
    """PPO that learns from a `FrameStorage`. Everything else of `AccumulatingPPO` holds for it, too."""

    learns_by_places = True

    storage: FrameStorage

    @staticmethod
    def construct_algorithm(obs: TensorDict, env: VecEnv, cfg: dict, device: str) -> PPO:
        """Construct models, optimizer and storage, as upstream's runner calls it.

        Raises:
            UserError: when the environment stacks no uint8 frames.
        """
        stack_sizes = stack_sizes_of(obs, env)
        # Upstream makes a storage of the horizon's length; one step of it is enough to be replaced.
        shortened = cfg | {"num_steps_per_env": 1}
        algorithm = PPO.construct_algorithm(obs, env, shortened, device)
        cfg["obs_groups"] = shortened["obs_groups"]
        algorithm.storage = FrameStorage(
            env.num_envs, cfg["num_steps_per_env"], obs, stack_sizes, [env.num_actions], device
        )
        return algorithm

    def _observed(self, observations: TensorDict, places: torch.Tensor) -> TensorDict:
        observed = super()._observed(observations, places)
        observed.update(self.storage.stacks(places, compute_dtype(places.device)))
        return observed


def stack_sizes_of(obs: TensorDict, env: Any) -> dict[str, int]:
    """Return, of each group of observations that is a stack of uint8 frames, how many it holds.

    Raises:
        UserError: when there is none, or two stacks of the same shape hold different numbers of frames.
    """
    sizes: dict[tuple[int, ...], set[int]] = {}
    for stack in lean_stacks(env):
        if stack.stacked_shape is not None:
            sizes.setdefault(stack.stacked_shape, set()).add(stack.frames)
    found = {}
    for group, tensor in obs.items():
        if tensor.dtype != torch.uint8 or tensor.ndim != 4:
            continue
        fitting = sizes.get(tuple(tensor.shape[1:]), set())
        if len(fitting) != 1:
            raise UserError(
                f"observations/{group} of shape {tuple(tensor.shape)} is not told from {len(fitting)} stacks of frames of"
                f" this shape (there are: {sorted(sizes)}). Give each camera's stack a shape of its own"
            )
        (found[group],) = fitting
    if not found:
        raise UserError(
            "LeanPPO learns from stacks of uint8 frames, and the observations hold none:"
            f" {', '.join(f'{group} {tensor.dtype}' for group, tensor in obs.items())}."
            ' Call envknee.tasks.frames.use("lean", env) before the runner is made, or use stock PPO'
        )
    return found


def compute_dtype(device: torch.device) -> torch.dtype:
    """Return in what the network computes now: autocast's dtype where it is on, else float32."""
    return torch.get_autocast_dtype(device.type) if torch.is_autocast_enabled(device.type) else torch.float32
