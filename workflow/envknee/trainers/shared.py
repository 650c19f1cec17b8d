"""What every trainer does alike: the task's configuration, the size of a mini-batch, a metered environment.

Input: a request, an environment. Output: configurations with everything but the learner's own fields set, and each
environment step told to the meter.
"""

from typing import Any

import gymnasium
import torch

from envknee import space, tasks
from envknee.config import Overrides
from envknee.errors import UserError
from envknee.meter import Meter
from envknee.overrides import split_by_root
from envknee.record import Request


def resolve_task(request: Request, agent_entry_point: str | None, device: str, rank: int) -> tuple[Any, Any, Overrides]:
    """Return a trial's environment configuration, complete, its agent configuration as registered, and overrides of that.

    Each rank has a seed of its own, as with `isaaclab train`.

    Raises:
        UserError: when the task, the asset or an override of the environment is wrong.
    """
    fields = {name: value for name, value in request.overrides.items() if name != "presets"}
    overrides = split_by_root(fields, ("env", "agent"))
    env_cfg, agent_cfg = tasks.resolve(request.task_id, agent_entry_point, request.overrides.get("presets"))
    tasks.configure(env_cfg, request.asset, overrides["env"], request.num_envs, request.seed + rank, device)
    return env_cfg, agent_cfg, overrides["agent"]


def num_mini_batches(request: Request, default: int) -> int:
    """Return the optimizer steps per epoch: what `batch_size` makes it, or the library's `default`.

    Raises:
        UserError: when they do not divide the rollout.
    """
    if request.batch_size is not None:
        return space.num_mini_batches(request.num_envs, request.horizon, request.batch_size, request.world_size)
    if space.rollout_size(request.num_envs, request.horizon) % default:
        raise UserError(
            f"batch_size: library: {default} mini-batches do not divide num_envs {request.num_envs}"
            f" x horizon {request.horizon}. Use larger values, or name batch sizes"
        )
    return default


class MeteredEnv(gymnasium.Wrapper):
    """Isaac Lab's environment, telling the meter of each step; a library's own wrapper comes around it."""

    def __init__(self, env: gymnasium.Env, meter: Meter) -> None:
        """Wrap `env`, as `tasks.make` made it."""
        super().__init__(env)
        self.meter = meter
        self._simulation: Any = env  # tensors for all environments at once, where Gymnasium's types say one of each

    def step(self, action: torch.Tensor) -> tuple[Any, Any, Any, Any, dict]:
        """Step all environments; `action` is [num_envs, num_actions]."""
        with self.meter.timeline.env_step():
            observations, rewards, terminated, truncated, extras = self._simulation.step(action)
        groups = {group: tensor for group, tensor in observations.items() if isinstance(tensor, torch.Tensor)}
        self.meter.end_step(groups, rewards, terminated | truncated)
        return observations, rewards, terminated, truncated, extras
