"""Starts and measures any agent of skrl."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from isaaclab_rl.skrl import SkrlVecEnvWrapper
from skrl.utils import set_seed
from skrl.utils.runner.torch import Runner

from envknee.measure.learner import LearnerDescription
from envknee.measure.meter import Meter
from envknee.record.schema import Phase
from envknee.trainers import TrialConfig
from envknee.trainers.common import metered

AGENT_ENTRY_POINT = "skrl_cfg_entry_point"

AGENT_PHASES: dict[str, Phase] = {"act": "inference", "record_transition": "storage", "update": "learning"}
"""Methods of the agent that skrl's trainer calls, and their phases."""

UNSUPPORTED = {
    "ranks": "its ranks meet over a TCP port that listens on every address, and on GPUs only",
    "lean": "its memory holds float32, and its networks do not normalize",
}
"""As of skrl 2.1.1: skrl/__init__.py (_Config), agents/torch (init, act, update)."""


def set_common(agent_cfg: dict[str, Any], seed: int) -> None:
    """Set the seed, and turn off skrl's own logs, checkpoints and end of training."""
    agent_cfg["seed"] = seed
    agent_cfg["agent"]["experiment"] |= {"write_interval": 0, "checkpoint_interval": 0}  # the meter writes the rows
    agent_cfg["trainer"] |= {
        "timesteps": metered.UNREACHABLE,
        "disable_progressbar": True,
        "close_environment_at_exit": False,
    }


def train(
    config: TrialConfig,
    meter: Meter,
    end_iterations: Callable[[Any, Meter], None],
    num_mini_batches: int | None = None,
    observations_of: Callable[[Any], Mapping[str, torch.Tensor]] = lambda _: {},
    further_state: Callable[[Any], Mapping[str, torch.Tensor]] = lambda _: {},
) -> None:
    """Train with skrl's `Runner.run` until the meter raises `TrialDone`.

    `end_iterations` makes the agent end the meter's iterations, `observations_of` returns its stored observations, and `further_state`
    what it learns beside its networks.
    """
    simulation = metered.start(config, meter)
    # skrl's wrapper resets the environment, and so all generators, with the seed set here (default: 0).
    set_seed(config.agent["seed"])
    env: Any = SkrlVecEnvWrapper(simulation)
    runner = Runner(env, config.agent)
    agent: Any = runner.agent
    env.reset()  # skrl would do this later, inside the timed part
    for method, phase in AGENT_PHASES.items():
        meter.timeline.wrap(agent, method, phase)
    modules = {name: module for name, module in agent.checkpoint_modules.items() if isinstance(module, torch.nn.Module)}
    further = further_state(agent)
    end_iterations(agent, meter)
    stored_bytes = sum(tensor.nbytes for tensor in agent.memory.tensors.values())
    optimizers = [part for part in agent.checkpoint_modules.values() if isinstance(part, torch.optim.Optimizer)]
    learner = LearnerDescription(
        state=lambda: {**metered.state_of(modules), **further},  # with the running statistics of preprocessors
        num_mini_batches=num_mini_batches,
        rollout_observations=lambda: observations_of(agent),
        stored_bytes=stored_bytes,
        optimizers=optimizers,
    )
    meter.start_training(learner)
    runner.run()


def take_tracked(agent: Any) -> dict[str, float]:
    """Return the latest value of each figure that skrl tracks for TensorBoard, and clear the lists, which grow with each step."""
    tracked = {tag: values[-1] for tag, values in agent.tracking_data.items()}
    agent.tracking_data.clear()
    return tracked


def stored_observations(agent: Any) -> dict[str, torch.Tensor]:
    """Return views of the stored observations by group [steps, num_envs, ...]. skrl stores them flat."""
    groups = {"policy": ("observations", agent.observation_space), "critic": ("states", agent.state_space)}
    stored = agent.memory.tensors
    return {
        group: stored[name].unflatten(2, space.shape) if space.shape else stored[name]
        for group, (name, space) in groups.items()
        if name in stored
    }
