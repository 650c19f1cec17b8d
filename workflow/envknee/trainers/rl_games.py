"""Trains with RL-Games' PPO: a registered environment, and an agent class that overrides methods of its loop to measure them.

Upstream: rl-games 1.6.5. `train` follows the steps of `isaaclab train --rl_library rl_games` (Isaac Lab 3.0.0).
"""

from contextlib import ExitStack
from tempfile import TemporaryDirectory
from typing import Any

import torch
from rl_games.algos_torch.a2c_continuous import A2CAgent
from rl_games.common import a2c_common
from rl_games.common.algo_observer import IsaacAlgoObserver
from rl_games.torch_runner import Runner
from tensordict import TensorDict

from envknee.base.point import rollout_size
from envknee.measure.learner import LearnerDescription
from envknee.measure.meter import Meter
from envknee.record.schema import Request
from envknee.study import remedies
from envknee.study.errors import UserError
from envknee.study.overrides import apply_overrides
from envknee.study.value_types import Overrides
from envknee.trainers import TrialConfig
from envknee.trainers.common import configure, metered

AGENT_ENTRY_POINT = "rl_games_cfg_entry_point"

ALGORITHM = "a2c_continuous"
"""RL-Games' name for PPO with continuous actions, the algorithm of `MeteredAgent`."""

UNSUPPORTED = {
    "ranks": "its ranks meet over NCCL alone, at an address of their own",
    "lean": "it keeps each observation whole, in float32",
}
"""As of rl-games 1.6.5: common/a2c_common.py (A2CBase.__init__), common/experience.py, algos_torch/a2c_continuous.py."""


def resolve(request: Request, device: str, rank: int = 0) -> TrialConfig:
    """Return the complete configuration of a trial (`Trainer.resolve`); the agent's is RL-Games' nested dictionary."""
    configure.refuse(request, UNSUPPORTED, on_cpu=device == "cpu")
    env_cfg, agent_cfg, agent_overrides = configure.resolve_task(request, AGENT_ENTRY_POINT, device, rank)
    params = agent_cfg["params"]
    if request.batch_size is None:
        raise UserError(
            "batch_size: library: RL-Games' tasks set the size of a mini-batch, which would not grow with num_envs as with other"
            f" trainers. Name batch sizes: {request.task_id} has {params['config']['minibatch_size']}"
        )
    # RL-Games 1.6.5 compiles its model by default; version 1.6.1, which Isaac Lab requires, cannot.
    params["config"] = {"torch_compile": False, "mixed_precision": False, **params["config"]}
    params["torch_threads"] = 0  # the launcher sets PyTorch's threads, not RL-Games
    requested: Overrides = {
        "params.seed": request.seed,
        "params.config.device": device,
        "params.config.horizon_length": request.horizon,
        "params.config.minibatch_size": request.batch_size,
    }
    apply_overrides(agent_cfg, agent_overrides, "agent", decided=requested)
    configure.use_rule(
        request, agent_cfg, agent_overrides, learning_rate="params.config.learning_rate", epochs="params.config.mini_epochs",
        adapts="agent.params.config.lr_schedule: fixed" if params["config"].get("lr_schedule") == "adaptive" else None,
    )  # fmt: skip
    apply_overrides(agent_cfg, requested | remedies.agent_fields(request.memory, request.trainer), "agent")
    check_agent(params, request)
    params["config"] |= {
        "device_name": device,
        "num_actors": request.num_envs,
        "multi_gpu": False,
        "max_epochs": -1,
        "save_frequency": 0,
        "save_best_after": metered.UNREACHABLE,
    }
    return TrialConfig(request.task_id, env_cfg, agent_cfg)


def check_agent(params: dict[str, Any], request: Request) -> None:
    """Check that a trial can measure the agent of a task, overrides included. Pure.

    Raises:
        UserError: names the field, its value, and what to do.
    """
    algorithm, config = params["algo"]["name"], params["config"]
    if algorithm != ALGORITHM:
        raise UserError(
            f"agent.params.algo.name: {algorithm!r} is not measured; trainer: rl_games runs {ALGORITHM!r} alone. Use"
            " another task or trainer"
        )
    if "central_value_config" in config:
        raise UserError(
            "agent.params.config.central_value_config: this task's critic has its own mini-batches, so batch_size would not"
            " apply to all optimizer steps. Use another task or trainer"
        )
    if config["lr_schedule"] == "linear":
        raise UserError(
            "agent.params.config.lr_schedule: 'linear' needs the number of epochs, which a trial does not know. Use"
            " 'adaptive', or 'fixed' for a constant learning rate"
        )
    rollout, sequence = rollout_size(request.num_envs, request.horizon), config.get("seq_length", 4)
    if rollout % sequence:
        raise UserError(
            f"num_envs {request.num_envs} x horizon {request.horizon} = {rollout} is not a multiple of"
            f" agent.params.config.seq_length, {sequence}, which RL-Games requires even without a recurrent network. Use"
            " other sizes"
        )


def train(config: TrialConfig, meter: Meter) -> None:
    """Train with RL-Games' `Runner.run` until the meter raises `TrialDone`."""
    # Late, because it imports gym, which prints warnings: a study is checked before it has a log for them.
    from isaaclab_rl.rl_games import RlGamesVecEnvWrapper, register_rl_games_env

    env = RlGamesVecEnvWrapper.from_agent_cfg(metered.start(config, meter), config.agent)
    meter.timeline.wrap(env, "_process_obs", "storage")  # a clipped copy of each observation
    register_rl_games_env(env)
    runner = Runner(IsaacAlgoObserver())
    runner.algo_factory.register_builder(ALGORITHM, lambda **made_with: MeteredAgent(meter, **made_with))
    runner.load(config.agent)
    runner.run({"train": True, "play": False})


class MeteredAgent(A2CAgent):
    """RL-Games' PPO agent, which reports its training loop (`A2CAgent.train`) to the meter."""

    def __init__(self, meter: Meter, base_name: str, params: dict[str, Any]) -> None:
        """Take the arguments of RL-Games' factory. Leaves no folder and no event file behind."""
        self._meter = meter
        self._phases = ExitStack()
        """Holds the phase that lasts until the loop calls another method."""
        a2c_common.SummaryWriter = metered.NoWriter  # for the whole process, which runs only this trial
        with TemporaryDirectory() as folder:
            params["config"] |= {"train_dir": folder, "full_experiment_name": "agent"}
            super().__init__(base_name, params)
        self.network_as_made = self.model
        """The network without torch.compile's wrapper: the same parameters, under their original names."""

    def update_epoch(self) -> int:
        """Begin an iteration. Before the first, start the meter: the environment is reset and all tensors exist."""
        if self.epoch_num == 0:
            tensors = self.experience_buffer.tensor_dict
            stored = tensors["obses"]
            observations = stored if isinstance(stored, dict) else {"policy": stored}
            learner = LearnerDescription(
                state=lambda: self.network_as_made.state_dict(keep_vars=True),
                num_mini_batches=self.num_minibatches,
                rollout_observations=lambda: observations,
                stored_bytes=TensorDict(tensors, batch_size=[]).bytes(),
                optimizers=[self.optimizer],
            )
            self._meter.start_training(learner)
        return super().update_epoch()

    def train_epoch(self) -> tuple[Any, ...]:
        """Collect a rollout, learn from it, and report the iteration."""
        with self._phases:
            results = super().train_epoch()
        *_, surrogate, value, bounds, entropy, _, _, _ = results
        losses = {"value": value, "surrogate": surrogate, "entropy": entropy, "bounds": bounds}
        losses = {name: torch.stack(per_step).mean() for name, per_step in losses.items() if per_step}
        *means, action_std = torch.stack([*losses.values(), self.dataset.values_dict["sigma"].mean()]).tolist()
        self._meter.end_iteration(
            losses=dict(zip(losses, means, strict=True)),
            learning_rate=self.last_lr,
            action_std=action_std,
        )
        return results

    def get_action_values(self, obs: dict[str, Any]) -> dict[str, torch.Tensor]:
        """Run actor and critic. Until the environment steps, the loop then stores their outputs: the phase `storage`."""
        with self._meter.timeline.phase("inference"):
            values = super().get_action_values(obs)
        self._phases.enter_context(self._meter.timeline.phase("storage"))
        return values

    def env_step(self, actions: torch.Tensor) -> tuple[Any, ...]:
        """Step the environment."""
        self._phases.close()
        return super().env_step(actions)

    def get_values(self, obs: dict[str, Any]) -> torch.Tensor:
        """Run the critic on the observations after the rollout. The rest of the epoch is the phase `learning`."""
        self._phases.enter_context(self._meter.timeline.phase("learning"))
        return super().get_values(obs)
