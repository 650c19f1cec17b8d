"""Trains with Stable-Baselines3's PPO and Isaac Lab's wrapper for it; a callback and wrapped methods measure it.

Upstream: stable-baselines3 2.9.2. `train` follows the steps of `isaaclab train --rl_library sb3` (Isaac Lab 3.0.0). The library keeps its
rollout in NumPy arrays on the host. Copies between host and device during collection count as the phase `storage`.
"""

import copy
from collections.abc import Mapping
from typing import Any

import gymnasium
import torch
from isaaclab_rl.sb3 import Sb3VecEnvWrapper, process_sb3_cfg
from rsl_rl.modules import CNN
from stable_baselines3 import PPO
from stable_baselines3.common import on_policy_algorithm
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.callbacks import ConvertCallback
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor

from envknee.measure.learner import LearnerDescription
from envknee.measure.meter import Meter
from envknee.record.schema import Phase
from envknee.study.errors import UserError
from envknee.tasks import frontends
from envknee.trainers import TrialConfig
from envknee.trainers.common import metered
from envknee.trainers.sb3.configuration import resolve

__all__ = ["resolve", "train"]

WRAPPER_FIELDS = ("normalize_input", "normalize_value", "clip_obs")
"""Fields of Isaac Lab's normalizing wrapper, not arguments of PPO. `normalize_input: true`, which adds the wrapper, is refused."""


class RslRlFeatures(BaseFeaturesExtractor):
    """RSL-RL's convolutions, for normalized images with channels first."""

    def __init__(self, observation_space: gymnasium.spaces.Box, cnn_cfg: dict[str, Any]) -> None:
        """Create the network of RSL-RL's `cnn_cfg` for images [channels, height, width]."""
        channels, height, width = observation_space.shape
        cnn = CNN((height, width), channels, **cnn_cfg)
        assert isinstance(cnn.output_dim, int), "the output is flat, because an MLP follows"
        super().__init__(observation_space, cnn.output_dim)
        self.cnn = cnn

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        """Return features [n, features_dim] of images [n, channels, height, width]."""
        return self.cnn(observations)


def train(config: TrialConfig, meter: Meter) -> None:
    """Train with `PPO.learn` until the meter raises `TrialDone`."""
    env = Sb3VecEnvWrapper(metered.start(config, meter))
    if not isinstance(env.observation_space, gymnasium.spaces.Box):
        raise UserError(
            f"trainer: sb3 takes one tensor of observations here, and {config.task_id} gives {env.observation_space}."
            " Use trainer: rsl_rl"
        )
    algorithm = make_algorithm(config.agent, env)
    policy, rollout = algorithm.policy, algorithm.rollout_buffer
    phases: list[tuple[Any, str, Phase]] = [
        # Called by `collect_rollouts` and `PPO.train`. Outside of the environment's own step: copies to the host, a dictionary for each.
        (env, "step", "storage"),
        (on_policy_algorithm, "obs_as_tensor", "storage"),  # copies to the device
        (policy, "forward", "inference"),
        (policy, "predict_values", "inference"),
        (rollout, "reset", "storage"),
        (rollout, "add", "storage"),
        (rollout, "compute_returns_and_advantage", "learning"),
        (algorithm, "train", "learning"),
    ]
    for owner, method, phase in phases:
        meter.timeline.wrap(owner, method, phase)
    end_iterations(algorithm, meter)
    # The memory map covers only the device.
    on_host = torch.device(config.agent["device"]).type == "cpu"
    stored_bytes = sum(array.nbytes for array in vars(rollout).values() if hasattr(array, "nbytes")) if on_host else 0
    learner = LearnerDescription(
        state=lambda: policy.state_dict(keep_vars=True),
        num_mini_batches=rollout.buffer_size * rollout.n_envs // algorithm.batch_size,
        rollout_observations=lambda: observations_of(rollout),
        stored_bytes=stored_bytes,
        optimizers=[policy.optimizer],
    )
    callback: Any = ConvertCallback(None)  # called after the environment's reset, before the first rollout
    callback.on_training_start = lambda *_: meter.start_training(learner)
    algorithm.learn(1000 * metered.UNREACHABLE, callback, log_interval=None)  # type: ignore[arg-type]  # None: never


def make_algorithm(settings: Mapping[str, Any], env: Sb3VecEnvWrapper) -> PPO:
    """Return PPO as Isaac Lab creates it, but without a log."""
    arguments = process_sb3_cfg(copy.deepcopy(dict(settings)), env.num_envs)  # Isaac Lab changes them in place
    policy_arguments = arguments.setdefault("policy_kwargs", {})
    if "features_extractor_kwargs" in policy_arguments:
        policy_arguments |= {"features_extractor_class": RslRlFeatures, "normalize_images": False}
    for field in WRAPPER_FIELDS:
        arguments.pop(field, None)
    algorithm = PPO(env=env, **arguments)
    algorithm.set_logger(Logger(None, []))
    return algorithm


def observations_of(rollout: RolloutBuffer) -> dict[str, torch.Tensor]:
    """Return the rollout's current observations [horizon, num_envs, ...], in the group `policy`.

    The library allocates them anew for each rollout, and reorders them for learning (common/buffers.py: RolloutBuffer.reset, get).
    """
    stored = torch.from_numpy(rollout.observations)
    if rollout.generator_ready:
        stored = stored.unflatten(0, (rollout.n_envs, rollout.buffer_size)).swapaxes(0, 1)
    return {"policy": stored}


def end_iterations(algorithm: PPO, meter: Meter) -> None:
    """Make each `train` of `algorithm` end an iteration of `meter`, with losses from the library's logger."""

    def report() -> None:
        logged = algorithm.logger.name_to_value
        meter.end_iteration(
            losses={
                "value": float(logged["train/value_loss"]),
                "surrogate": float(logged["train/policy_gradient_loss"]),
                "entropy": -float(logged["train/entropy_loss"]),
            },
            learning_rate=algorithm.policy.optimizer.param_groups[0]["lr"],
            action_std=float(logged["train/std"]),
        )

    frontends.around(algorithm, "train", after=report)
