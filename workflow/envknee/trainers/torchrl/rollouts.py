"""Collects rollouts with TorchRL's Collector (TorchRL 0.14.1), on one environment with all robots."""

from collections.abc import Callable
from typing import Any

import torch
from isaaclab_rl.torchrl import IsaacLabTorchRLWrapper, TorchRlPpoCfg
from tensordict import TensorDict
from tensordict.nn import TensorDictModuleBase, TensorDictSequential
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, ReplayBuffer

from envknee.measure.meter import Meter
from envknee.trainers import TrialConfig
from envknee.trainers.common import metered
from envknee.trainers.torchrl.networks import LikeRslRlCfg


class Rollouts:
    """TorchRL's collector, which writes each environment step directly into a storage on the learner's device."""

    def __init__(
        self,
        env: IsaacLabTorchRLWrapper,
        actor: Any,
        critic: Any,
        cfg: TorchRlPpoCfg,
        meter: Meter,
        device: torch.device,
        stored_rollouts: int = 1,
        make_collector: Callable[..., Collector] = Collector,
    ) -> None:
        """Create a storage for `stored_rollouts` rollouts on `device`, and a collector that acts with `actor` and `critic`.

        `stored_rollouts` is 2 if another thread learns from a rollout during the next.
        """
        acting: Any = actor if stored_rollouts == 1 else SampledActor(actor)
        policy = TensorDictSequential(acting, critic)
        self.actor, self.critic = actor, critic
        self._env, self._horizon, self._stored_rollouts = env, cfg.num_steps_per_env, stored_rollouts
        self._newest = -1
        """Number of the newest rollout, which may be under way."""
        self._buffer = ReplayBuffer(storage=LazyTensorStorage(stored_rollouts * self._horizon, device=device))
        self._collector = make_collector(
            env,
            policy,
            frames_per_batch=env.batch_size[0] * self._horizon,
            total_frames=-1,
            replay_buffer=self._buffer,
            extend_buffer=False,  # store each step at once: else a second copy of the rollout would be collected first
            compact_obs=True,  # do not store an observation twice, as `next` and in the next step
            track_traj_ids=False,
            no_cuda_sync=env.device is not None and env.device.type == "cuda",
            auto_register_policy_transforms=True,
        )
        self._groups = list(map(str, env.observation_spec.keys()))
        self.stored = self._make_storage(policy)
        """The storage [stored_rollouts * horizon, num_envs]: observations, actions, rewards, values, ..."""
        if isinstance(cfg, LikeRslRlCfg) and cfg.init_at_random_ep_len:
            simulated: Any = env.unwrapped
            lengths = simulated.episode_length_buf
            simulated.episode_length_buf = torch.randint_like(lengths, high=int(simulated.max_episode_length))
        meter.timeline.wrap(policy, "forward", "inference")
        meter.timeline.wrap(self._buffer, "add", "storage")

    def collect(self) -> Any:
        """Collect a rollout and return a view of it [horizon, num_envs]. It is overwritten `stored_rollouts` rollouts later."""
        self._newest += 1
        self._collector.rollout()
        rollout = self.stored[self._place(self._newest)]
        values = rollout["state_value"]
        with torch.no_grad():
            newest = TensorDict(self._env.unwrapped.obs_buf, batch_size=self._env.batch_size)
            last = self.critic(newest)["state_value"].to(values.device)
            rollout["next_value"].copy_(next_values(values, last, rollout["next", "done"]))
        return rollout

    def observations(self) -> dict[str, torch.Tensor]:
        """Return, by group, views of the newest rollout's observations [horizon, num_envs, ...]."""
        return self._observations_of(self._newest)

    def previous_observations(self) -> dict[str, torch.Tensor]:
        """Return the same of the rollout before the newest, which is still stored if two are; without one, nothing."""
        return self._observations_of(self._newest - 1) if self._newest > 0 else {}

    def _observations_of(self, number: int) -> dict[str, torch.Tensor]:
        return {group: self.stored[group][self._place(number)] for group in self._groups}

    def _place(self, number: int) -> slice:
        begin = number % self._stored_rollouts * self._horizon
        return slice(begin, begin + self._horizon)

    def _make_storage(self, policy: TensorDictSequential) -> Any:
        """Return the whole storage [stored_rollouts * horizon, num_envs]. Adding example steps allocates it."""
        device: Any = self._env.device
        with torch.no_grad(), torch.random.fork_rng([device] if device.type == "cuda" else []):
            # Types come from the real observations, since the collector has reset: Isaac Lab's space calls even lean frames float32.
            observations: Any = self._env.unwrapped.obs_buf
            groups = {group: torch.zeros_like(observations[group]) for group in self._groups}
            example: Any = policy(self._env.fake_tensordict().update(groups))
        step: Any = torch.zeros_like(example.exclude(*(("next", group) for group in self._groups)))
        step["next_value"] = step["state_value"].clone()
        for _ in range(self._stored_rollouts * self._horizon):
            self._buffer.add(step)
        stored = self._buffer.storage[:]
        self._buffer.empty()  # only resets the position; the tensors stay
        return stored


class SampledActor(TensorDictModuleBase):
    """An actor that always samples its actions, whatever other threads do.

    TensorDict 0.14 has one sampling mode for the whole process (`set_interaction_type`). Losses set it to deterministic while they compute,
    so an actor in another thread would then act without noise.
    """

    def __init__(self, actor: Any) -> None:
        super().__init__()
        self.actor = actor
        self.in_keys, self.out_keys = actor.in_keys, actor.out_keys

    def forward(self, tensordict: Any) -> Any:
        """Write distribution, action and its log-probability into `tensordict` [num_envs], and return it."""
        output = self.actor.det_part(tensordict)
        distribution = self.actor.build_dist_from_params(output)
        action = distribution.sample()
        return output.update({"action": action, self.actor.log_prob_keys[0]: distribution.log_prob(action)})


def next_values(values: torch.Tensor, last: torch.Tensor, dones: torch.Tensor) -> torch.Tensor:
    """Return the value of the state after each step [horizon, num_envs, 1].

    Where an episode ended, that state is gone: Isaac Lab resets inside the step, and its `compute_final_obs` pushes a second copy of the
    frame into every environment's stack (seen in 3.0.0). The value of the state before replaces it, as in RSL-RL's
    `PPO.process_env_step`. GAE ignores it where an episode `terminated`.

    Args:
        values: of the states before each step, [horizon, num_envs, 1]
        last: of the states after the last step, [num_envs, 1]
        dones: whether an episode ended at each step, [horizon, num_envs, 1]
    """
    return torch.where(dones, values, torch.cat([values[1:], last[None]]))


def make_environment(config: TrialConfig, meter: Meter) -> IsaacLabTorchRLWrapper:
    """Start the simulation of a trial (`metered.start`) in Isaac Lab's TorchRL wrapper."""
    return IsaacLabTorchRLWrapper(metered.start(config, meter), clip_actions=config.agent.clip_actions)
