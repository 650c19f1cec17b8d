"""RSL-RL's PPO with gradients accumulated over micro-batches: the same optimizer steps with less memory.

Within float error, parameters, learning rate, losses and random numbers are those of `PPO.update` (algorithms/ppo.py of rsl-rl-lib 5.5.1).
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from rsl_rl.algorithms import PPO
from rsl_rl.modules.distribution import BetaDistribution, GaussianDistribution
from tensordict import TensorDict
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from leanframes.errors import LeanError
from leanframes.rsl_rl import out_of_memory


class AccumulatingPPO(PPO):
    """PPO that learns each mini-batch in `micro_batches` parts and adds up their gradients.

    PPO's losses are means over a mini-batch. So the losses and gradients of its parts, weighted by their share of the transitions, add up
    to those of the whole. The rest is done once per mini-batch, as upstream does: advantages are normalized before the split; learning
    rate (from the KL of the whole), reduction across GPUs, clipping and optimizer step follow the last part.

    Memory: activations shrink with the part. So does the copy of the observations, which upstream makes of a whole mini-batch at a time
    (`RolloutStorage.mini_batch_generator`). Rollout, networks and optimizer state keep their size. Time: kernels are smaller, and nothing
    is computed twice.

    One decision of upstream depends on rounding and may differ. A KL above 0 raises the learning rate. In the first mini-batch after a
    rollout the KL is 0 except for rounding (exactly 0 if the standard deviation is a parameter).

    Construct it like PPO, or with `class_name: leanframes.rsl_rl:AccumulatingPPO` for `OnPolicyRunner`. It is stock PPO
    until `split_when_out_of_memory` is called, or `micro_batches` is set.
    """

    learns_by_places: bool = False
    """Whether every update, even in one part, reads observations by their places (flat indices) in the rollout (`_observed`)."""

    micro_batches: int = 1
    """Parts of each mini-batch, at most its transitions; their sizes differ by at most one. A retry raises it for good."""

    on_split: Callable[[int], None] | None = None
    """Called with the new number of parts before each retry; None: there are no retries."""

    is_out_of_memory: Callable[[BaseException], bool] = staticmethod(out_of_memory.is_out_of_memory)
    """Tells whether an exception means that memory ran out. Replace it where another library's errors say so, too."""

    while_gpu_learns: Callable[[], None] | None = None
    """Called in each update once all its work is queued, before the CPU waits for the GPU. Not in upstream's own update."""

    action_std: float | None = None
    """Mean standard deviation of the actions after the newest update, fetched with its losses. Not set by upstream's own update."""

    def split_when_out_of_memory(self, on_split: Callable[[int], None]) -> None:
        """From now on, learn a mini-batch again in twice the parts when memory runs out in a forward or backward pass.

        Raises:
            LeanError: when parts of the agent's mini-batches do not add up to the whole: RND, symmetry, a recurrent model, batch
                normalization, an unknown distribution of actions.
        """
        if unfit := self._unfit_for_parts():
            raise LeanError(
                f"the agent cannot learn in micro-batches: their gradients do not add up to a mini-batch's with"
                f" {', '.join(unfit)}. Take that out of the agent, or learn in whole mini-batches without retry"
            )
        self.on_split = on_split

    def update(self) -> dict[str, float]:
        """Run all epochs over the rollout and return the mean losses: value, surrogate, entropy.

        If memory runs out in a forward or backward pass (`on_split`), the mini-batch is repeated with twice the parts. A failed
        attempt leaves nothing behind, because only gradients are written before a mini-batch's last part is done. On several GPUs each
        rank splits on its own, before the ranks synchronize.

        Raises:
            RuntimeError: PyTorch's out-of-memory error, when not even single transitions fit, or when it came outside of those passes:
                smaller parts cannot help the optimizer.
        """
        if self._learns_whole and not self.learns_by_places:
            return super().update()

        # The places of upstream's mini-batches: `RolloutStorage.mini_batch_generator` draws the same, once for all epochs.
        size = self.storage.num_envs * self.storage.num_transitions_per_env // self.num_mini_batches
        shuffled = torch.randperm(self.num_mini_batches * size, device=self.device)
        # Summed on the device: fetching the losses would wait for the GPU at every mini-batch.
        sums = torch.zeros(3, dtype=torch.float64, device=self.device)
        for _ in range(self.num_learning_epochs):
            for places in shuffled.split(size):
                sums += self._learn(places)

        observations: Any = self.storage.observations.flatten(0, 1)
        self.actor.update_normalization(observations)
        self.critic.update_normalization(observations)
        self.storage.clear()
        means = sums / (self.num_learning_epochs * self.num_mini_batches)
        figures = torch.cat([means, self.get_policy().output_std.detach().mean().double().view(1)])
        if self.while_gpu_learns:
            self.while_gpu_learns()
        *losses, self.action_std = figures.tolist()
        return dict(zip(("value", "surrogate", "entropy"), losses, strict=True))

    @property
    def _learns_whole(self) -> bool:
        """Whether mini-batches have one part, and stay so when memory runs out."""
        return self.micro_batches == 1 and self.on_split is None

    @property
    def _adapts_learning_rate(self) -> bool:
        return self.desired_kl is not None and self.schedule == "adaptive"

    def left_out(self) -> list[str]:
        """Return the names of the agent's features that an update by places would not learn."""
        features = {
            "random network distillation (algorithm.rnd_cfg)": self.rnd is not None,
            "symmetry (algorithm.symmetry_cfg)": self.symmetry is not None,
            "a recurrent model": self._raw_actor.is_recurrent or self._raw_critic.is_recurrent,
        }
        return [name for name, is_there in features.items() if is_there]

    def _unfit_for_parts(self) -> list[str]:
        """Return the names of the agent's features with which the gradients of parts do not add up to a mini-batch's."""
        layers = (*self._raw_actor.modules(), *self._raw_critic.modules())
        distribution, unfit = self._raw_actor.distribution, self.left_out()
        if any(isinstance(layer, _BatchNorm) for layer in layers):  # it would use the mean and variance of a part
            unfit.append("batch normalization (cnn_cfg.norm)")
        if not isinstance(distribution, GaussianDistribution | BetaDistribution):
            unfit.append(f"the distribution {type(distribution).__name__}")
        return unfit

    def _learn(self, places: torch.Tensor) -> torch.Tensor:
        """Do one optimizer step on the mini-batch of the transitions at `places` of the rollout [mini_batch_size].

        Returns:
            The mini-batch's mean losses: value, surrogate, entropy [3].
        """
        losses, kl_mean = self._backward_or_split(places)
        if self._adapts_learning_rate:
            self._adapt_learning_rate(kl_mean)
        if self.is_multi_gpu:
            self.reduce_parameters()
        self._clip_and_step()
        return losses

    def _clip_and_step(self) -> None:
        """Clip the gradients of each network, and move its parameters."""
        nn.utils.clip_grad_norm_(self.actor.parameters(), self.max_grad_norm)
        nn.utils.clip_grad_norm_(self.critic.parameters(), self.max_grad_norm)
        self.optimizer.step()

    def _backward_or_split(self, places: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Call `_backward`, with more parts each time memory runs out."""
        while True:
            try:
                return self._backward(places)
            except Exception as error:
                on_split, may_split = self.on_split, self.micro_batches < len(places)
                if on_split is None or not self.is_out_of_memory(error) or not may_split:
                    raise
            # After the handler, inside which the error's traceback keeps the failed attempt's tensors alive.
            self._forget_attempt()
            self.micro_batches = min(2 * self.micro_batches, len(places))
            on_split(self.micro_batches)

    def _backward(self, places: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Set the gradients to those of the mini-batch at `places`.

        Returns:
            The mini-batch's mean losses (value, surrogate, entropy) [3], and its mean KL divergence [].
        """
        self.optimizer.zero_grad()
        with self._random_numbers_kept():
            results = [self._backward_part(places, part) for part in places.tensor_split(self.micro_batches)]
        losses, kls, params = zip(*results, strict=True)
        self._restore_whole(params)
        return _sum_of(losses), _sum_of(kls)

    def _backward_part(
        self, places: torch.Tensor, part: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, tuple[torch.Tensor, ...]]:
        """Add the gradients of the transitions at `part`, a part of the mini-batch at `places`.

        Returns:
            The part's contribution to the losses (value, surrogate, entropy) [3] and to the KL divergence [], and the distribution's
            parameters, each [transitions, num_actions].
        """
        storage, share = self.storage, len(part) / len(places)

        def taken(stored: Any, chosen: torch.Tensor = part) -> torch.Tensor:
            return stored.flatten(0, 1)[chosen]

        advantages = taken(storage.advantages).squeeze(-1)
        if self.normalize_advantage_per_mini_batch:
            whole = taken(storage.advantages, places)
            advantages = (advantages - whole.mean()) / (whole.std() + 1e-8)
        with self._autocast():
            values = self._evaluate(part)
            log_prob = self.actor.get_output_log_prob(taken(storage.actions))
            params = tuple(param.detach() for param in self.actor.output_distribution_params)
            entropy = self.actor.output_entropy.mean()
            kl_mean = torch.zeros_like(entropy)
            if self._adapts_learning_rate:
                old_params = tuple(map(taken, storage.distribution_params or ()))
                kl_mean = self.actor.get_kl_divergence(old_params, params).mean()

            ratio = torch.exp(log_prob - taken(storage.actions_log_prob).squeeze(-1))
            clipped_ratio = ratio.clamp(1.0 - self.clip_param, 1.0 + self.clip_param)
            surrogate_loss = torch.max(-advantages * ratio, -advantages * clipped_ratio).mean()

            old_values, returns = taken(storage.values), taken(storage.returns)
            value_losses = (values - returns).pow(2)
            if self.use_clipped_value_loss:
                clipped_values = old_values + (values - old_values).clamp(-self.clip_param, self.clip_param)
                value_losses = torch.max(value_losses, (clipped_values - returns).pow(2))
            value_loss = value_losses.mean()
            loss = surrogate_loss + self.value_loss_coef * value_loss - self.entropy_coef * entropy
        (share * loss).backward()
        return share * torch.stack((value_loss, surrogate_loss, entropy)).detach(), share * kl_mean, params

    def _autocast(self) -> AbstractContextManager[Any]:
        """Compute in bfloat16 inside, if the agent learns so."""
        kind = torch.device(self.device).type
        return torch.autocast(device_type=kind, enabled=self.use_mixed_precision, dtype=torch.bfloat16)

    def _evaluate(self, places: torch.Tensor) -> torch.Tensor:
        """Set the actor's distribution for the transitions at `places` of the rollout, and return their values [transitions, 1]."""
        observed = self._observed(places)
        self._predict(observed)
        return self.critic(observed)

    def _random_numbers_kept(self) -> AbstractContextManager[None]:
        """Restore the random generators afterwards: `_predict` samples unused actions. `_restore_whole` then draws what upstream draws."""
        return torch.random.fork_rng([self.device] if torch.device(self.device).type == "cuda" else [])

    def _predict(self, observed: TensorDict) -> None:
        """Set the actor's distribution from these observations."""
        self.actor(observed, stochastic_output=True)

    def _observed(self, places: torch.Tensor) -> Any:
        """Return the observations of the transitions at `places` [transitions] of the rollout."""
        observations: Any = self.storage.observations
        return observations.flatten(0, 1)[places]

    def _restore_whole(self, params: tuple[tuple[torch.Tensor, ...], ...]) -> None:
        """Put the actor and the random generators into the state after upstream's forward pass of the whole mini-batch.

        That pass samples actions, so without this the next rollout would draw other actions than after a stock update. Upstream also logs
        the standard deviation of the last mini-batch (`output_std`). `params` are each part's, in the order of torch.distributions.
        """
        distribution: Any = self._raw_actor.distribution
        whole = (param[0] if len(param) == 1 else torch.cat(param) for param in zip(*params, strict=True))
        distribution._distribution = type(distribution._distribution)(*whole)
        if isinstance(distribution, GaussianDistribution):
            # As many numbers as `sample` draws, without its check that deviations are positive, which waits for the GPU.
            torch.empty_like(distribution.mean).normal_()
        else:
            distribution.sample()

    def _forget_attempt(self) -> None:
        """Free the memory of a failed attempt."""
        self.optimizer.zero_grad()
        # The distribution holds the actor's output, which holds the graph with all its activations.
        distribution: Any = self._raw_actor.distribution
        shape = distribution.input_dim if isinstance(distribution.input_dim, list) else [distribution.input_dim]
        distribution.update(torch.zeros(1, *shape, device=self.device))
        if torch.device(self.device).type == "cuda":
            # Cached blocks of the larger part fit the smaller ones badly.
            torch.cuda.empty_cache()

    def _adapt_learning_rate(self, kl_mean: torch.Tensor) -> None:
        """Set the learning rate from the mean KL divergence [] of the whole mini-batch; all GPUs get the same."""
        self._take_mean_of_gpus(kl_mean)
        if self.gpu_global_rank == 0:
            if kl_mean > self.desired_kl * 2.0:
                self.learning_rate = max(1e-5, self.learning_rate / 1.5)
            elif self.desired_kl / 2.0 > kl_mean > 0.0:
                self.learning_rate = min(1e-2, self.learning_rate * 1.5)
        if self.is_multi_gpu:
            learning_rate = torch.tensor(self.learning_rate, device=self.device)
            torch.distributed.broadcast(learning_rate, src=0)
            self.learning_rate = learning_rate.item()
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate

    def _take_mean_of_gpus(self, kl_mean: torch.Tensor) -> None:
        """Make `kl_mean` [] the mean over all GPUs."""
        if self.is_multi_gpu:
            torch.distributed.all_reduce(kl_mean, op=torch.distributed.ReduceOp.SUM)
            kl_mean /= self.gpu_world_size


def _sum_of(parts: tuple[torch.Tensor, ...]) -> torch.Tensor:
    """Return the sum of tensors of one shape; of one tensor without a kernel."""
    return parts[0] if len(parts) == 1 else torch.stack(parts).sum(dim=0)
