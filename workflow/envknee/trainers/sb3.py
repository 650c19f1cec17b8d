"""Stable-Baselines3's PPO, through its own seams: Isaac Lab's wrapper, a callback, and wrapped methods.

Input: a request. Output: rows and stop signals through the meter. Upstream: stable-baselines3 2.9.2 and Isaac Lab 3.0.0's
`isaaclab train --rl_library sb3`, whose steps `train` follows. Its rollout lies in NumPy arrays of the host: what it copies
there and back while it collects counts as storage.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import gymnasium
import isaaclab_tasks  # noqa: F401  registers the tasks
import torch
from isaaclab.utils import to_dict
from isaaclab_rl.rsl_rl.utils import handle_deprecated_rsl_rl_cfg
from isaaclab_rl.sb3 import Sb3VecEnvWrapper, process_sb3_cfg
from rsl_rl.modules import CNN
from stable_baselines3 import PPO
from stable_baselines3.common import on_policy_algorithm
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor

from envknee import determinism, space
from envknee.errors import UserError
from envknee.meter import Meter
from envknee.overrides import apply_overrides, refuse_the_studys
from envknee.record import Phase, Request
from envknee.trainers import TrialConfig, shared
from envknee.trainers.traced import save_policy

UNREACHABLE_STEPS = 1_000_000_000_000
"""The meter ends a trial, never the library's own number of timesteps."""

AGENT_ENTRY_POINT = "sb3_cfg_entry_point"
"""Under which name tasks register their configuration for Stable-Baselines3; those with cameras have none."""

RSL_RL_ENTRY_POINT = "rsl_rl_cfg_entry_point"
"""From which the others get the nearest equal."""

UNSUPPORTED = {
    "ranks": "it trains in one process",
    "lean": "it would divide frames by 255 and not subtract their mean",
    "mixed_precision": "its update computes in float32 only",
    "retry_accumulate": "it takes each mini-batch whole",
}
"""As of stable-baselines3 2.9.2: ppo/ppo.py (PPO.train), common/preprocessing.py (preprocess_obs)."""

UPSTREAMS_OWN = ("n_timesteps", "device", "seed", "batch_size", "n_minibatches", "n_steps")
"""Fields of a registered configuration that a request takes the place of."""


OF_A_WRAPPER = ("normalize_input", "normalize_value", "clip_obs")
"""Fields that are no arguments of PPO: Isaac Lab wraps the environment where the first is true, and that is refused."""


def resolve(request: Request, device: str, rank: int = 0) -> TrialConfig:
    """Return the complete configuration of a trial; the agent's are arguments of PPO as Isaac Lab's YAML files write them.

    Raises:
        UserError: when the request asks for what the library cannot do, the task, the asset or an override is wrong, or the
            batch does not divide the rollout.
    """
    shared.refuse(request, UNSUPPORTED)
    entry_point = agent_entry_point(request.task_id)
    env_cfg, registered, overrides = shared.resolve_task(request, entry_point, device, rank)
    settings: dict[str, Any] = dict(registered) if entry_point == AGENT_ENTRY_POINT else like_rsl_rl(registered)
    batch_size = _batch_size(request, settings)
    for field in UPSTREAMS_OWN:
        settings.pop(field, None)
    refuse_the_studys(overrides, ("device", "seed", "batch_size", "n_steps"), "agent")
    apply_overrides(settings, overrides, "agent")
    check_settings(settings)
    settings |= {
        "n_steps": request.horizon,
        "batch_size": batch_size,
        "seed": request.seed + rank,
        "device": device,
    }
    return TrialConfig(request.task_id, env_cfg, settings)


def agent_entry_point(task_id: str) -> str:
    """Return where a task's configuration comes from: its own for this library, else RSL-RL's."""
    spec = gymnasium.registry.get(task_id)
    return AGENT_ENTRY_POINT if spec and AGENT_ENTRY_POINT in spec.kwargs else RSL_RL_ENTRY_POINT


def like_rsl_rl(registered: Any) -> dict[str, Any]:
    """Return what comes nearest to a configuration for RSL-RL: the same actor, and a critic on the actor's image features.

    The library knows no critic with observations of its own (isaaclab_rl/sb3.py, `_process_obs`). RSL-RL's clipped value loss
    has no equal, and is left out: clip_range_vf drops the unclipped part, and holds values back that are far off.

    Raises:
        UserError: when it is for a network that this library does not have.
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
    """Return the transitions of one optimizer step; Isaac Lab's files name a number of mini-batches, or the size itself.

    Raises:
        UserError: when it does not divide the rollout.
    """
    rollout = space.rollout_size(request.num_envs, request.horizon)
    own = settings.get("n_minibatches")
    if own is None and request.batch_size is None:
        size = settings["batch_size"]
        if rollout % size:
            raise UserError(
                f"batch_size: library: {request.task_id} is registered for trainer: sb3 with batches of {size}, which do not"
                f" divide num_envs {request.num_envs} x horizon {request.horizon}. Use larger values, or name batch sizes"
            )
        return size
    return rollout // shared.num_mini_batches(request, own or 1)


def check_settings(settings: Mapping[str, Any]) -> None:
    """Refuse what would need to know how long a trial lasts, or a wrapper that Isaac Lab adds.

    Raises:
        UserError: names the field and what to set.
    """
    for field in ("learning_rate", "clip_range", "clip_range_vf"):
        if isinstance(settings.get(field), str):
            raise UserError(
                f"agent.{field}: {settings[field]!r} falls with the share of the training that is done, and a trial ends by"
                f" target, budget or iterations. Set a number: `overrides: {{agent.{field}: 3.0e-4}}`"
            )
    if settings.get("normalize_input"):
        raise UserError(
            "agent.normalize_input: true is not supported with trainer: sb3: statistics of the observations would be outside"
            " what is measured. Set `overrides: {agent.normalize_input: false}`, or use trainer: rsl_rl"
        )


def command_line(request: Request, device: str) -> list[str]:
    """Return Isaac Lab's own command for the same training.

    Raises:
        UserError: also when the task has no configuration of its own for this library: then there is no such command.
    """
    settings = resolve(request, device).agent
    if agent_entry_point(request.task_id) != AGENT_ENTRY_POINT:
        raise UserError(
            f"`isaaclab train --rl_library sb3` cannot train {request.task_id}, which registers no {AGENT_ENTRY_POINT}."
            " Use a task that does (Isaac-Cartpole-Direct), or trainer: rsl_rl"
        )
    fields = {"agent.device": device, "agent.n_steps": request.horizon, "agent.batch_size": settings["batch_size"]}
    return shared.isaaclab_train(request, device, "sb3", AGENT_ENTRY_POINT, fields)


class RslRlFeatures(BaseFeaturesExtractor):
    """RSL-RL's convolutions, for observations that are normalized images with their channels first."""

    def __init__(self, observation_space: gymnasium.spaces.Box, cnn_cfg: dict[str, Any]) -> None:
        """Make the network of RSL-RL's `cnn_cfg` for images [channels, height, width]."""
        channels, height, width = observation_space.shape
        cnn = CNN((height, width), channels, **cnn_cfg)
        assert isinstance(cnn.output_dim, int), "an MLP follows, so it is flat"
        super().__init__(observation_space, cnn.output_dim)
        self.cnn = cnn

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        """Return features [n, features_dim] of images [n, channels, height, width]."""
        return self.cnn(observations)


def train(config: TrialConfig, meter: Meter) -> None:
    """Train with `PPO.learn` until the meter raises `TrialDone`."""
    env = Sb3VecEnvWrapper(shared.start(config, meter))
    if not isinstance(env.observation_space, gymnasium.spaces.Box):
        raise UserError(
            f"trainer: sb3 takes one tensor of observations here, and {config.task_id} gives {env.observation_space}."
            " Use trainer: rsl_rl"
        )
    algorithm = make_algorithm(config.agent, env)
    if meter.request.deterministic:
        determinism.require(config.agent["device"])  # again, after the library's seeding
    policy, rollout = algorithm.policy, algorithm.rollout_buffer
    meter.export_policy = lambda path: export_policy(algorithm, path)
    mark_phases(algorithm, env, meter)
    end_iterations(algorithm, meter)
    meter.learned = lambda: policy.state_dict(keep_vars=True)
    on_host = torch.device(config.agent["device"]).type == "cpu"
    meter.memory.learner_made(
        rollout_bytes(rollout) if on_host else 0,  # the memory map is the device's
        lambda: shared.model_tensors(policy.parameters(), policy.optimizer),
    )
    meter.begin("first_step")
    num_mini_batches = rollout.buffer_size * rollout.n_envs // algorithm.batch_size
    start = AtStart(lambda: meter.start_training(num_mini_batches, RolloutObservations(rollout)))
    with shared.telling_what_broke(meter):
        algorithm.learn(UNREACHABLE_STEPS, callback=start, log_interval=None)  # type: ignore[arg-type]  # None: never


def make_algorithm(settings: Mapping[str, Any], env: Sb3VecEnvWrapper) -> PPO:
    """Return PPO as Isaac Lab makes it, but for its log: it writes none."""
    arguments = process_sb3_cfg(_copied(settings), env.num_envs)
    policy_arguments = arguments.setdefault("policy_kwargs", {})
    if "features_extractor_kwargs" in policy_arguments:
        policy_arguments |= {"features_extractor_class": RslRlFeatures, "normalize_images": False}
    for field in OF_A_WRAPPER:
        arguments.pop(field, None)
    algorithm = PPO(env=env, **arguments)
    algorithm.set_logger(Logger(None, []))
    return algorithm


def _copied(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return a deep copy of nested settings: Isaac Lab changes them in place."""
    return {key: _copied(value) if isinstance(value, Mapping) else value for key, value in settings.items()}


class AtStart(BaseCallback):
    """Calls a function once, when the environment is reset and the first rollout begins."""

    def __init__(self, start: Callable[[], None]) -> None:
        """Take what to call."""
        super().__init__()
        self._start = start

    def _on_training_start(self) -> None:
        self._start()

    def _on_step(self) -> bool:
        return True


class RolloutObservations(Mapping[str, torch.Tensor]):
    """The rollout's observations [horizon, num_envs, ...], where they are now.

    The library allocates them anew for each rollout, and puts them in another order to learn from them
    (common/buffers.py: RolloutBuffer.reset, get).
    """

    def __init__(self, rollout: RolloutBuffer) -> None:
        """Take the buffer that holds them."""
        self._rollout = rollout

    def __getitem__(self, group: str) -> torch.Tensor:
        if group != "policy":
            raise KeyError(group)
        rollout = self._rollout
        kept = torch.from_numpy(rollout.observations)
        return (
            kept.unflatten(0, (rollout.n_envs, rollout.buffer_size)).swapaxes(0, 1) if rollout.generator_ready else kept
        )

    def __iter__(self) -> Iterator[str]:
        return iter(("policy",))

    def __len__(self) -> int:
        return 1


def rollout_bytes(rollout: RolloutBuffer) -> int:
    """Return the size of a rollout: observations, actions, rewards, values, returns, ..."""
    return sum(kept.nbytes for kept in vars(rollout).values() if hasattr(kept, "nbytes"))


def mark_phases(algorithm: PPO, env: Sb3VecEnvWrapper, meter: Meter) -> None:
    """Tell the timeline what `OnPolicyAlgorithm.collect_rollouts` and `PPO.train` call, and what that is."""
    phases: list[tuple[Any, str, Phase]] = [
        (
            env,
            "step",
            "storage",
        ),  # what it does around the environment's own step: copies to the host, a dictionary for each
        (on_policy_algorithm, "obs_as_tensor", "storage"),  # and back to the device
        (algorithm.policy, "forward", "inference"),
        (algorithm.policy, "predict_values", "inference"),
        (algorithm.rollout_buffer, "reset", "storage"),
        (algorithm.rollout_buffer, "add", "storage"),
        (algorithm.rollout_buffer, "compute_returns_and_advantage", "learning"),
        (algorithm, "train", "learning"),
    ]
    for owner, method, phase in phases:
        meter.timeline.wrap(owner, method, phase)


def end_iterations(algorithm: PPO, meter: Meter) -> None:
    """Let each `train` of `algorithm` end an iteration of `meter`; what the library would log says what was learned."""
    learn: Callable[[], None] = algorithm.train

    def learn_and_tell() -> None:
        learn()
        told = algorithm.logger.name_to_value
        meter.end_iteration(
            losses={
                "value": float(told["train/value_loss"]),
                "surrogate": float(told["train/policy_gradient_loss"]),
                "entropy": -float(told["train/entropy_loss"]),
            },
            learning_rate=algorithm.policy.optimizer.param_groups[0]["lr"],
            action_std=float(told["train/std"]),
        )

    algorithm.train = learn_and_tell


class MeanActions(torch.nn.Module):
    """What a policy does without noise."""

    def __init__(self, policy: Any) -> None:
        """Take an `ActorCriticPolicy`."""
        super().__init__()
        self.policy = policy

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        """Return the mean actions [n, num_actions] for observations [n, ...]."""
        features = self.policy.pi_features_extractor(observations)
        return self.policy.action_net(self.policy.mlp_extractor.forward_actor(features))


def export_policy(algorithm: PPO, path: Path) -> None:
    """Write the policy as TorchScript."""
    save_policy(MeanActions(algorithm.policy), RolloutObservations(algorithm.rollout_buffer)["policy"][0], path)
