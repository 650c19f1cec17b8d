"""Trains with skrl's SAC: gradient steps on batches from a replay buffer follow each environment step.

Agent, losses, networks and memory are skrl 2.1.1's (agents/torch/sac/sac.py, memories/torch/random.py). No task of Isaac Lab 3.0.0
registers a configuration for SAC. So network sizes and discount come from the task's configuration for skrl's PPO, and the other settings
are skrl's defaults where `sac_of` does not set them.
"""

import dataclasses
from typing import Any

import torch
from skrl.agents.torch.sac import SAC_CFG

from envknee.measure.meter import Meter
from envknee.record.schema import Request
from envknee.study.errors import UserError
from envknee.study.overrides import apply_overrides
from envknee.trainers import TrialConfig
from envknee.trainers.common import configure, skrl_run

REPLAY_TRANSITIONS = 1_000_000
"""Size of the replay buffer, from Haarnoja et al. 2018, arXiv:1812.05905, table 1."""


def resolve(request: Request, device: str, rank: int = 0) -> TrialConfig:
    """Return the complete configuration of a trial (`Trainer.resolve`); the agent's is skrl's nested dictionary with `replay_transitions`.

    Raises:
        UserError: also when the replay buffer is smaller than a rollout or a batch.
    """
    configure.refuse(request, skrl_run.UNSUPPORTED)
    env_cfg, ppo_cfg, overrides = configure.resolve_task(request, skrl_run.AGENT_ENTRY_POINT, device, rank)
    batch_size = configure.fields_set_by_batch_size(request, "agent.batch_size")
    decided = ("seed", "memory.memory_size", "agent.learning_starts", *batch_size)
    agent_cfg = sac_of(ppo_cfg, request)
    apply_overrides(agent_cfg, overrides, "agent", decided)
    agent, replay = agent_cfg["agent"], agent_cfg["replay_transitions"]
    agent["batch_size"] = request.batch_size or agent["batch_size"]
    for least, what in (
        (request.num_envs * request.horizon, f"num_envs {request.num_envs} x horizon {request.horizon}"),
        (agent["batch_size"], "one batch"),
    ):
        if replay < least:
            raise UserError(
                f"trainer: skrl_sac keeps {replay:,} transitions in its replay buffer, and {what} has {least:,}. Set `overrides:"
                f" {{agent.replay_transitions: {least}}}` or more"
            )
    agent_cfg["memory"]["memory_size"] = replay // request.num_envs  # in steps of all environments
    skrl_run.set_common(agent_cfg, request.seed + rank)
    return TrialConfig(request.task_id, env_cfg, agent_cfg)


def sac_of(ppo_cfg: dict[str, Any], request: Request) -> dict[str, Any]:
    """Return a SAC configuration for skrl's `Runner`, from a task's configuration for skrl's PPO.

    Raises:
        UserError: when the policy is not a plain network on a single vector of observations.
    """
    policy = ppo_cfg["models"]["policy"]
    network = policy["network"]
    if len(network) != 1 or network[0]["input"] != "OBSERVATIONS" or not all(
        isinstance(layer, int) for layer in network[0]["layers"]
    ):  # fmt: skip
        raise UserError(
            f"trainer: skrl_sac learns from one vector of observations, and {request.task_id} is registered for skrl with another"
            " network (images, or several inputs). Use a task with states, or trainer: skrl"
        )
    # Isaac Lab's action spaces have no bounds. Without tanh the mean drifts to where all actions get the same reward.
    models = {"separate": True, "policy": {**policy, "output": "tanh(ACTIONS)"}}
    with_actions = {**network[0], "input": "concatenate([OBSERVATIONS, ACTIONS])"}
    critics = ("critic_1", "critic_2", "target_critic_1", "target_critic_2")
    critic = {"class": "DeterministicMixin", "clip_actions": False, "network": [with_actions], "output": "ONE"}
    agent = {
        "class": "SAC",
        **dataclasses.asdict(SAC_CFG()),
        "discount_factor": ppo_cfg["agent"]["discount_factor"],
        "observation_preprocessor": "RunningStandardScaler",
        "learning_starts": request.horizon,  # the first iteration fills the buffer
        "rewards_shaper_scale": 1.0,
        "experiment": dict(ppo_cfg["agent"]["experiment"]),
    }
    del agent["rewards_shaper"]  # a function; skrl's Runner makes it from the scale
    del agent["random_timesteps"]  # skrl does not seed its random actions: the untrained policy acts at first instead
    return {
        "seed": request.seed,
        "models": models | {name: dict(critic) for name in critics},  # copies: skrl's Runner removes keys from each
        "replay_transitions": REPLAY_TRANSITIONS,
        # Without replacement skrl shuffles the whole buffer for each batch.
        "memory": {"class": "RandomMemory", "memory_size": 0, "replacement": True},
        "agent": agent,
        "trainer": dict(ppo_cfg["trainer"]),
    }


def train(config: TrialConfig, meter: Meter) -> None:
    """Train until the meter raises `TrialDone`."""
    skrl_run.train(config, meter, end_iterations, further_state=entropy_coefficient)


def entropy_coefficient(agent: Any) -> dict[str, torch.Tensor]:
    """Return the entropy's coefficient, if `agent` learns it."""
    return {"log_entropy_coefficient": agent.log_entropy_coefficient} if agent.cfg.learn_entropy else {}


def end_iterations(agent: Any, meter: Meter) -> None:
    """Make every `horizon` steps of `agent`, with their updates, an iteration of `meter`."""
    update, after_step, horizon = agent.update, agent.post_interaction, meter.request.horizon

    def ends(timestep: int) -> bool:
        return (timestep + 1) % horizon == 0

    def update_in_learning_stage(*, timestep: int, timesteps: int) -> None:
        meter.learn_between_steps()
        # skrl tracks losses only when it would write them, which waits for the device.
        agent.write_interval = int(ends(timestep))
        update(timestep=timestep, timesteps=timesteps)
        agent.write_interval = 0

    def after_step_and_report(*, timestep: int, timesteps: int) -> None:
        after_step(timestep=timestep, timesteps=timesteps)
        if not ends(timestep):
            return
        tracked = skrl_run.take_tracked(agent)
        figures = {
            "critic": "Loss / Critic loss",
            "policy": "Loss / Policy loss",
            "entropy_coefficient": "Coefficient / Entropy coefficient",
        }
        meter.end_iteration(
            losses={name: tracked[tag] for name, tag in figures.items() if tag in tracked},
            learning_rate=agent.policy_optimizer.param_groups[0]["lr"],
            action_std=agent.policy.distribution(role="policy").stddev.mean().item(),
        )

    agent.update, agent.post_interaction = update_in_learning_stage, after_step_and_report
