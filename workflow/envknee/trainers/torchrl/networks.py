"""Configuration, actor and critic of TorchRL's PPO.

Isaac Lab 3.0.0 registers `torchrl_cfg_entry_point` only for state tasks, and its own networks take only flat observations
(isaaclab_rl/torchrl/ppo.py). For other tasks, such as camera tasks, the networks follow the configuration for RSL-RL.
"""

from typing import Any

import torch
from isaaclab.utils import to_dict
from isaaclab.utils.configclass import configclass
from isaaclab_rl.torchrl import IsaacLabTorchRLWrapper, TorchRlPpoCfg, make_actor, make_critic
from leanframes.rsl_rl import LeanCNNModel
from rsl_rl.models import MLPModel
from tensordict.nn import AddStateIndependentNormalScale, TensorDictModule, TensorDictModuleBase
from torch import nn
from torchrl.envs import ExplorationType
from torchrl.modules import IndependentNormal, ProbabilisticActor, ValueOperator

from envknee.study.errors import UserError

SAME_OF_AGENT = ("num_steps_per_env", "max_iterations", "save_interval", "experiment_name", "clip_actions")
SAME_OF_ALGORITHM = (
    "num_learning_epochs", "num_mini_batches", "learning_rate", "gamma", "lam", "clip_param", "use_clipped_value_loss",
    "entropy_coef", "value_loss_coef", "max_grad_norm",
)  # fmt: skip
"""Fields of RSL-RL's configuration that have the same name and meaning in TorchRL's."""


@configclass
class LikeRslRlCfg(TorchRlPpoCfg):
    """Isaac Lab's configuration of TorchRL's PPO, with RSL-RL's networks on observation groups."""

    actor_groups: list[str] = []
    critic_groups: list[str] = []
    """Observation groups of each network. Images [channels, height, width] go through convolutions, vectors directly to the MLP."""
    actor_cnn: dict | None = None
    critic_cnn: dict | None = None
    """RSL-RL's `cnn_cfg`; None if no group is an image."""
    loss_critic_type: str = "l2"
    """TorchRL's name for the value loss; RSL-RL's is the squared error."""
    init_at_random_ep_len: bool = True
    """Start environments in mid-episode, so that their episodes do not all end at once."""


def like_rsl_rl(cfg: Any) -> LikeRslRlCfg:
    """Return TorchRL's configuration with the networks and settings of an RSL-RL configuration.

    Raises:
        UserError: lists the features that TorchRL's PPO lacks or treats differently.
    """
    algorithm, actor, critic = cfg.algorithm, cfg.actor, cfg.critic
    models, distribution = (actor.class_name, critic.class_name), actor.distribution_cfg.class_name
    features = {
        "random network distillation (algorithm.rnd_cfg)": getattr(algorithm, "rnd_cfg", None) is not None,
        "symmetry (algorithm.symmetry_cfg)": getattr(algorithm, "symmetry_cfg", None) is not None,
        "a shared CNN (algorithm.share_cnn_encoders)": getattr(algorithm, "share_cnn_encoders", False),
        "normalized observations (obs_normalization)": actor.obs_normalization or critic.obs_normalization,
        f"the models {' and '.join(models)}": not {*models} <= {"MLPModel", "CNNModel"},
        f"the distribution {distribution}": distribution != "GaussianDistribution",
    }
    if unsupported := [name for name, is_there in features.items() if is_there]:
        raise UserError(
            f"trainer: torchrl takes this task's networks from its configuration for RSL-RL, and cannot do {', '.join(unsupported)}."
            " Use trainer: rsl_rl for this task"
        )
    return LikeRslRlCfg(
        **{name: getattr(cfg, name) for name in SAME_OF_AGENT},
        **{name: getattr(algorithm, name) for name in SAME_OF_ALGORITHM},
        actor_hidden_dims=list(actor.hidden_dims),
        critic_hidden_dims=list(critic.hidden_dims),
        activation=actor.activation,
        init_noise_std=actor.distribution_cfg.init_std,
        desired_kl=algorithm.desired_kl if algorithm.schedule == "adaptive" else None,
        actor_groups=list(cfg.obs_groups.get("actor", ["policy"])),
        critic_groups=list(cfg.obs_groups.get("critic", ["policy"])),
        actor_cnn=_cnn(actor),
        critic_cnn=_cnn(critic),
    )


def _cnn(model: Any) -> dict[str, Any] | None:
    return to_dict(model.cnn_cfg) if model.class_name == "CNNModel" else None


def make_networks(env: IsaacLabTorchRLWrapper, cfg: TorchRlPpoCfg) -> tuple[TensorDictModuleBase, TensorDictModuleBase]:
    """Return (actor, critic) on the environment's device; they map observations to `action` and to `state_value`."""
    if not isinstance(cfg, LikeRslRlCfg):
        actor, critic = make_actor(env, cfg), make_critic(env, cfg)
    else:
        num_actions = env.action_spec.shape[-1]
        mean = GroupNetwork(env, cfg, cfg.actor_groups, cfg.actor_cnn, cfg.actor_hidden_dims, num_actions)
        spread = AddStateIndependentNormalScale(num_actions, scale_mapping="none", init_value=cfg.init_noise_std)
        actor = ProbabilisticActor(
            TensorDictModule(nn.Sequential(mean, spread), in_keys=list(cfg.actor_groups), out_keys=["loc", "scale"]),
            spec=env.action_spec,
            in_keys=["loc", "scale"],
            distribution_class=IndependentNormal,
            return_log_prob=True,
            default_interaction_type=ExplorationType.RANDOM,
        )
        value = GroupNetwork(env, cfg, cfg.critic_groups, cfg.critic_cnn, cfg.critic_hidden_dims, 1)
        critic = ValueOperator(value, in_keys=list(cfg.critic_groups))
    return actor.to(env.device), critic.to(env.device)


class GroupNetwork(nn.Module):
    """RSL-RL's network, called with its observation groups one by one. Lean frames (uint8) are normalized in it (`LeanCNNModel`)."""

    def __init__(
        self, env: Any, cfg: LikeRslRlCfg, groups: list[str], cnn: dict[str, Any] | None, hidden: list[int], out: int
    ) -> None:
        """Create the layers for `groups` of the environment's observations, on its device; `cnn` is RSL-RL's `cnn_cfg`.

        Raises:
            UserError: when a group is missing, or neither a vector nor an image, or an image comes without `cnn`.
        """
        super().__init__()
        self._groups, shapes = groups, env.observation_spec
        arguments = (shapes, {"all": groups}, "all", out, hidden, cfg.activation)
        try:
            if any(len(shapes[group].shape) == 4 for group in groups):
                self._model = LeanCNNModel(*arguments, cnn_cfg=cnn).to(env.device)
                self._model.use_fused(self._model.unfit_for_fused() is None)
            else:
                self._model = MLPModel(*arguments)
        except (KeyError, ValueError) as error:
            raise UserError(
                f"the observation groups {', '.join(groups)} have no network ({error}): the task has {', '.join(shapes.keys())}. Set"
                " agent.actor_groups and agent.critic_groups; vectors have one dimension, and images [channels, height, width] need"
                " agent.actor_cnn or agent.critic_cnn"
            ) from error

    def forward(self, *groups: torch.Tensor) -> torch.Tensor:
        """Return outputs [n, out] for observations [n, ...] of each group."""
        return self._model(dict(zip(self._groups, groups, strict=True)))
