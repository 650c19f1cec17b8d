"""skrl's PPO, through its own seams: Isaac Lab's wrapper, and wrapped methods of its agent.

Input: a request. Output: rows and stop signals through the meter. Upstream: skrl 2.1.1 and Isaac Lab 3.0.0's
`isaaclab train --rl_library skrl`, whose steps `train` follows.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from isaaclab_rl.skrl import SkrlVecEnvWrapper
from skrl.utils import set_seed
from skrl.utils.runner.torch import Runner

from envknee.measure.meter import Meter
from envknee.record.schema import Phase, Request
from envknee.study.errors import UserError
from envknee.study.overrides import apply_overrides, refuse_the_studys
from envknee.trainers import TrialConfig
from envknee.trainers.common import configure, determinism, metered
from envknee.trainers.common.traced import save_policy

UNREACHABLE_STEPS = 1_000_000_000
"""The meter ends a trial, never skrl's own number of timesteps."""

AGENT_ENTRY_POINT = "skrl_cfg_entry_point"
"""Under which name tasks register their configuration for skrl."""

RULE_FIELDS = {"learning_rate": "agent.learning_rate", "epochs": "agent.learning_epochs"}
"""What a rule may set."""

AGENT_PHASES: dict[str, Phase] = {"act": "inference", "record_transition": "storage", "update": "learning"}
"""What skrl's trainer calls on its agent, and what that is."""

UNSUPPORTED = {
    "ranks": "its ranks meet over a TCP port that listens on every address, and on GPUs only",
    "lean": "its memory holds float32, and its networks do not normalize",
}
"""As of skrl 2.1.1: skrl/__init__.py (_Config), agents/torch/ppo/ppo.py (PPO.init, act, update)."""


def resolve(request: Request, device: str, rank: int = 0) -> TrialConfig:
    """Return the complete configuration of a trial; the agent's is skrl's own nested dictionary.

    Raises:
        UserError: when the request asks for what skrl cannot do, the task, the asset or an override is wrong, or the batch
            does not divide the rollout.
    """
    configure.refuse(request, UNSUPPORTED)
    env_cfg, agent_cfg, overrides = configure.resolve_task(request, AGENT_ENTRY_POINT, device, rank)
    decided = (
        "seed",
        "agent.rollouts",
        "memory.memory_size",
        *configure.own_mini_batches(request, "agent.mini_batches"),
    )
    refuse_the_studys(overrides, decided, "agent")
    apply_overrides(agent_cfg, overrides, "agent")
    agent = agent_cfg["agent"]
    if str(agent["class"]).upper() != "PPO":
        raise UserError(
            f"trainer: skrl learns with PPO here, and {request.task_id} is registered with agent.class {agent['class']!r}."
            " Use another task, or trainer: rsl_rl"
        )
    configure.use_rule(
        request, agent_cfg, overrides, **RULE_FIELDS,
        adapts=lambda: "agent.agent.learning_rate_scheduler: null" if agent["learning_rate_scheduler"] else None,
    )  # fmt: skip
    agent_cfg["seed"] = request.seed + rank
    agent["rollouts"] = agent_cfg["memory"]["memory_size"] = request.horizon
    agent["mini_batches"] = configure.num_mini_batches(request, agent["mini_batches"])
    agent["experiment"] |= {"write_interval": 0, "checkpoint_interval": 0}  # rows are the meter's
    agent_cfg["trainer"] |= {
        "timesteps": UNREACHABLE_STEPS,
        "disable_progressbar": True,
        "close_environment_at_exit": False,
    }
    return TrialConfig(request.task_id, env_cfg, agent_cfg)


def command_line(request: Request, device: str) -> list[str]:
    """Return Isaac Lab's own command for the same training."""
    fields = {
        "agent.agent.rollouts": request.horizon,
        "agent.agent.mini_batches": resolve(request, device).agent["agent"]["mini_batches"],
        **configure.rule_fields(request, **RULE_FIELDS, prefix="agent."),
    }
    return configure.isaaclab_train(request, device, "skrl", AGENT_ENTRY_POINT, fields)


def train(config: TrialConfig, meter: Meter) -> None:
    """Train with `Runner.run` until the meter raises `TrialDone`."""
    simulation = metered.start(config, meter)
    # skrl resets the environment, and so all random numbers, with the seed that it knows when it wraps: unless told, 0.
    set_seed(config.agent["seed"])
    env: Any = SkrlVecEnvWrapper(simulation)
    runner = Runner(env, config.agent)
    agent: Any = runner.agent
    env.reset()  # skrl does so once; not within what is timed
    if meter.request.deterministic:
        determinism.require(config.env.sim.device)  # again, after skrl's seeding
    meter.export_policy = lambda path: export_policy(agent, path)
    for method, phase in AGENT_PHASES.items():
        meter.timeline.wrap(agent, method, phase)
    end_iterations(agent, meter)
    meter.learned = lambda: learned(agent)
    meter.memory.learner_made(
        sum(tensor.nbytes for tensor in agent.memory.tensors.values()), lambda: model_tensors(agent)
    )
    meter.begin("first_step")
    meter.start_training(config.agent["agent"]["mini_batches"], rollout_observations(agent))
    with metered.telling_what_broke(meter):
        runner.run()


def rollout_observations(agent: Any) -> dict[str, torch.Tensor]:
    """Return, by group, views of a rollout's observations [horizon, num_envs, ...]: skrl keeps them flat."""
    groups = {"policy": ("observations", agent.observation_space), "critic": ("states", agent.state_space)}
    kept = agent.memory.tensors
    return {
        group: kept[name].unflatten(2, space.shape) if space.shape else kept[name]
        for group, (name, space) in groups.items()
        if name in kept
    }


def model_tensors(agent: Any) -> Iterator[torch.Tensor]:
    """Give the parameters of an agent's networks, their gradients, and the optimizer's state.

    Once each: policy and value may be one network.
    """
    return metered.model_tensors(torch.nn.ModuleDict(agent.models).parameters(), agent.optimizer)


def learned(agent: Any) -> dict[str, torch.Tensor]:
    """Return parameters and running statistics of an agent's networks and preprocessors, by name."""
    modules = {name: module for name, module in agent.checkpoint_modules.items() if isinstance(module, torch.nn.Module)}
    return metered.learned(modules)


def end_iterations(agent: Any, meter: Meter) -> None:
    """Let each update of `agent` end an iteration of `meter`; what skrl would write to TensorBoard says what was learned."""
    update = agent.update

    def update_and_tell(*, timestep: int, timesteps: int) -> None:
        update(timestep=timestep, timesteps=timesteps)
        tracked = {tag: values[-1] for tag, values in agent.tracking_data.items()}
        agent.tracking_data.clear()  # it would grow with each step: nothing is written
        meter.end_iteration(
            losses={
                "value": tracked["Loss / Value loss"] / agent.cfg.value_loss_scale,
                "surrogate": tracked["Loss / Policy loss"],
                "entropy": agent.policy.get_entropy(role="policy").mean().item(),  # of the last mini-batch
            },
            learning_rate=agent.optimizer.param_groups[0]["lr"],
            action_std=tracked["Policy / Standard deviation"],
        )

    agent.update = update_and_tell


class MeanActions(torch.nn.Module):
    """What an agent's policy does without noise."""

    def __init__(self, agent: Any) -> None:
        """Take the networks of `agent`."""
        super().__init__()
        self.policy = agent.policy
        self._preprocess = agent._observation_preprocessor

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        """Return the mean actions [n, num_actions] for observations [n, ...]."""
        flat = self._preprocess(observations.flatten(1))
        means, _ = self.policy.compute({"observations": flat, "states": None}, "policy")
        return means


def export_policy(agent: Any, path: Path) -> None:
    """Write the policy as TorchScript."""
    agent.enable_models_training_mode(False)
    save_policy(MeanActions(agent), rollout_observations(agent)["policy"][0], path)
