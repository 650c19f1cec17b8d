"""A trial's configuration, as far as it is the same for every trainer: the task, the size of a mini-batch, what is refused.

Input: a request. Output: configurations with everything but the learner's own fields set, and Isaac Lab's own command.
"""

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

from envknee import tasks
from envknee.record.schema import Request
from envknee.study import remedies, space
from envknee.study.errors import UserError
from envknee.study.overrides import apply_overrides, split_by_root
from envknee.study.rules import Overrides, OverrideValue
from envknee.study.scaling_rule import RATE_GROWS
from envknee.tasks import frontends


def resolve_task(request: Request, agent_entry_point: str | None, device: str, rank: int) -> tuple[Any, Any, Overrides]:
    """Return a trial's environment configuration, complete, its agent configuration as registered, and overrides of that.

    Each rank has a seed of its own, as with `isaaclab train`.

    Raises:
        UserError: when the task, the asset or an override of the environment is wrong.
    """
    fields = {name: value for name, value in request.overrides.items() if name != "presets"}
    overrides = split_by_root(fields, ("env", "agent"))
    env_cfg, agent_cfg = tasks.resolve(request.task_id, agent_entry_point, request.overrides.get("presets"))
    tasks.configure(
        env_cfg, request.asset, overrides["env"], request.num_envs, request.seed + rank, device, request.asset_root
    )
    if request.frontend == "warp":
        frontends.check_warp(request.task_id, env_cfg)
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


def use_rule(
    request: Request,
    agent: Any,
    overrides: Overrides,
    *,
    learning_rate: str,
    epochs: str,
    adapts: Callable[[], str | None],
) -> None:
    """Set the learning rate and the epochs that a request's rule gave, where it gave any.

    Args:
        request: what the trial is to run
        agent: the trainer's configuration, overrides included
        overrides: of the agent, by the study
        learning_rate: the field with the learning rate
        epochs: the field with the number of passes over a rollout
        adapts: returns the override that switches off what adapts the learning rate; None where nothing does

    Raises:
        UserError: when an override sets the same field, or a schedule would change the learning rate that a rule sets.
    """
    fields = rule_fields(request, learning_rate, epochs)
    for field in sorted(fields.keys() & overrides.keys()):
        raise UserError(
            f"override agent.{field}: {overrides[field]!r}: the arm's scaling sets it to {fields[field]!r} here. Take the override"
            " out, or scaling.learning_rate and scaling.epochs"
        )
    rule = request.scaled_from and request.scaled_from.rule
    if rule in RATE_GROWS and (remedy := adapts()):
        raise UserError(
            f"scaling: rule {rule} sets the learning rate, and this arm's schedule changes it with the policy's KL divergence after"
            f" each update: the rule would say only where it starts. Set `overrides: {{{remedy}}}`, or take another rule"
        )
    apply_overrides(agent, fields, "agent")


def rule_fields(request: Request, learning_rate: str, epochs: str, prefix: str = "") -> Overrides:
    """Return what of the agent's configuration a request's rule decides: its fields, called as given behind `prefix`."""
    values = {learning_rate: request.learning_rate, epochs: request.epochs}
    return {prefix + field: value for field, value in values.items() if value is not None}


def refuse(request: Request, reasons: Mapping[str, str], on_cpu: bool = False) -> None:
    """Refuse options that a request's trainer does not have: nothing is left out silently.

    What a trainer cannot do of `memory:` stands with each key (`envknee.study.remedies`).

    Args:
        request: what the trial is to run
        reasons: of `ranks` and `lean` those that it cannot do, and why
        on_cpu: whether the trial is to run without a GPU

    Raises:
        UserError: names the trainer, the option that was asked for, and what to do.
    """
    asked = {
        "ranks": (request.processes > 1, f"{request.world_size} ranks (gpus, cpu_ranks, nodes)", "gpus: 1 or 0"),
        "lean": (request.observations == "lean", "observations: lean", "observations: stock"),
    }
    refused = [(*asked[option][1:], reason) for option, reason in reasons.items() if asked[option][0]]
    for name, value, default, reason in remedies.refusals(request.memory, request.trainer, on_cpu):
        refused.append((f"memory.{name}: {_hydra(value)}", f"{name}: {_hydra(default)}", reason))
    for words, instead, reason in refused:
        raise UserError(
            f"trainer: {request.trainer} cannot do {words}: {reason}. Use {instead}, or trainer: rsl_rl, which can"
        )


def use_remedies(request: Request, agent: Any) -> None:
    """Set what the request's `memory:` says of the trainer's configuration: nested attributes or dictionaries."""
    for name, value in remedies.agent_fields(request.memory, request.trainer).items():
        *parents, field = name.split(".")
        holder = agent
        for parent in parents:
            holder = holder[parent] if isinstance(holder, dict) else getattr(holder, parent)
        if isinstance(holder, dict):
            holder[field] = value
        else:
            setattr(holder, field, value)


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
    local = tasks.use_local_files(registered, request.asset, request.asset_root)
    fields = {
        **{f"env.{name}": value for name, value in local.items()},
        **tasks.with_paths(request.overrides),
        **agent,
    }
    iterations = request.warmup_iterations + (request.iterations or 0)
    return [
        sys.executable, "-m", "isaaclab", "train", "--rl_library", library, "--task", request.task_id,
        "--num_envs", str(request.num_envs), "--seed", str(request.seed), "--device", device,
        "--max_iterations", str(iterations), *(["--frontend", "warp"] if request.frontend == "warp" else []),
        *(f"{name}={_hydra(value)}" for name, value in fields.items()),
    ]  # fmt: skip


def _hydra(value: OverrideValue) -> str:
    """Write a value as Hydra reads it: JSON, but for the quotes of a plain word."""
    return value if isinstance(value, str) else json.dumps(value)
