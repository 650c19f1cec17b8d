"""What skrl's agents have in common: how one is started in Isaac Lab, watched, and exported.

Input: a configuration for skrl's `Runner`, a meter. Output: the runner, whose agent tells the meter's timeline what it does.
"""

from pathlib import Path
from typing import Any

import torch
from isaaclab_rl.skrl import SkrlVecEnvWrapper
from skrl.utils import set_seed
from skrl.utils.runner.torch import Runner

from envknee.measure.meter import Meter
from envknee.record.schema import Phase
from envknee.trainers import TrialConfig
from envknee.trainers.common import determinism, metered
from envknee.trainers.common.traced import save_policy

AGENT_ENTRY_POINT = "skrl_cfg_entry_point"
"""Under which name tasks register their configuration for skrl."""

UNREACHABLE_STEPS = 1_000_000_000
"""The meter ends a trial, never skrl's own number of timesteps."""

AGENT_PHASES: dict[str, Phase] = {"act": "inference", "record_transition": "storage", "update": "learning"}
"""What skrl's trainer calls on its agent, and what that is."""

UNSUPPORTED = {
    "ranks": "its ranks meet over a TCP port that listens on every address, and on GPUs only",
    "lean": "its memory holds float32, and its networks do not normalize",
}
"""As of skrl 2.1.1: skrl/__init__.py (_Config), agents/torch (init, act, update)."""


def leave_to_the_meter(agent_cfg: dict[str, Any], seed: int) -> None:
    """Set in a runner's configuration what is the same for every agent: the seed, and that skrl neither writes nor ends anything."""
    agent_cfg["seed"] = seed
    agent_cfg["agent"]["experiment"] |= {"write_interval": 0, "checkpoint_interval": 0}  # rows are the meter's
    agent_cfg["trainer"] |= {
        "timesteps": UNREACHABLE_STEPS,
        "disable_progressbar": True,
        "close_environment_at_exit": False,
    }


def start(config: TrialConfig, meter: Meter) -> Any:
    """Start the simulation and a runner around it; `meter` knows its agent's phases, policy and networks."""
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
    meter.learned = lambda: learned(agent)
    return runner


def stored_bytes(agent: Any) -> int:
    """Return what an agent's memory takes."""
    return sum(tensor.nbytes for tensor in agent.memory.tensors.values())


def take_tracked(agent: Any) -> dict[str, float]:
    """Return the latest of each figure that skrl would write to TensorBoard, and forget them: they would grow with each step."""
    tracked = {tag: values[-1] for tag, values in agent.tracking_data.items()}
    agent.tracking_data.clear()
    return tracked


def kept_observations(agent: Any) -> dict[str, torch.Tensor]:
    """Return, by group, views of the observations in an agent's memory [steps, num_envs, ...]: skrl keeps them flat."""
    groups = {"policy": ("observations", agent.observation_space), "critic": ("states", agent.state_space)}
    kept = agent.memory.tensors
    return {
        group: kept[name].unflatten(2, space.shape) if space.shape else kept[name]
        for group, (name, space) in groups.items()
        if name in kept
    }


def learned(agent: Any) -> dict[str, torch.Tensor]:
    """Return parameters and running statistics of an agent's networks and preprocessors, by name."""
    modules = {name: module for name, module in agent.checkpoint_modules.items() if isinstance(module, torch.nn.Module)}
    return metered.learned(modules)


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
    save_policy(MeanActions(agent), kept_observations(agent)["policy"][0], path)
