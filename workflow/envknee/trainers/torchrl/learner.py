"""TorchRL's PPO on a filled rollout: advantages, clipped losses, optimizer steps.

Upstream: the learning half of `train_ppo` of Isaac Lab 3.0.0 (isaaclab_rl/torchrl/ppo.py), on TorchRL 0.14.1.
"""

from collections.abc import Iterator
from typing import Any

import torch
from isaaclab_rl.torchrl import TorchRlPpoCfg
from torch import nn
from torchrl.objectives import ClipPPOLoss, KLAdaptiveLR
from torchrl.objectives.value.functional import vec_generalized_advantage_estimate

from envknee.measure.memory import model_tensors
from envknee.trainers.common import metered
from envknee.trainers.torchrl.networks import LikeRslRlCfg

TERMS = ("loss_critic", "loss_objective", "entropy", "kl_approx")
"""Terms of the loss module that are averaged over an update."""


class Learner:
    """Actor, critic and their optimizer.

    Differs from `train_ppo`, which passes the whole rollout through its networks in each epoch, for values and for the KL divergence. Here
    the values come from the collection, one environment step at a time, and the KL that adapts the learning rate is the mean over an
    epoch's mini-batches. With camera frames, a pass of the whole rollout would set the peak of memory.
    """

    def __init__(self, actor: Any, critic: Any, cfg: TorchRlPpoCfg) -> None:
        """Create losses and optimizer for `actor` and `critic` on their device; `cfg.seed` decides the mini-batches."""
        self.actor, self.critic, self.cfg = actor, critic, cfg
        self._loss = ClipPPOLoss(
            actor,
            critic,
            clip_epsilon=cfg.clip_param,
            entropy_bonus=True,  # each row has the entropy, even if its coefficient is 0
            entropy_coeff=cfg.entropy_coef,
            critic_coeff=cfg.value_loss_coef,
            clip_value=cfg.use_clipped_value_loss,
            loss_critic_type=cfg.loss_critic_type if isinstance(cfg, LikeRslRlCfg) else "smooth_l1",
        )
        self.optimizer = torch.optim.Adam(self._loss.parameters(), lr=cfg.learning_rate)
        self._schedule = None if cfg.desired_kl is None else KLAdaptiveLR(self.optimizer, target_kl=cfg.desired_kl)
        self.device = next(actor.parameters()).device
        # A separate generator: another thread draws the actions' noise from the default one, in no fixed order.
        self._generator = torch.Generator(self.device).manual_seed(cfg.seed)

    @property
    def learning_rate(self) -> float:
        """The optimizer's current learning rate."""
        return self.optimizer.param_groups[0]["lr"]

    def update(self, rollout: Any) -> dict[str, float]:
        """Run all epochs over a rollout [horizon, num_envs] with its `next_value`; return the mean losses: value, surrogate, entropy."""
        cfg = self.cfg
        samples = self._with_advantages(rollout).reshape(-1)
        # Summed on the device: fetching the losses would wait for the GPU at every mini-batch.
        sums = torch.zeros(len(TERMS), device=self.device)
        for _ in range(cfg.num_learning_epochs):
            epoch = torch.zeros_like(sums)
            places = torch.randperm(len(samples), device=self.device, generator=self._generator)
            for chosen in places.chunk(cfg.num_mini_batches):
                terms = self._loss(samples[chosen])
                self.optimizer.zero_grad(set_to_none=True)
                losses: Any = sum(value for name, value in terms.items() if name.startswith("loss_"))
                losses.backward()
                nn.utils.clip_grad_norm_(self._loss.parameters(), cfg.max_grad_norm)
                self.optimizer.step()
                epoch += torch.stack([terms[name].detach().mean() for name in TERMS])
            sums += epoch
            if self._schedule is not None:
                self._schedule.step(epoch[TERMS.index("kl_approx")] / cfg.num_mini_batches)
        means = dict(zip(TERMS, (sums / (cfg.num_learning_epochs * cfg.num_mini_batches)).tolist(), strict=True))
        return {
            "value": means["loss_critic"] / cfg.value_loss_coef,
            "surrogate": means["loss_objective"],
            "entropy": means["entropy"],
        }

    def state(self) -> dict[str, torch.Tensor]:
        """Return the parameters and buffers of both networks, by name."""
        return metered.state_of({"actor": self.actor, "critic": self.critic})

    def tensors(self) -> Iterator[torch.Tensor]:
        """Yield parameters, their gradients, and the optimizer's state."""
        return model_tensors(self.state(), [self.optimizer])

    def _with_advantages(self, rollout: Any) -> Any:
        """Return the rollout with value targets, and advantages of mean 0 and standard deviation 1 (GAE's `average_gae`)."""
        value, after = rollout["state_value"], rollout["next"]
        advantage, target = vec_generalized_advantage_estimate(
            self.cfg.gamma, self.cfg.lam, value, rollout["next_value"], after["reward"], after["done"], after["terminated"],
            time_dim=0,
        )  # fmt: skip
        advantage = (advantage - advantage.mean()) / advantage.std().clamp_min(1e-5)
        return rollout.copy().update({"advantage": advantage, "value_target": target})
