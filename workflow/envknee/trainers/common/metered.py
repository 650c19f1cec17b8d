"""What is the same in every trainer's training: a simulation whose steps the meter sees.

Input: a configuration, a meter. Output: an environment for the library's own wrapper; tensors of networks and optimizer.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import gymnasium
import torch

from envknee import tasks
from envknee.measure.meter import Meter
from envknee.trainers import TrialConfig
from envknee.trainers.common import determinism


def start(config: TrialConfig, meter: Meter) -> Any:
    """Start the simulation of a trial, each of whose steps `meter` is told of; the stages environment and learner begin.

    Returns:
        A `MeteredEnv`, around which a library's wrapper comes. Those ask for Isaac Lab's own environments: it passes on all of one.
    """
    meter.begin("environment")
    simulation = tasks.start(config.task_id, config.env, meter)
    if meter.request.deterministic:
        determinism.require(config.env.sim.device)  # again, after Isaac Lab's seeding
    meter.begin("learner")
    return MeteredEnv(simulation, meter)


class MeteredEnv(gymnasium.Wrapper):
    """Isaac Lab's environment, telling the meter of each step; a library's own wrapper comes around it."""

    def __init__(self, env: gymnasium.Env, meter: Meter) -> None:
        """Wrap `env`, as `tasks.start` made it."""
        super().__init__(env)
        self.meter = meter
        self._staggered = meter.request.staggered
        """Whether the first episodes are still to be spread over their length, or started together; None: as they are."""
        self._simulation: Any = env  # tensors for all environments at once, where Gymnasium's types say one of each

    def step(self, action: torch.Tensor) -> tuple[Any, Any, Any, Any, dict]:
        """Step all environments; `action` is [num_envs, num_actions]."""
        if self._staggered is not None:
            self._start_episodes()
        with self.meter.timeline.env_step():
            observations, rewards, terminated, truncated, extras = self._simulation.step(action)
        groups = {group: tensor for group, tensor in observations.items() if isinstance(tensor, torch.Tensor)}
        self.meter.end_step(groups, rewards, terminated | truncated)
        return observations, rewards, terminated, truncated, extras

    def _start_episodes(self) -> None:
        """Set at which of their steps the first episodes start: at the first step, after whatever a library resets before it.

        In the same way for every library: RSL-RL and TorchRL would spread them unless told otherwise, the others never.
        """
        lengths = self._simulation.unwrapped.episode_length_buf
        longest = int(self._simulation.unwrapped.max_episode_length)
        # In place: Isaac Lab and RSL-RL hold the same tensor.
        lengths.copy_(torch.randint_like(lengths, high=longest) if self._staggered else torch.zeros_like(lengths))
        self._staggered = None


def learned(modules: Mapping[str, torch.nn.Module]) -> dict[str, torch.Tensor]:
    """Return what modules have learned, by the name of each and its own: parameters as such, and running statistics."""
    return {
        f"{name}.{key}": value
        for name, module in modules.items()
        for key, value in module.state_dict(keep_vars=True).items()
    }


@contextmanager
def telling_what_broke(meter: Meter) -> Iterator[None]:
    """Train within this: where the rollout or the networks broke, an error of PyTorch's is only where that showed.

    Exploded weights make PyTorch raise in many places ("normal expects all elements of std >= 0.0").

    Raises:
        TrialDone: says what broke, in place of the error.
    """
    try:
        yield
    except (RuntimeError, ValueError) as error:
        meter.check_rollout(images=True)
        meter.check_parameters(str(error))
        raise


def model_tensors(parameters: Iterable[torch.nn.Parameter], optimizer: torch.optim.Optimizer) -> Iterator[torch.Tensor]:
    """Give parameters, their gradients, and the optimizer's state."""
    for parameter in parameters:
        yield parameter
        if parameter.grad is not None:
            yield parameter.grad
    for state in optimizer.state.values():
        yield from (value for value in state.values() if isinstance(value, torch.Tensor))
