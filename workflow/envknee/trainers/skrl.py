"""Trains with skrl's PPO and Isaac Lab's skrl wrapper; wraps the agent's methods to measure it.

Upstream: skrl 2.1.1. `train` follows the steps of `isaaclab train --rl_library skrl` (Isaac Lab 3.0.0).
"""

from typing import Any

from envknee.measure.meter import Meter
from envknee.record.schema import Request
from envknee.study.errors import UserError
from envknee.study.overrides import apply_overrides
from envknee.tasks import frontends
from envknee.trainers import TrialConfig
from envknee.trainers.common import configure, skrl_run


def resolve(request: Request, device: str, rank: int = 0) -> TrialConfig:
    """Return the complete configuration of a trial (`Trainer.resolve`); the agent's is skrl's nested dictionary."""
    configure.refuse(request, skrl_run.UNSUPPORTED)
    env_cfg, agent_cfg, overrides = configure.resolve_task(request, skrl_run.AGENT_ENTRY_POINT, device, rank)
    mini_batches = configure.fields_set_by_batch_size(request, "agent.mini_batches")
    decided = ("seed", "agent.rollouts", "memory.memory_size", *mini_batches)
    apply_overrides(agent_cfg, overrides, "agent", decided)
    agent = agent_cfg["agent"]
    if str(agent["class"]).upper() != "PPO":
        raise UserError(
            f"trainer: skrl learns with PPO here, and {request.task_id} is registered with agent.class {agent['class']!r}."
            " Use another task, or trainer: rsl_rl"
        )
    configure.use_rule(
        request, agent_cfg, overrides, learning_rate="agent.learning_rate", epochs="agent.learning_epochs",
        adapts="agent.agent.learning_rate_scheduler: null" if agent.get("learning_rate_scheduler") else None,
    )  # fmt: skip
    agent["rollouts"] = agent_cfg["memory"]["memory_size"] = request.horizon
    agent["mini_batches"] = configure.num_mini_batches(request, agent["mini_batches"])
    skrl_run.set_common(agent_cfg, request.seed + rank)
    return TrialConfig(request.task_id, env_cfg, agent_cfg)


def train(config: TrialConfig, meter: Meter) -> None:
    """Train until the meter raises `TrialDone`."""
    skrl_run.train(config, meter, end_iterations, config.agent["agent"]["mini_batches"], skrl_run.stored_observations)


def end_iterations(agent: Any, meter: Meter) -> None:
    """Make each update of `agent` end an iteration of `meter`, with losses from the figures that skrl tracks for TensorBoard."""

    def report(**_: int) -> None:
        tracked = skrl_run.take_tracked(agent)
        meter.end_iteration(
            losses={
                "value": tracked["Loss / Value loss"] / agent.cfg.value_loss_scale,
                "surrogate": tracked["Loss / Policy loss"],
                "entropy": agent.policy.get_entropy(role="policy").mean().item(),  # of the last mini-batch only
            },
            learning_rate=agent.optimizer.param_groups[0]["lr"],
            action_std=tracked["Policy / Standard deviation"],
        )

    frontends.around(agent, "update", after=report)
