"""What every trainer does alike: the task's configuration, the size of a mini-batch, a metered environment.

Input: a request, an environment. Output: configurations with everything but the learner's own fields set, Isaac Lab's own
command, and each environment step told to the meter.
"""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import gymnasium
import torch

from envknee import determinism, space, tasks
from envknee.config import Overrides, OverrideValue
from envknee.errors import UserError
from envknee.meter import Meter
from envknee.overrides import split_by_root
from envknee.record import Request
from envknee.trainers import TrialConfig


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


def own_mini_batches(request: Request, field: str) -> tuple[str, ...]:
    """Return the `field` that says how many mini-batches there are, where a request's batch size decides it; else nothing."""
    return () if request.batch_size is None else (field,)


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


def refuse(request: Request, reasons: Mapping[str, str]) -> None:
    """Refuse options that the library of a request's trainer does not have: nothing is left out silently.

    Args:
        request: what the trial is to run
        reasons: of `ranks`, `lean`, `mixed_precision` and `retry_accumulate` those that it cannot do, and why

    Raises:
        UserError: names the trainer, the option that was asked for, and what to do.
    """
    memory = request.memory
    known = {
        "ranks": (request.processes > 1, f"{request.world_size} ranks (gpus, cpu_ranks, nodes)", "gpus: 1 or 0"),
        "lean": (request.observations == "lean", "observations: lean", "observations: stock"),
        "mixed_precision": (memory.mixed_precision, "memory.mixed_precision: true", "mixed_precision: false"),
        "retry_accumulate": (memory.on_oom == "retry_accumulate", "memory.on_oom: retry_accumulate", "on_oom: record"),
    }
    for option, reason in reasons.items():
        is_asked, words, instead = known[option]
        if is_asked:
            raise UserError(
                f"trainer: {request.trainer} cannot do {words}: {reason}. Use {instead}, or trainer: rsl_rl, which can"
            )


def isaaclab_train(
    request: Request, device: str, library: str, agent_entry_point: str, agent: Mapping[str, OverrideValue]
) -> list[str]:
    """Return Isaac Lab's own command for the training of `request`: task, seed, sizes, overrides and asset.

    Upstream: `isaaclab train` of Isaac Lab 3.0.0; fields are set in Hydra's way.

    Args:
        request: what the trial is to run
        device: 'cpu' or 'cuda:0'
        library: what --rl_library calls it
        agent_entry_point: under which name tasks register their configuration for it
        agent: fields of the agent to set beside the overrides, by their whole names
    """
    registered, _ = tasks.resolve(request.task_id, agent_entry_point, request.overrides.get("presets"))
    local = tasks.use_local_files(registered, request.asset)
    fields = {
        **{f"env.{name}": value for name, value in local.items()},
        **tasks.with_paths(request.overrides),
        **agent,
    }
    iterations = request.warmup_iterations + (request.iterations or 0)
    return [
        sys.executable, "-m", "isaaclab", "train", "--rl_library", library, "--task", request.task_id,
        "--num_envs", str(request.num_envs), "--seed", str(request.seed), "--device", device,
        "--max_iterations", str(iterations), *(f"{name}={_hydra(value)}" for name, value in fields.items()),
    ]  # fmt: skip


def _hydra(value: OverrideValue) -> str:
    """Write a value as Hydra reads it: JSON, but for the quotes of a plain word."""
    return value if isinstance(value, str) else json.dumps(value)


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
        self._simulation: Any = env  # tensors for all environments at once, where Gymnasium's types say one of each

    def step(self, action: torch.Tensor) -> tuple[Any, Any, Any, Any, dict]:
        """Step all environments; `action` is [num_envs, num_actions]."""
        with self.meter.timeline.env_step():
            observations, rewards, terminated, truncated, extras = self._simulation.step(action)
        groups = {group: tensor for group, tensor in observations.items() if isinstance(tensor, torch.Tensor)}
        self.meter.end_step(groups, rewards, terminated | truncated)
        return observations, rewards, terminated, truncated, extras
