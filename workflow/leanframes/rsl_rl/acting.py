"""Acting and storing as two CUDA graphs per environment step, and a rollout's returns as a third: the CPU never waits.

Input: observations, rewards and episode ends, as upstream's runner passes them to PPO. Output: the same actions, bit for bit, and the same
rollout. Upstream: `PPO.act`, `PPO.process_env_step` and `PPO.compute_returns` of rsl-rl-lib 5.5.1. They launch some fifty operations per
step and ten more for its return, and the CPU waits for a check of the smallest standard deviation.
"""

from typing import Any

import torch
from rsl_rl.modules.distribution import GaussianDistribution
from tensordict import TensorDict

from leanframes import launch
from leanframes.captured import Captured
from leanframes.rsl_rl.storage import MOST_FRAMES, FrameStorage


class CapturedActing:
    """Acts in all steps of a rollout.

    An observation is stored before it is acted on. Acting then reads it as learning does, by its place in the rollout. The step's number
    is on the device, so that one graph serves every step. Parameters are packed once per rollout, by a graph of their own.
    """

    def __init__(self, algorithm: Any) -> None:
        """Act for a `LeanPPO`, whose networks, their buffers and storage keep their addresses."""
        storage: FrameStorage = algorithm.storage
        device = torch.device(algorithm.device)
        self._algorithm, self._storage = algorithm, storage
        self._stored: TensorDict | None = None
        """The observation that is already in the storage."""
        self._actions: Any = None
        """Actions [num_envs, num_actions] of the newest step, overwritten by the next."""
        with torch.inference_mode(False):
            self._every = torch.arange(storage.num_envs, device=device)
            self._step = torch.zeros(1, dtype=torch.int64, device=device)
            self._history = torch.zeros(storage.num_envs, dtype=torch.uint8, device=device)
            """The current step's row of the storage's history."""
            self._rewards = torch.zeros(storage.num_envs, device=device)
            self._dones = torch.zeros(storage.num_envs, dtype=torch.uint8, device=device)
            self._time_outs = torch.zeros(storage.num_envs, dtype=torch.bool, device=device)
            self._last_values = torch.zeros(storage.num_envs, 1, device=device)
        pool = algorithm.graph_pool
        self._pack = Captured(self._pack_parameters, device, "packing parameters", pool)
        self._returns = Captured(self._find_returns, device, "adding up returns", pool)
        self._act = Captured(self._act_on_stored, device, "acting", pool)
        self._store = Captured(self._store_step, device, "storing a step", pool)

    def act(self, obs: TensorDict) -> torch.Tensor:
        """Return actions [num_envs, num_actions], drawn as upstream does."""
        if self._storage.step == 0:
            self._step.zero_()
            self._history.fill_(MOST_FRAMES)
            if self._algorithm.steps.fused:
                self._pack()
            self._store_observation(obs)
        elif obs is not self._stored:
            self._store_observation(obs)
        self._act()
        return self._actions.clone()  # the next step overwrites them, but an environment may keep them

    def process_env_step(self, obs: TensorDict, rewards: torch.Tensor, dones: torch.Tensor, extras: dict) -> None:
        """Store a step's rewards and episode ends, and the next observation."""
        storage = self._storage
        self._rewards.copy_(rewards)
        self._dones.copy_(dones)
        if "time_outs" in extras:
            self._time_outs.copy_(extras["time_outs"])
        else:
            self._time_outs.zero_()
        self._store()
        storage.step += 1
        if storage.step < storage.num_transitions_per_env:
            self._store_observation(obs)
        else:
            self._stored = None

    def compute_returns(self, obs: TensorDict) -> None:
        """Store the returns and advantages of a rollout that ended with `obs`, as upstream does."""
        self._last_values.copy_(self._algorithm.critic(obs))
        self._returns()

    def _store_observation(self, obs: TensorDict) -> None:
        self._storage.add_observations(obs, self._storage.step)
        self._stored = obs

    def _pack_parameters(self) -> None:
        for model in self._algorithm._lean_models:
            model.pack()

    def _act_on_stored(self) -> None:
        algorithm, storage = self._algorithm, self._storage
        storage.history.index_copy_(0, self._step, self._history[None])
        places = self._step * storage.num_envs + self._every
        values = algorithm._evaluate(places)
        mean, std = algorithm.actor.output_distribution_params
        if storage.distribution_params is None:  # upstream makes them with its first transition
            with torch.inference_mode(False):
                storage.distribution_params = tuple(torch.zeros_like(storage.actions) for _ in (mean, std))
        means, deviations = storage.distribution_params
        # Like torch.normal, without its check that deviations are positive, which waits for the GPU.
        noise = torch.empty_like(mean).normal_()
        self._actions = torch.empty_like(mean)
        read = (mean, std.contiguous(), noise, values)
        written = (self._actions, storage.actions, means, deviations, storage.actions_log_prob, storage.values)
        tensors = (self._step, *(tensor.detach() for tensor in read), *written)
        launch.run(launch.kernels.act, (storage.num_envs,), [launch.array(tensor) for tensor in tensors], mean.device)

    def _store_step(self) -> None:
        storage = self._storage
        read = (self._rewards, self._dones, self._time_outs, storage.values)
        written = (self._history, storage.rewards, storage.dones)
        arguments = [
            launch.array(self._step), self._algorithm.gamma, *map(launch.array, read), MOST_FRAMES, *map(launch.array, written)
        ]  # fmt: skip
        launch.run(launch.kernels.store_step, (storage.num_envs,), arguments, self._rewards.device)
        self._step += 1

    def _find_returns(self) -> None:
        algorithm, storage = self._algorithm, self._storage
        next_values, advantage = self._last_values, torch.zeros_like(self._last_values)
        for step in reversed(range(storage.num_transitions_per_env)):
            goes_on = 1.0 - storage.dones[step].float()
            delta = storage.rewards[step] + goes_on * algorithm.gamma * next_values - storage.values[step]
            advantage = delta + goes_on * algorithm.gamma * algorithm.lam * advantage
            storage.returns[step] = advantage + storage.values[step]
            next_values = storage.values[step]
        advantages = storage.returns - storage.values
        if not algorithm.normalize_advantage_per_mini_batch:
            advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        storage.advantages.copy_(advantages)


def can_act(algorithm: Any) -> bool:
    """Return whether an agent can act this way. It needs Warp, and a Gaussian distribution: others may draw in another way."""
    return launch.HAS_WARP and isinstance(algorithm._raw_actor.distribution, GaussianDistribution)
