"""The part of training that all trainers share: a simulation that reports its steps to the meter."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import gymnasium
import torch

from envknee import tasks
from envknee.measure.meter import Meter
from envknee.measure.phases import ENV_STEP
from envknee.trainers import TrialConfig
from envknee.trainers.common import determinism

UNREACHABLE = 1_000_000_000
"""A number of iterations, epochs or steps that keeps a library from ending a trial or saving checkpoints: the meter ends it."""


def start(config: TrialConfig, meter: Meter) -> Any:
    """Start the simulation of a trial, a `MeteredEnv`; begin the meter's stages `environment` and `learner`."""
    meter.begin("environment")
    simulation = tasks.start(config.task_id, config.env, meter)
    meter.begin("learner")
    return MeteredEnv(simulation, meter)


class MeteredEnv(gymnasium.Wrapper):
    """Isaac Lab's environment, which reports each step to the meter. The library's own wrapper goes around it."""

    def __init__(self, env: gymnasium.Env, meter: Meter) -> None:
        super().__init__(env)
        self.meter = meter
        self._staggered = meter.request.staggered
        """Start the first episodes at random steps (True) or together (False); None: leave them, or already done."""
        self._simulation: Any = env  # Any: it returns tensors for all environments, unlike Gymnasium's types
        self._has_own_dones = meter.request.frontend == "warp"

    def reset(self, **arguments: Any) -> tuple[Any, dict]:
        """Reset all environments. Every library does that after its last seeding, and before it acts."""
        result = self._simulation.reset(**arguments)
        if self.meter.request.deterministic:
            determinism.require(self._simulation.unwrapped.device)
        return result

    def step(self, action: torch.Tensor) -> tuple[Any, Any, Any, Any, dict]:
        """Step all environments; `action` is [num_envs, num_actions]."""
        if self._staggered is not None:
            self._start_episodes()
        with self.meter.timeline.phase(ENV_STEP):
            observations, rewards, terminated, truncated, extras = self._simulation.step(action)
        groups = {group: tensor for group, tensor in observations.items() if isinstance(tensor, torch.Tensor)}
        # Of Warp's frontend both are copies: they are joined once a rollout, because each small kernel makes a short step longer.
        dones = (terminated, truncated) if self._has_own_dones else (terminated | truncated,)
        self.meter.end_step(groups, rewards, *dones)
        return observations, rewards, terminated, truncated, extras

    def _start_episodes(self) -> None:
        """Set the step at which each first episode starts, the same way for every library.

        By default RSL-RL and TorchRL spread these steps, and the others do not. Called at the first step, after a library's resets.
        """
        lengths = self._simulation.unwrapped.episode_length_buf
        longest = int(self._simulation.unwrapped.max_episode_length)
        # In place: Isaac Lab and RSL-RL hold the same tensor.
        lengths.copy_(torch.randint_like(lengths, high=longest) if self._staggered else torch.zeros_like(lengths))
        self._staggered = None


class NoWriter:
    """Replaces the TensorBoard writer of RSL-RL and of RL-Games, and writes nothing: the meter writes the rows."""

    def __init__(self, log_dir: str) -> None: ...

    def add_scalar(self, tag: str, value: float, step: int) -> None:
        """Do nothing."""


def state_of(modules: Mapping[str, torch.nn.Module]) -> dict[str, torch.Tensor]:
    """Return the parameters and running statistics of modules, by `MODULE.NAME`."""
    return dict(torch.nn.ModuleDict(modules).state_dict(keep_vars=True))


@contextmanager
def explaining_errors(meter: Meter) -> Iterator[None]:
    """Replace an error of PyTorch during training by its cause: NaN or infinity in the rollout, or diverged parameters.

    Exploded weights make PyTorch raise in many places ("normal expects all elements of std >= 0.0").

    Raises:
        TrialDone: names the cause. Without one, the error itself is raised.
    """
    try:
        yield
    except (RuntimeError, ValueError) as error:
        meter.checks.check_rollout(images=True)
        meter.checks.check_parameters(str(error))
        raise
