"""The part of a trial's configuration that all trainers share: task, mini-batches, scaling rule, refused options."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from envknee import tasks
from envknee.base.point import rollout_size
from envknee.record.schema import Request
from envknee.study import remedies, space
from envknee.study.errors import UserError
from envknee.study.overrides import apply_overrides, hydra, split_by_root
from envknee.study.scaling_rule import RATE_GROWS
from envknee.study.value_types import Overrides
from envknee.tasks import frontends

RSL_RL = "rsl_rl_cfg_entry_point"
"""The key under which tasks register their configuration for RSL-RL; other trainers convert it for tasks without one of theirs."""


def resolve_task(request: Request, agent_entry_point: str | None, device: str, rank: int) -> tuple[Any, Any, Overrides]:
    """Return (complete environment configuration of a rank, agent configuration as registered, overrides of the agent).

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


def fields_set_by_batch_size(request: Request, field: str) -> tuple[str, ...]:
    """Return (field,) if the request's batch size decides this field, else ()."""
    return () if request.batch_size is None else (field,)


def num_mini_batches(request: Request, default: int) -> int:
    """Return the mini-batches per epoch: from the request's `batch_size`, or the library's `default`.

    Raises:
        UserError: when they do not divide the rollout.
    """
    if request.batch_size is not None:
        return space.num_mini_batches(request.num_envs, request.horizon, request.batch_size, request.world_size)
    if rollout_size(request.num_envs, request.horizon) % default:
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
    adapts: str | None = None,
) -> None:
    """Set the learning rate and the epochs of a request's scaling rule, if it has one.

    `agent` is the trainer's configuration, with the study's `overrides` applied, and `learning_rate` and `epochs` (passes over a
    rollout) name its fields. `adapts` is the override that turns an adaptive learning rate off; None: the rate does not adapt.

    Raises:
        UserError: when an override sets the same field, or a schedule would change the learning rate that a rule sets.
    """
    values = {learning_rate: request.learning_rate, epochs: request.epochs}
    decided: Overrides = {field: value for field, value in values.items() if value is not None}
    if overridden := sorted(decided.keys() & overrides.keys()):
        field = overridden[0]
        raise UserError(
            f"override agent.{field}: {overrides[field]!r}: the arm's scaling sets it to {decided[field]!r} here. Take the override"
            " out, or scaling.learning_rate and scaling.epochs"
        )
    rule = request.scaled_from and request.scaled_from.rule
    if rule in RATE_GROWS and adapts:
        raise UserError(
            f"scaling: rule {rule} sets the learning rate, and this arm's schedule changes it with the policy's KL divergence after"
            f" each update: the rule would say only where it starts. Set `overrides: {{{adapts}}}`, or take another rule"
        )
    apply_overrides(agent, decided, "agent")


class _Option(NamedTuple):
    """Something that a request may ask for, and that not every trainer has."""

    is_asked: bool
    words: str
    """What is asked for, as an error names it."""
    instead: str
    """What to write in the study instead."""


def refuse(request: Request, reasons: Mapping[str, str], on_cpu: bool = False) -> None:
    """Refuse options that a request's trainer lacks, rather than ignore them.

    `reasons` says why it lacks `ranks` or `lean`, if it does, and `envknee.study.remedies` which trainers lack which keys of `memory:`.

    Raises:
        UserError: names the trainer, the requested option, and an alternative.
    """
    options = {
        "ranks": _Option(request.processes > 1, f"{request.world_size} ranks (gpus, cpu_ranks, nodes)", "gpus: 1 or 0"),
        "lean": _Option(request.observations == "lean", "observations: lean", "observations: stock"),
    }
    refused = [(options[name], reason) for name, reason in reasons.items() if options[name].is_asked]
    for name, value, default, reason in remedies.refusals(request.memory, request.trainer, on_cpu):
        option = _Option(True, f"memory.{name}: {hydra(value)}", f"{name}: {hydra(default)}")
        refused.append((option, reason))
    if refused:
        option, reason = refused[0]
        raise UserError(
            f"trainer: {request.trainer} cannot do {option.words}: {reason}. Use {option.instead}, or trainer: rsl_rl, which can"
        )
