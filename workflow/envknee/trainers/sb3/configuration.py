"""Configures PPO of stable-baselines3 2.9.2 from a task's own configuration (Isaac Lab 3.0.0), or else from the one for RSL-RL."""

import math
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

from isaaclab.utils import to_dict
from isaaclab_rl.rsl_rl.utils import handle_deprecated_rsl_rl_cfg

from envknee import tasks
from envknee.base.point import rollout_size
from envknee.record.schema import Request
from envknee.study.errors import UserError
from envknee.study.overrides import apply_overrides
from envknee.trainers import TrialConfig
from envknee.trainers.common import configure

AGENT_ENTRY_POINT = "sb3_cfg_entry_point"  # camera tasks have none
UNSUPPORTED = {
    "ranks": "it trains in one process",
    "lean": "it would divide frames by 255 and not subtract their mean",
}
"""As of stable-baselines3 2.9.2: ppo/ppo.py (PPO.train), common/preprocessing.py (preprocess_obs)."""

REPLACED = ("n_timesteps", "device", "seed", "batch_size", "n_minibatches", "n_steps")
"""Fields of a registered configuration that the request replaces."""

SCHEDULABLE = ("learning_rate", "clip_range", "clip_range_vf")


def resolve(request: Request, device: str, rank: int = 0) -> TrialConfig:
    """Return the complete configuration of a trial (`Trainer.resolve`); the agent's is PPO's arguments, as in Isaac Lab's YAML files."""
    configure.refuse(request, UNSUPPORTED)
    is_registered = AGENT_ENTRY_POINT in tasks.registration(request.task_id)
    entry_point = AGENT_ENTRY_POINT if is_registered else configure.RSL_RL
    env_cfg, registered, overrides = configure.resolve_task(request, entry_point, device, rank)
    settings: dict[str, Any] = dict(registered) if is_registered else like_rsl_rl(registered)
    batch_size = _batch_size(request, settings)
    for field in REPLACED:
        settings.pop(field, None)
    # A number may replace a schedule, which is text.
    settings |= {field: None for field in SCHEDULABLE if field in overrides and isinstance(settings.get(field), str)}
    apply_overrides(settings, overrides, "agent", decided=("device", "seed", "batch_size", "n_steps"))
    check_settings(settings)
    configure.use_rule(request, settings, overrides, learning_rate="learning_rate", epochs="n_epochs")
    settings |= {"n_steps": request.horizon, "batch_size": batch_size, "seed": request.seed + rank, "device": device}
    return TrialConfig(request.task_id, env_cfg, settings)


def like_rsl_rl(registered: Any) -> dict[str, Any]:
    """Return the nearest equivalent of a configuration for RSL-RL: the same actor, and a critic on the actor's image features.

    The critic cannot have its own observations (isaaclab_rl/sb3.py, `_process_obs`). RSL-RL's clipped value loss has no equivalent and is
    left out: clip_range_vf drops the unclipped part, so values far from their targets learn too slowly.

    Raises:
        UserError: when this library lacks the network, or the actor reads other groups than `policy`.
    """
    cfg = to_dict(handle_deprecated_rsl_rl_cfg(registered, version("rsl-rl-lib")))
    actor, critic, algorithm = cfg["actor"], cfg["critic"], cfg["algorithm"]
    if actor["class_name"] not in ("CNNModel", "MLPModel") or actor["obs_normalization"]:
        raise UserError(
            f"trainer: sb3 has no equal of RSL-RL's {actor['class_name']} (obs_normalization: {actor['obs_normalization']}),"
            f" and the task registers no {AGENT_ENTRY_POINT}. Use trainer: rsl_rl, or a task that does"
        )
    groups = (cfg["obs_groups"] or {}).get("actor", ["policy"])
    if list(groups) != ["policy"]:
        raise UserError(
            f"trainer: sb3 gets the observations 'policy' only, and the task's actor reads {', '.join(groups)}. Use trainer: rsl_rl"
        )
    return {
        "policy": "CnnPolicy" if actor["class_name"] == "CNNModel" else "MlpPolicy",
        "n_epochs": algorithm["num_learning_epochs"],
        "n_minibatches": algorithm["num_mini_batches"],
        "learning_rate": algorithm["learning_rate"],
        "gamma": algorithm["gamma"],
        "gae_lambda": algorithm["lam"],
        "clip_range": algorithm["clip_param"],
        "ent_coef": algorithm["entropy_coef"],
        "vf_coef": algorithm["value_loss_coef"],
        "max_grad_norm": algorithm["max_grad_norm"],
        "policy_kwargs": {
            "activation_fn": f"nn.{actor['activation'].upper()}",
            "net_arch": {"pi": list(actor["hidden_dims"]), "vf": list(critic["hidden_dims"])},
            "log_std_init": math.log(actor["distribution_cfg"]["init_std"]),
            **({"features_extractor_kwargs": {"cnn_cfg": actor["cnn_cfg"]}} if "cnn_cfg" in actor else {}),
        },
    }


def _batch_size(request: Request, settings: dict[str, Any]) -> int:
    """Return the transitions per optimizer step. Isaac Lab's files give the number of mini-batches, or their size.

    Raises:
        UserError: when it does not divide the rollout.
    """
    rollout = rollout_size(request.num_envs, request.horizon)
    registered = settings.get("n_minibatches")
    if registered is None and request.batch_size is None:
        size = settings["batch_size"]
        if rollout % size:
            raise UserError(
                f"batch_size: library: {request.task_id} is registered for trainer: sb3 with batches of {size}, which do not"
                f" divide num_envs {request.num_envs} x horizon {request.horizon}. Use larger values, or name batch sizes"
            )
        return size
    return rollout // configure.num_mini_batches(request, registered or 1)


def check_settings(settings: Mapping[str, Any]) -> None:
    """Refuse schedules that depend on the length of training, and Isaac Lab's wrapper for normalization.

    Raises:
        UserError: names the field and the value to set.
    """
    for field in SCHEDULABLE:
        if isinstance(settings.get(field), str):
            raise UserError(
                f"agent.{field}: {settings[field]!r} is a schedule over the length of training, which a trial does not know."
                f" Set a number: `overrides: {{agent.{field}: 3.0e-4}}`"
            )
    if settings.get("normalize_input"):
        raise UserError(
            "agent.normalize_input: true is not supported with trainer: sb3: the statistics of the observations would not be"
            " measured. Set `overrides: {agent.normalize_input: false}`, or use trainer: rsl_rl"
        )
