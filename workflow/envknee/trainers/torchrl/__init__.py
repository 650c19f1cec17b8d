"""Trains with TorchRL's PPO: its Collector, LazyTensorStorage and clipped loss, on Isaac Lab's TorchRL wrapper.

Upstream: TorchRL 0.14.1. `train` follows the steps of `train_ppo` of Isaac Lab 3.0.0 (isaaclab_rl/torchrl/ppo.py).

The wrapper is Isaac Lab's `IsaacLabTorchRLWrapper`. TorchRL's `IsaacLabWrapper` does not recognize a direct environment inside another
Gymnasium wrapper (such as `MeteredEnv`), and does not copy the buffers of rewards and episode ends that Isaac Lab overwrites at every
step.
"""

import copy
import dataclasses
import importlib.util
from collections.abc import Callable
from typing import Any

import torch
from isaaclab_rl.torchrl import TorchRlPpoCfg

from envknee import tasks
from envknee.measure.learner import LearnerDescription
from envknee.measure.meter import Meter
from envknee.record.schema import Request
from envknee.study.errors import UserError
from envknee.study.overrides import apply_overrides
from envknee.trainers import TrialConfig
from envknee.trainers.common import configure
from envknee.trainers.torchrl import async2, collectors
from envknee.trainers.torchrl.learner import Learner
from envknee.trainers.torchrl.networks import like_rsl_rl, make_networks
from envknee.trainers.torchrl.rollouts import Rollouts, make_environment

AGENT_ENTRY_POINT = "torchrl_cfg_entry_point"  # Isaac Lab 3.0.0's camera tasks have none

UNSUPPORTED = {
    "ranks": "neither Isaac Lab's loop nor its losses gather gradients; strategy: async2 takes two GPUs, ray several",
}
"""As of TorchRL 0.14.1 and isaaclab_rl/torchrl/ppo.py of Isaac Lab 3.0.0."""

UNSUPPORTED_STRATEGIES = {
    "async2": {
        "deterministic": "two threads share PyTorch's settings",
        "memory.memory_cap_gb": "it does not say which of the two GPUs to cap",
    },
    "ray": {
        "deterministic": "this was never tested",
        "memory": "its memory is spread over several processes",
    },
}
"""Why a strategy cannot take an option; `memory` stands for all its keys."""


def resolve(request: Request, device: str, rank: int = 0) -> TrialConfig:
    """Return the complete configuration of a trial (`Trainer.resolve`)."""
    refuse_what_it_cannot(request)
    is_registered = AGENT_ENTRY_POINT in tasks.registration(request.task_id)
    entry_point = AGENT_ENTRY_POINT if is_registered else configure.RSL_RL
    env_cfg, agent_cfg, agent_overrides = configure.resolve_task(request, entry_point, device, rank)
    cfg: TorchRlPpoCfg = agent_cfg if is_registered else like_rsl_rl(agent_cfg)
    cfg.device = device
    cfg.seed = request.seed + rank
    cfg.num_steps_per_env = request.horizon
    decided = ("device", "seed", "num_steps_per_env", *configure.fields_set_by_batch_size(request, "num_mini_batches"))
    apply_overrides(cfg, agent_overrides, "agent", decided)
    configure.use_rule(
        request, cfg, agent_overrides, learning_rate="learning_rate", epochs="num_learning_epochs",
        adapts="agent.desired_kl: null" if cfg.desired_kl is not None else None,
    )  # fmt: skip
    cfg.num_mini_batches = configure.num_mini_batches(request, cfg.num_mini_batches)
    return TrialConfig(request.task_id, env_cfg, cfg)


def refuse_what_it_cannot(request: Request) -> None:
    """Refuse options that this trainer would ignore.

    Raises:
        UserError: names the option or the missing package, and what to do.
    """
    configure.refuse(request, UNSUPPORTED)
    if request.strategy == "ray" and importlib.util.find_spec("ray") is None:
        raise UserError(
            "strategy: ray needs the package ray, which is not installed here. Run `make setup TRAINERS=ray`, or use"
            " strategy: in_turns"
        )
    memory = request.memory.model_dump(exclude_defaults=True)
    asked = {f"memory.{name}": f"have memory.{name} {value}" for name, value in memory.items()}
    asked |= {"deterministic": "be deterministic"} if request.deterministic else {}
    reasons = UNSUPPORTED_STRATEGIES.get(request.strategy, {})
    for option, words in asked.items():
        if reason := reasons.get(option) or reasons.get(option.partition(".")[0]):
            raise UserError(
                f"strategy: {request.strategy} cannot {words}: {reason}. Leave it out, or use strategy: in_turns"
            )


def train(config: TrialConfig, meter: Meter) -> None:
    """Train until the meter raises `TrialDone`."""
    cfg: TorchRlPpoCfg = config.agent
    if meter.request.strategy == "ray":
        meter.begin("environment")
        with collectors.collectors(meter) as rollouts:
            learner = Learner(rollouts.actor, rollouts.critic, cfg)
            rollouts.hand_over(learner)
            _run(collectors.in_turns, learner, rollouts, meter, describe(learner, rollouts))
        return
    env = make_environment(config, meter)
    torch.manual_seed(cfg.seed)
    actor, critic = make_networks(env, cfg)
    if meter.request.strategy == "async2":
        learner_device = async2.device_of_learner(meter, cfg.device)
        learner = Learner(copy.deepcopy(actor).to(learner_device), copy.deepcopy(critic).to(learner_device), cfg)
        rollouts = Rollouts(env, actor, critic, cfg, meter, learner_device, stored_rollouts=2)
        async2.report_memory(meter, learner, rollouts)
        description = dataclasses.replace(
            describe(learner, rollouts), stored_bytes=None, previous_observations=rollouts.previous_observations
        )
        _run(async2.pipeline, learner, rollouts, meter, description)
    else:
        learner = Learner(actor, critic, cfg)
        rollouts = Rollouts(env, actor, critic, cfg, meter, torch.device(cfg.device))
        _run(in_turns, learner, rollouts, meter, describe(learner, rollouts))


def describe(learner: Learner, rollouts: Rollouts | collectors.GatheredRollouts) -> LearnerDescription:
    """Return what a meter must know of a learner whose rollouts are stored on its own device."""
    return LearnerDescription(
        state=learner.state,
        num_mini_batches=learner.cfg.num_mini_batches,
        rollout_observations=rollouts.observations,
        stored_bytes=rollouts.stored.bytes(),
        optimizers=[learner.optimizer],
    )


def _run(
    loop: Callable[..., None], learner: Learner, rollouts: Any, meter: Meter, description: LearnerDescription
) -> None:
    """Start the meter and run `loop` until the meter ends the trial."""
    meter.start_training(description)
    loop(learner, rollouts, meter)


def in_turns(learner: Learner, rollouts: Rollouts, meter: Meter) -> None:
    """Repeat: collect a rollout and learn from it."""
    while True:
        rollout = rollouts.collect()
        with meter.timeline.phase("learning"):
            losses = learner.update(rollout)
        meter.end_iteration(losses, learner.learning_rate, action_std=rollout["scale"].mean().item())
