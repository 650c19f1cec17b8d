"""RSL-RL's PPO on frames that stay uint8: each frame is stored once, and the network normalizes it.

Input: observations from an environment with `LeanFrameStack` (`envknee.tasks.frames.use("lean", env)`). Output: the actions and optimizer
steps of stock PPO, within float error. With two stacked frames the rollout takes an eighth of the memory. Upstream: rsl-rl-lib 5.5.1.

    agent_cfg.algorithm.class_name = "envknee.trainers.rsl_rl.ppo:LeanPPO"
    agent_cfg.actor.class_name = "envknee.trainers.rsl_rl.model:LeanCNNModel"
"""

import inspect
import math
import sys
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import torch
from rsl_rl.algorithms import PPO
from rsl_rl.env import VecEnv
from rsl_rl.modules.distribution import GaussianDistribution
from rsl_rl.storage import RolloutStorage
from tensordict import TensorDict

from envknee.lean import Layout, policy_loss
from envknee.study.errors import UserError
from envknee.trainers.rsl_rl.accumulate import AccumulatingPPO
from envknee.trainers.rsl_rl.acting import CapturedActing, why_not
from envknee.trainers.rsl_rl.captured import CapturedStep
from envknee.trainers.rsl_rl.model import LeanCNNModel, compute_dtype
from envknee.trainers.rsl_rl.steps import LearnerSteps
from envknee.trainers.rsl_rl.storage import FrameStorage, stack_sizes_of


class LeanPPO(AccumulatingPPO):
    """`AccumulatingPPO` that learns from a `FrameStorage`, with the switches of `LearnerSteps`."""

    learns_by_places = True

    storage: FrameStorage

    def __init__(self, *arguments: Any, steps: dict[str, Any] | LearnerSteps | None = None, **settings: Any) -> None:
        """Create PPO as upstream does, with the learner's steps.

        Args:
            arguments: upstream's own
            steps: fields of `LearnerSteps` by name
            settings: upstream's own

        Raises:
            UserError: when this agent or device cannot use one of the steps.
        """
        super().__init__(*arguments, **settings)
        self.steps = self._asked = LearnerSteps.of(steps)
        self._decide_steps()
        if self.steps.images_at_once and (unfit := self._unfit_for_parts()):
            raise UserError(
                f"steps.images_at_once: gradients of parts do not add up to a mini-batch's with {', '.join(unfit)}."
                " Remove one of the two"
            )
        for model in self._lean_models:
            model.use_steps(self.steps)
        self._rate: torch.Tensor | None = None
        """The learning rate [] if it adapts on the device; float64, like upstream's Python number."""
        self.graph_pool: Any = torch.cuda.graph_pool_handle() if torch.device(self.device).type == "cuda" else None
        """Memory shared by all graphs, because acting and learning alternate."""
        self._captured: dict[int, CapturedStep] = {}
        """Captured learning steps by mini-batch size."""
        self._has_learned = False
        self._set_up_optimizer()
        self._acting: CapturedActing | None = None
        """Created by `construct_algorithm`, which replaces upstream's storage."""

    @staticmethod
    def construct_algorithm(obs: TensorDict, env: VecEnv, cfg: dict, device: str) -> PPO:
        """Construct models, optimizer and storage, as upstream's runner calls it.

        Raises:
            UserError: when the environment stacks no uint8 frames.
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
            algorithm._acting = CapturedActing(algorithm)
        return algorithm

    def act(self, obs: TensorDict) -> torch.Tensor:
        """Sample actions [num_envs, num_actions], as upstream does."""
        if self._acting is None or self._is_full:
            return super().act(obs)
        return self._acting.act(obs)

    def process_env_step(
        self, obs: TensorDict, rewards: torch.Tensor, dones: torch.Tensor, extras: dict[str, torch.Tensor]
    ) -> None:
        """Record one environment step, as upstream does."""
        if self._acting is None or self._is_full:  # then upstream complains
            super().process_env_step(obs, rewards, dones, extras)
        else:
            self._acting.process_env_step(obs, rewards, dones, extras)

    def compute_returns(self, obs: TensorDict) -> None:
        """Compute returns and advantages of the rollout that ended with `obs`, as upstream does."""
        if self._acting is None:
            super().compute_returns(obs)
        else:
            self._acting.compute_returns(obs)

    def compile(self, mode: str | None = None) -> None:
        """Refuse upstream's torch.compile, which made this learner slower when it was measured on its own.

        Raises:
            UserError: for any mode.
        """
        if mode is not None:
            raise UserError(f"torch_compile_mode: {mode} is for stock PPO. Leave it out")

    def use_micro_batches(
        self,
        micro_batches: int,
        is_out_of_memory: Callable[[BaseException], bool] | None = None,
        on_split: Callable[[int], None] | None = None,
    ) -> None:
        """Learn in micro-batches from the next update on, as `AccumulatingPPO` does.

        Raises:
            UserError: as there, and if `steps.cuda_graph` is asked for: a CUDA graph can neither split nor retry.
        """
        if self.steps.cuda_graph and (micro_batches > 1 or is_out_of_memory is not None):
            if self._asked.cuda_graph:
                raise UserError("steps.cuda_graph is for whole mini-batches: leave it out, or on_oom and micro-batches")
            self.steps = replace(self.steps, cuda_graph=False)
        super().use_micro_batches(micro_batches, is_out_of_memory, on_split)

    def update(self) -> dict[str, float]:
        """Run all epochs over the rollout and return the mean losses, as `AccumulatingPPO` does."""
        if self.steps.images_at_once:
            # A retry may already have raised the number of parts further.
            self.micro_batches = max(self.micro_batches, math.ceil(self._mini_batch_size / self.steps.images_at_once))
        if self._rate is not None:
            self._rate.fill_(self.learning_rate)  # a user or a checkpoint may have changed it
            self._give_rate()
        losses = super().update()
        for model in self._lean_models:
            model.packed.clear()
        if self._rate is not None:
            self.learning_rate = self._rate.item()
        self._has_learned = True
        return losses

    @property
    def _is_full(self) -> bool:
        return self.storage.step >= self.storage.num_transitions_per_env

    @property
    def _lean_models(self) -> list[LeanCNNModel]:
        return [model for model in (self.actor, self.critic) if isinstance(model, LeanCNNModel)]

    def _decide_steps(self) -> None:
        """Decide the steps that are None, by this agent and device.

        Raises:
            UserError: when `steps.fused` or `steps.captured_acting` is asked for, but this agent or device cannot use it.
        """
        both, models = (self.actor, self.critic), self._lean_models
        others = [model for model in both if getattr(model, "obs_groups_2d", []) and model not in models]
        reasons = [model.unfit_for_fused() for model in models]
        reason = next(filter(None, reasons), None)
        if others:
            reason = f"{type(others[0]).__name__} also reads images, and is no LeanCNNModel"
        if self.steps.images_at_once:
            reason = reason or "steps.images_at_once is for PyTorch's, and would save no memory"
        if self.steps.fused and reason:
            raise UserError(f"steps.fused: {reason}. Leave it out, or set it to false")
        if self.steps.fused is None and models and reason and torch.device(self.device).type == "cuda":
            print(
                f"envknee: convolutions are PyTorch's, because steps.fused is off: {reason}",
                file=sys.stderr,
                flush=True,
            )
        fused = reason is None and bool(models) if self.steps.fused is None else self.steps.fused
        adam, graph, loss = self.steps.fused_adam, self.steps.cuda_graph, self.steps.fused_loss
        if loss and (unfit := self._unfit_for_fused_loss()):
            raise UserError(f"steps.fused_loss: {unfit}. Leave it out")
        if loss is None:
            loss = fused and self._unfit_for_fused_loss() is None
        if adam is None:
            adam = fused and self._unfit_for_fused_adam() is None
        if graph is None:
            # Other distributions may check their parameters, which waits for the GPU and cannot be captured.
            gaussian = isinstance(self._raw_actor.distribution, GaussianDistribution)
            graph = fused and gaussian
        acting, unfit = self.steps.captured_acting, why_not(self)
        if acting and unfit:
            raise UserError(f"steps.captured_acting: {unfit}. Remove one of the two")
        if acting is None:
            acting = graph and not unfit
        last = self.steps.channels_last
        if last is None:
            last = torch.device(self.device).type == "cuda" and not fused and bool(models) and not others
        self.steps = replace(
            self.steps, channels_last=last, fused=fused, fused_adam=adam, fused_loss=loss, cuda_graph=graph,
            captured_acting=acting,
        )  # fmt: skip

    def _unfit_for_fused_loss(self) -> str | None:
        if not isinstance(self._raw_actor.distribution, GaussianDistribution):
            return f"{type(self._raw_actor.distribution).__name__} is no GaussianDistribution"
        if self.normalize_advantage_per_mini_batch:
            return "normalize_advantage_per_mini_batch needs the whole mini-batch"
        return None

    def _unfit_for_fused_adam(self) -> str | None:
        parameters = [parameter for group in self.optimizer.param_groups for parameter in group["params"]]
        if "fused" not in inspect.signature(type(self.optimizer)).parameters:
            return f"{type(self.optimizer).__name__} has no fused form. Use adam or adamw"
        if len(set(parameters)) < len(parameters):
            return (
                "actor and critic share parameters, which one kernel would update twice at once. Leave it out, or set"
                " share_cnn_encoders: false"
            )
        return None

    def _set_up_optimizer(self) -> None:
        """Create the optimizer again if the steps need other settings.

        Raises:
            UserError: when this optimizer, agent or device does not support them.
        """
        device, steps = torch.device(self.device), self.steps
        parameters = [parameter for group in self.optimizer.param_groups for parameter in group["params"]]
        settings: dict[str, Any] = {}
        if steps.fused_adam:
            if reason := self._unfit_for_fused_adam():
                raise UserError(f"steps.fused_adam: {reason}")
            settings["fused"] = True
        if steps.cuda_graph and device.type != "cuda":
            raise UserError(f"steps.cuda_graph is for NVIDIA GPUs, and this is {device}")
        if (steps.rate_on_device and self._adapts_learning_rate) or steps.cuda_graph:
            self._rate = torch.tensor(self.learning_rate, dtype=torch.float64, device=device)
            if device.type == "cuda":
                settings["capturable"] = True
        if settings:
            # Upstream sets only the learning rate, so all other settings are defaults.
            self.optimizer = type(self.optimizer)(parameters, lr=self.learning_rate, **settings)
        if self._rate is not None:
            self._give_rate()

    def _give_rate(self) -> None:
        """Copy the learning rate to the optimizer, on the device."""
        rate: Any = self._rate
        for group in self.optimizer.param_groups:
            if not isinstance(group["lr"], torch.Tensor):
                # CUDA's kernels take float32; on a CPU Adam computes with the number itself.
                group["lr"] = rate.float() if rate.is_cuda else rate.clone()
            group["lr"].copy_(rate)

    def _adapt_learning_rate(self, kl_mean: torch.Tensor) -> None:
        if self._rate is None:
            super()._adapt_learning_rate(kl_mean)
            return
        desired_kl: Any = self.desired_kl
        self._take_mean_of_gpus(kl_mean)
        lower, higher = (self._rate / 1.5).clamp(min=1e-5), (self._rate * 1.5).clamp(max=1e-2)
        rises = (kl_mean < desired_kl / 2.0) & (kl_mean > 0.0)
        self._rate.copy_(torch.where(kl_mean > desired_kl * 2.0, lower, torch.where(rises, higher, self._rate)))
        if self.is_multi_gpu:
            torch.distributed.broadcast(self._rate, src=0)
        self._give_rate()

    def _learn(self, observations: TensorDict, batch: Any) -> torch.Tensor:
        if not self.steps.cuda_graph or not self._has_learned:
            return super()._learn(observations, batch)
        size = len(batch.observations)
        if size not in self._captured:
            # Not in the first update, in which the optimizer creates its state, and cuDNN and Warp load their kernels.
            torch.cuda.empty_cache()  # graphs have memory of their own, and PyTorch keeps what that update took
            whole = super()._learn
            self._captured[size] = CapturedStep(lambda kept: whole(observations, kept), batch, self.graph_pool)
        return self._captured[size](batch)

    def _mini_batches(self, places: Any) -> Iterable[Any]:
        if not self.steps.fused_loss:
            yield from super()._mini_batches(places)
            return
        # Upstream's mini-batches, of which only the places are read.
        shuffled = torch.randperm(self.num_mini_batches * self._mini_batch_size, device=self.device)
        for _ in range(self.num_learning_epochs):
            for part in shuffled.split(self._mini_batch_size):
                yield RolloutStorage.Batch(observations=part)  # type: ignore

    def _backward_part(
        self, observations: TensorDict, batch: Any, part: slice, share: float
    ) -> tuple[torch.Tensor, torch.Tensor, tuple[torch.Tensor, ...]]:
        if not self.steps.fused_loss:
            return super()._backward_part(observations, batch, part, share)
        places, size = batch.observations[part], len(batch.observations)
        with self._autocast():
            value = self._evaluate(observations, places).float()
        params = self.actor.output_distribution_params
        mean, deviation = (param.float() for param in params)
        weights = policy_loss.Weights(
            self.clip_param, self.value_loss_coef, self.entropy_coef, self.use_clipped_value_loss
        )
        terms, gradients = policy_loss.losses(mean, deviation, value, places, self._kept(), weights, size)
        learned = [pair for pair in zip((mean, deviation, value), gradients, strict=True) if pair[0].requires_grad]
        torch.autograd.backward(*zip(*learned, strict=True))  # type: ignore
        means = terms.sum(dim=1) / size
        return means[:3], means[3], tuple(param.detach() for param in params)

    def _kept(self) -> policy_loss.Rollout:
        kept: Any = self.storage
        tensors = (
            kept.actions, *kept.distribution_params, kept.actions_log_prob, kept.values, kept.returns, kept.advantages
        )  # fmt: skip
        return policy_loss.Rollout._make(tensor.flatten(0, 1) for tensor in tensors)

    def _random_numbers_kept(self) -> AbstractContextManager[None]:
        return nullcontext()  # `_predict` draws none

    def _predict(self, observed: TensorDict) -> None:
        actor: Any = self.actor
        actor.distribution.update(actor.mlp(actor.get_latent(observed)))

    def _observed(self, observations: TensorDict, places: torch.Tensor) -> TensorDict:
        observed = super()._observed(observations, places)
        layouts = {}
        for group in self.storage.stack_sizes:
            if self.steps.fused and group in self.storage.sums:
                observed[group] = self.storage.planes(group, places)
            else:
                layouts[group] = self._layout_of(group)
        observed.update(self.storage.stacks(places, layouts))
        return observed

    def _layout_of(self, group: str) -> Layout:
        """Return the memory layout of a group's stacks for the networks that read it.

        Raises:
            UserError: when two networks want different layouts.
        """
        readers: list[Any] = [
            model for model in (self.actor, self.critic) if group in getattr(model, "obs_groups_2d", [])
        ]
        layouts = {
            model.layout_of(group)
            if isinstance(model, LeanCNNModel)
            else Layout(compute_dtype(torch.device(self.device)))
            for model in readers
        }
        if len(layouts) > 1:
            raise UserError(
                f"observations/{group} is read by actor and critic, whose first layers need different layouts"
                f" ({' and '.join(map(str, layouts))}). Set steps.channels_last: false"
            )
        return layouts.pop() if layouts else Layout()
