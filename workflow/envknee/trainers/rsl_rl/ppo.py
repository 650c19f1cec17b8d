"""RSL-RL's PPO on frames that stay uint8: each is kept once, and normalized where the network reads it.

Input: observations from an environment with `LeanFrameStack` (`envknee.tasks.frames.use("lean", env)`). Output: the same
actions and optimizer steps as stock PPO, within float error, from a rollout that takes an eighth of the memory for two
stacked frames. Upstream: rsl-rl-lib 5.5.1.

    agent_cfg.algorithm.class_name = "envknee.trainers.rsl_rl.ppo:LeanPPO"
    agent_cfg.actor.class_name = "envknee.trainers.rsl_rl.model:LeanCNNModel"
"""

import inspect
import math
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import torch
from rsl_rl.algorithms import PPO
from rsl_rl.env import VecEnv
from rsl_rl.modules.distribution import GaussianDistribution
from tensordict import TensorDict

from envknee.lean import Layout
from envknee.study.errors import UserError
from envknee.trainers.rsl_rl.accumulate import AccumulatingPPO
from envknee.trainers.rsl_rl.acting import CapturedActing, why_not
from envknee.trainers.rsl_rl.captured import CapturedStep
from envknee.trainers.rsl_rl.model import LeanCNNModel, compute_dtype
from envknee.trainers.rsl_rl.steps import FUSED_IMAGES_AT_ONCE, LearnerSteps
from envknee.trainers.rsl_rl.storage import FrameStorage, stack_sizes_of


class LeanPPO(AccumulatingPPO):
    """PPO that learns from a `FrameStorage`. Everything else of `AccumulatingPPO` holds for it, too."""

    learns_by_places = True

    storage: FrameStorage

    def __init__(self, *words: Any, steps: dict[str, Any] | LearnerSteps | None = None, **settings: Any) -> None:
        """Make PPO as upstream does, with the learner's steps.

        Args:
            words: upstream's own
            steps: by name as in `LearnerSteps`
            settings: upstream's own

        Raises:
            UserError: when one of the steps is not for this agent or device.
        """
        super().__init__(*words, **settings)
        self.steps = self._asked = LearnerSteps.of(steps)
        self._decide_steps()
        if self.steps.images_at_once and not self.steps.fused and (unfit := self._unfit_for_parts()):
            raise UserError(
                f"steps.images_at_once: {', '.join(unfit)}: there the gradients of parts do not add up to a mini-batch's."
                " Leave it out, or that"
            )
        for model in self._lean_models:
            model.use_steps(self.steps)
        self._rate: torch.Tensor | None = None
        """The learning rate [] where it adapts on the device, in float64 as Python computes it upstream."""
        self.graph_pool: Any = torch.cuda.graph_pool_handle() if torch.device(self.device).type == "cuda" else None
        """Memory of all its graphs: acting and learning take turns."""
        self._captured: dict[int, CapturedStep] = {}
        """By the size of a mini-batch."""
        self._has_learned = False
        self._set_up_optimizer()
        self._acting: CapturedActing | None = None
        """Made with the storage: `construct_algorithm` replaces upstream's."""

    @staticmethod
    def construct_algorithm(obs: TensorDict, env: VecEnv, cfg: dict, device: str) -> PPO:
        """Construct models, optimizer and storage, as upstream's runner calls it.

        Raises:
            UserError: when the environment stacks no uint8 frames.
        """
        stack_sizes = stack_sizes_of(obs, env)
        # Upstream makes a storage of the horizon's length; one step of it is enough to be replaced.
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
        """Sample actions [num_envs, num_actions], as upstream."""
        if self._acting is None or not 0 < self.storage.step < self.storage.num_transitions_per_env:
            return super().act(obs)
        return self._acting.act(obs)

    def process_env_step(
        self, obs: TensorDict, rewards: torch.Tensor, dones: torch.Tensor, extras: dict[str, torch.Tensor]
    ) -> None:
        """Record one environment step, as upstream."""
        step, steps = self.storage.step, self.storage.num_transitions_per_env
        if self._acting is not None and 0 < step < steps:
            self._acting.process_env_step(obs, rewards, dones, extras)
            return
        super().process_env_step(obs, rewards, dones, extras)
        if self._acting is not None and step == 0 and steps > 1:
            self._acting.begin(obs, dones)

    def compute_returns(self, obs: TensorDict) -> None:
        """Compute returns and advantages of the rollout that ended with `obs`, as upstream."""
        if self._acting is None:
            super().compute_returns(obs)
        else:
            self._acting.compute_returns(obs)

    def compile(self, mode: str | None = None) -> None:
        """Refuse what upstream would compile: measured on its own it makes this learner slower.

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
            UserError: as there, and with a CUDA graph, which neither splits nor tries again.
        """
        if self.steps.cuda_graph and (micro_batches > 1 or is_out_of_memory is not None):
            if self._asked.cuda_graph:
                raise UserError("steps.cuda_graph is for whole mini-batches: leave it out, or on_oom and micro-batches")
            self.steps = replace(self.steps, cuda_graph=False)
        super().use_micro_batches(micro_batches, is_out_of_memory, on_split)

    def update(self) -> dict[str, float]:
        """Run all epochs over the rollout and return the mean losses, as `AccumulatingPPO` does."""
        if self.steps.images_at_once and not self.steps.fused:
            # Memory may have asked for more parts before.
            self.micro_batches = max(self.micro_batches, math.ceil(self._mini_batch_size / self.steps.images_at_once))
        if self._rate is not None:
            self._rate.fill_(self.learning_rate)  # somebody may have set it, or loaded a checkpoint
            self._give_rate()
        losses = super().update()
        for model in self._lean_models:
            model.packed.clear()
        if self._rate is not None:
            self.learning_rate = self._rate.item()
        self._has_learned = True
        return losses

    @property
    def _lean_models(self) -> list[LeanCNNModel]:
        return [model for model in (self.actor, self.critic) if isinstance(model, LeanCNNModel)]

    def _decide_steps(self) -> None:
        """Replace what the steps leave open by what this agent and device allow.

        Raises:
            UserError: when `steps.fused` is asked for and cannot be.
        """
        both, models = (self.actor, self.critic), self._lean_models
        others = [model for model in both if getattr(model, "obs_groups_2d", []) and model not in models]
        reasons = [model.unfit_for_fused() for model in models]
        reason = next(filter(None, reasons), None)
        if others:
            reason = f"{type(others[0]).__name__} reads images, too, and is no LeanCNNModel"
        if self.steps.fused and reason:
            raise UserError(f"steps.fused: {reason}. Leave it out, or set it to false")
        if self.steps.fused is None and models and reason and torch.device(self.device).type == "cuda":
            print(f"envknee: convolutions are PyTorch's, for steps.fused is off: {reason}", file=sys.stderr, flush=True)
        fused = reason is None and bool(models) if self.steps.fused is None else self.steps.fused
        adam, graph = self.steps.fused_adam, self.steps.cuda_graph
        if adam is None:
            adam = fused and self._unfit_for_fused_adam() is None
        if graph is None:
            # Other distributions may look at their parameters, which waits for the GPU and cannot be captured.
            gaussian = isinstance(self._raw_actor.distribution, GaussianDistribution)
            graph = fused and gaussian
        acting, unfit = self.steps.captured_acting, why_not(self)
        if acting and unfit:
            raise UserError(f"steps.captured_acting: {unfit}. Leave it out, or that")
        if acting is None:
            acting = graph and not unfit
        last = self.steps.channels_last
        if last is None:
            last = torch.device(self.device).type == "cuda" and not fused and bool(models) and not others
        at_once = self.steps.images_at_once
        if at_once is None and fused:
            at_once = FUSED_IMAGES_AT_ONCE
        self.steps = replace(
            self.steps, channels_last=last, fused=fused, fused_adam=adam, cuda_graph=graph, images_at_once=at_once,
            captured_acting=acting,
        )  # fmt: skip

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
        """Make the optimizer once more, with what the steps ask of it.

        Raises:
            UserError: when this optimizer, agent or device cannot do that.
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
            # The keywords of its defaults are those that upstream made it with: none but the learning rate.
            self.optimizer = type(self.optimizer)(parameters, lr=self.learning_rate, **settings)
        if self._rate is not None:
            self._give_rate()

    def _give_rate(self) -> None:
        """Let the optimizer take the learning rate from where it lies on the device."""
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
        size = len(batch.actions)
        if size not in self._captured:
            # Not in the first update, which makes the optimizer's state, and lets cuDNN and Warp load what they need.
            whole = super()._learn
            self._captured[size] = CapturedStep(lambda kept: whole(observations, kept), batch, self.graph_pool)
        return self._captured[size](batch)

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
        """Return how a group of stacks is laid out for the networks that read it.

        Raises:
            UserError: when two networks want it laid out in two ways.
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
                f"observations/{group} is read by actor and critic, whose first layers want it in two forms"
                f" ({' and '.join(map(str, layouts))}). Set steps.channels_last: false"
            )
        return layouts.pop() if layouts else Layout()
