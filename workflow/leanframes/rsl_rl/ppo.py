"""RSL-RL's PPO on frames that stay uint8: each frame is stored once, and the network normalizes it.

Input: observations from an environment with a `LeanFrameStack` (`leanframes.isaaclab.use_lean_frames`). Output: the actions and
optimizer steps of stock PPO, within float error. Upstream: rsl-rl-lib 5.5.1. docs/leanframes.md shows how to use it.
"""

import sys
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, replace
from typing import Any

import torch
from rsl_rl.algorithms import PPO
from rsl_rl.env import VecEnv
from rsl_rl.modules.distribution import GaussianDistribution
from tensordict import TensorDict

from leanframes import launch
from leanframes.captured import Captured, beside
from leanframes.errors import LeanError
from leanframes.rsl_rl.accumulate import AccumulatingPPO
from leanframes.rsl_rl.acting import CapturedActing, can_act
from leanframes.rsl_rl.model import LeanCNNModel, compute_dtype
from leanframes.rsl_rl.steps import LearnerSteps
from leanframes.rsl_rl.storage import FrameStorage, stack_sizes_of


class LeanPPO(AccumulatingPPO):
    """`AccumulatingPPO` that learns from a `FrameStorage`, with the switches of `LearnerSteps`."""

    learns_by_places = True

    storage: FrameStorage

    def __init__(
        self, *arguments: Any, fused: bool | None = None, steps: LearnerSteps | None = None, **settings: Any
    ) -> None:
        """Create PPO as upstream does, with `fused` as in `LearnerSteps`, or with all `steps` for tests and benchmarks.

        Raises:
            LeanError: when `fused` is asked for, but this agent or device cannot use it, or the agent has a part that would not be learned.
        """
        super().__init__(*arguments, **settings)
        if left_out := self.left_out():
            raise LeanError(
                f"LeanPPO does not learn with {', '.join(left_out)}. Take that out of the agent, or use stock PPO"
            )
        self.steps = steps or LearnerSteps(fused=fused)
        self._decide_steps()
        for model in self._lean_models:
            model.use_fused(bool(self.steps.fused))
        self._rate: Any = None
        """The learning rate [] if it adapts on the device; float64, like upstream's Python number."""
        self.graph_pool: Any = torch.cuda.graph_pool_handle() if torch.device(self.device).type == "cuda" else None
        """Memory shared by all graphs, because acting and learning alternate."""
        self._captured_step: Captured | None = None
        """The learning step, which learns from the transitions at `_places` and writes `_losses`."""
        self._places: Any = None
        self._losses: Any = None
        self._buffers = [
            (module, name, buffer)
            for network in (self.actor, self.critic)
            for module in network.modules()
            for name, buffer in module._buffers.items()
            if buffer is not None
        ]
        """The networks' buffers, which graphs read where they are now."""
        self._set_up_optimizer()

    @staticmethod
    def construct_algorithm(obs: TensorDict, env: VecEnv, cfg: dict, device: str) -> PPO:
        """Construct models, optimizer and storage, as upstream's runner calls it.

        Raises:
            LeanError: when the environment stacks no uint8 frames.
        """
        stack_sizes = stack_sizes_of(obs, env)
        # Upstream allocates a storage for the whole horizon. It is replaced below, so one step is enough.
        shortened = cfg | {"num_steps_per_env": 1}
        algorithm: Any = PPO.construct_algorithm(obs, env, shortened, device)
        cfg["obs_groups"] = shortened["obs_groups"]
        algorithm.storage = FrameStorage(
            env.num_envs, cfg["num_steps_per_env"], obs, stack_sizes, [env.num_actions], device
        )
        for model in algorithm._lean_models:
            model.rollout = algorithm.storage
        if algorithm.steps.captured_acting:
            acting = CapturedActing(algorithm)
            algorithm.act, algorithm.process_env_step = acting.act, acting.process_env_step
            algorithm.compute_returns = acting.compute_returns
        return algorithm

    def compile(self, mode: str | None = None) -> None:
        """Refuse upstream's torch.compile, which made this learner slower when it was measured on its own.

        Raises:
            LeanError: for any mode.
        """
        if mode is not None:
            raise LeanError(f"torch_compile_mode: {mode} is for stock PPO. Leave it out")

    def update(self) -> dict[str, float]:
        """Run all epochs over the rollout and return the mean losses, as `AccumulatingPPO` does."""
        if self._rate is not None:
            self._rate.fill_(self.learning_rate)  # a user or a checkpoint may have changed it
            self._give_rate()
        if self._optimizer_clips:
            self.optimizer.take_state()  # a checkpoint may have been loaded
        losses = super().update()
        for model in self._lean_models:
            model.packed.clear()
        if self._rate is not None:
            self.learning_rate = self._rate.item()
        self._keep_addresses()
        return losses

    @property
    def _lean_models(self) -> list[LeanCNNModel]:
        return [model for model in (self.actor, self.critic) if isinstance(model, LeanCNNModel)]

    def _decide_steps(self) -> None:
        """Decide the steps that are None, by this agent and device. Refuses `fused` where it cannot be."""
        both, models = (self.actor, self.critic), self._lean_models
        others = [model for model in both if getattr(model, "obs_groups_2d", []) and model not in models]
        reasons = [f"{type(model).__name__} also reads images, and is no LeanCNNModel" for model in others]
        reason = next(filter(None, [*reasons, *(model.unfit_for_fused() for model in models)]), None)
        if self.steps.fused and reason:
            raise LeanError(f"algorithm.fused: {reason}. Leave it out, or set it to false")
        is_on_gpu = bool(models) and torch.device(self.device).type == "cuda"
        if self.steps.fused is None and is_on_gpu and reason:
            print(
                f"leanframes: convolutions are PyTorch's, because fused is off: {reason}", file=sys.stderr, flush=True
            )
        loss = self.steps.fused_loss
        if loss is None:
            is_gaussian = isinstance(self._raw_actor.distribution, GaussianDistribution)
            loss = is_on_gpu and is_gaussian and not self.normalize_advantage_per_mini_batch and launch.HAS_WARP
        usual = LearnerSteps(
            fused=reason is None and bool(models),
            fused_adam=is_on_gpu and self._fits_fused_adam(),
            fused_loss=loss,
            cuda_graph=is_on_gpu and loss,
            critic_beside=is_on_gpu and loss,
            captured_acting=is_on_gpu and can_act(self),
        )
        decided = {name: value for name, value in asdict(self.steps).items() if value is not None}
        self.steps = replace(usual, **decided)

    def _fits_fused_adam(self) -> bool:
        """Return whether the optimizer has a fused form. Its kernel would update parameters twice at once that actor and critic share."""
        parameters = [parameter for group in self.optimizer.param_groups for parameter in group["params"]]
        return "fused" in self.optimizer.defaults and len(set(parameters)) == len(parameters)

    def _set_up_optimizer(self) -> None:
        """Create the optimizer again if the steps need other settings."""
        device, steps = torch.device(self.device), self.steps
        parameters = [parameter for group in self.optimizer.param_groups for parameter in group["params"]]
        settings: dict[str, Any] = {}
        self._optimizer_clips = bool(steps.fused_adam) and type(self.optimizer) is torch.optim.Adam and launch.HAS_WARP
        if steps.fused_adam:
            settings["fused"] = True
        if self._adapts_learning_rate or steps.cuda_graph:
            self._rate = torch.tensor(self.learning_rate, dtype=torch.float64, device=device)
            if device.type == "cuda":
                settings["capturable"] = True
        # Upstream sets only the learning rate, so all other settings are defaults.
        if self._optimizer_clips:
            from leanframes.clipped_adam import ClippedAdam  # late: it needs Warp

            networks = [list(network.parameters()) for network in (self.actor, self.critic)]
            self.optimizer = ClippedAdam(networks, self.learning_rate, self.max_grad_norm)
        elif settings:
            self.optimizer = type(self.optimizer)(parameters, lr=self.learning_rate, **settings)
        if self._rate is not None:
            self._give_rate()

    def _give_rate(self) -> None:
        """Copy the learning rate to the optimizer, on the device."""
        for group in self.optimizer.param_groups:
            if not isinstance(group["lr"], torch.Tensor):
                # CUDA's kernels take float32; on a CPU Adam computes with the number itself.
                group["lr"] = self._rate.float() if self._rate.is_cuda else self._rate.clone()
            group["lr"].copy_(self._rate)

    def _adapt_learning_rate(self, kl_mean: torch.Tensor) -> None:
        desired_kl: Any = self.desired_kl
        self._take_mean_of_gpus(kl_mean)
        lower, higher = (self._rate / 1.5).clamp(min=1e-5), (self._rate * 1.5).clamp(max=1e-2)
        rises = (kl_mean < desired_kl / 2.0) & (kl_mean > 0.0)
        self._rate.copy_(torch.where(kl_mean > desired_kl * 2.0, lower, torch.where(rises, higher, self._rate)))
        if self.is_multi_gpu:
            torch.distributed.broadcast(self._rate, src=0)
        self._give_rate()

    def _clip_and_step(self) -> None:
        if self._optimizer_clips:
            self.optimizer.step()
        else:
            super()._clip_and_step()

    def _learn(self, places: torch.Tensor) -> torch.Tensor:
        # A CUDA graph can neither split nor retry.
        if not (self.steps.cuda_graph and self._learns_whole):
            return super()._learn(places)
        if self._captured_step is None:
            self._places = torch.empty_like(places)
            # Graphs have memory of their own, and PyTorch keeps what the first mini-batch took.
            self._captured_step = Captured(
                self._learn_at_places, places.device, "learning", self.graph_pool, torch.cuda.empty_cache
            )
        self._places.copy_(places)
        self._captured_step()
        return self._losses

    def _learn_at_places(self) -> None:
        self._losses = super()._learn(self._places)

    def _keep_addresses(self) -> None:
        """Move buffers that an update made anew, such as a normalizer's deviations, to where graphs read them."""
        for module, name, kept in self._buffers:
            newest = module._buffers[name]
            if newest is not None and newest is not kept:
                kept.copy_(newest)
                module._buffers[name] = kept

    def _backward_part(
        self, places: torch.Tensor, part: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, tuple[torch.Tensor, ...]]:
        if not self.steps.fused_loss:
            return super()._backward_part(places, part)
        from leanframes import policy_loss  # late: it needs Warp

        size = len(places)
        with self._autocast():
            value = self._evaluate(part).float()
        params = self.actor.output_distribution_params
        mean, deviation = (param.float() for param in params)
        terms, gradients = policy_loss.losses(mean, deviation, value, part, self.storage, self, size)
        learned = [pair for pair in zip((mean, deviation, value), gradients, strict=True) if pair[0].requires_grad]
        torch.autograd.backward(*zip(*learned, strict=True))  # type: ignore
        means = terms.sum(dim=1) / size
        return means[:3], means[3], tuple(param.detach() for param in params)

    def _evaluate(self, places: torch.Tensor) -> torch.Tensor:
        if not (self.steps.critic_beside and torch.cuda.is_current_stream_capturing()):
            return super()._evaluate(places)
        observed = self._observed(places)
        return beside(lambda: self.critic(observed), lambda: self._predict(observed), observed.values())

    def _random_numbers_kept(self) -> AbstractContextManager[None]:
        return nullcontext()  # `_predict` draws none

    def _predict(self, observed: TensorDict) -> None:
        actor: Any = self.actor
        actor.distribution.update(actor.mlp(actor.get_latent(observed)))

    def _observed(self, places: torch.Tensor) -> Any:
        observed = super()._observed(places)
        dtype = compute_dtype(torch.device(self.device))
        for group in self.storage.stack_sizes:
            if self.steps.fused and group in self.storage.sums:
                observed[group] = self.storage.planes(group, places)
            elif not all(model.normalizes_as_usual for model in self._lean_models):
                observed[group] = self.storage.raw_stacks(group, places)
            else:
                observed[group] = self.storage.stacks(group, places, dtype)
        return observed
