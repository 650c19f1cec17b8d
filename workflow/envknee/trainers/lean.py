"""RSL-RL's PPO on frames that stay uint8: each is kept once, and normalized where the network reads it.

Input: observations from an environment with `LeanFrameStack` (`envknee.tasks.frames.use("lean", env)`). Output: the same
actions and optimizer steps as stock PPO, within float error, from a rollout that takes an eighth of the memory for two
stacked frames. Upstream: rsl-rl-lib 5.5.1.

    agent_cfg.algorithm.class_name = "envknee.trainers.lean:LeanPPO"
    agent_cfg.actor.class_name = "envknee.trainers.lean:LeanCNNModel"
"""

import importlib.util
import inspect
import math
import os
import shutil
import sys
import sysconfig
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from rsl_rl.algorithms import PPO
from rsl_rl.env import VecEnv
from rsl_rl.models import CNNModel, MLPModel
from rsl_rl.modules.distribution import GaussianDistribution
from rsl_rl.storage import RolloutStorage
from tensordict import TensorDict
from torch import nn

from envknee.errors import UserError
from envknee.lean import Layout, convolution, gather, gather_normalized, normalized, operations
from envknee.lean.operations import PLAIN
from envknee.tasks.frames import lean_stacks
from envknee.trainers.accumulate import AccumulatingPPO
from envknee.trainers.captured import CapturedStep
from envknee.trainers.learner_steps import FUSED_IMAGES_AT_ONCE, LearnerSteps

MOST_FRAMES = 255
"""What a history of uint8 can count."""


def encode(encoder: nn.Sequential, form: convolution.Form, images: torch.Tensor) -> torch.Tensor:
    """Return what a CNN makes of images, its first layer in a form of `envknee.lean.convolution`."""
    first, *others = encoder
    images = convolution.convolve(form, first, images)
    for layer in others:
        images = layer(images)
    return images


class LeanCNNModel(CNNModel):
    """RSL-RL's CNN model, which normalizes uint8 images itself: `x / 255 - mean`, as Isaac Lab's environments do.

    Images that are floating point already pass as they are, or as `layout_of` laid them out. An exported policy takes those,
    like stock's.
    """

    steps = LearnerSteps()
    """Set by `use_steps`."""

    rollout: "FrameStorage | None" = None
    """Where the planes lie that observations name; set by `LeanPPO`."""

    packed: dict[str, tuple[tuple[int, ...], Any]]
    """By group, what acts: parameters as kernels read them, made once in a rollout, and the versions of those parameters.
    Emptied after each update, since a CUDA graph changes parameters without their noticing."""

    def unfit_for_fused(self) -> str | None:
        """Return why `steps.fused` is not for this network on its device, or None."""
        device = next(self.parameters()).device
        if device.type != "cuda" or torch.version.cuda is None:
            return f"it needs an NVIDIA GPU, and this is {device}"
        capability = torch.cuda.get_device_capability(device)
        if capability < (8, 0):
            return f"it needs tensor cores for bfloat16, compute capability 8.0 or newer, and this GPU has {capability}"
        if importlib.util.find_spec("triton") is None:
            return "it needs Triton, which comes with PyTorch for CUDA"
        if not can_build_launchers():
            return (
                "Triton needs a C compiler and Python's headers (on Debian: apt-get install gcc libc6-dev python3-dev)"
            )
        from envknee.lean import fused

        for group, (height, width) in zip(self.obs_groups_2d, self.obs_dims_2d, strict=True):
            if not fused.layers_of(self._encoder(group), height, width)[0]:
                return (
                    f"{group}, {height} x {width}: the first layer must be a convolution with an even stride, without padding,"
                    f" before a ReLU or ELU, on an even height and width ({self._encoder(group)})"
                )
        return None

    def use_steps(self, steps: LearnerSteps) -> None:
        """Compute as `steps` say from now on.

        Raises:
            UserError: when the network's first layer cannot be computed so.
        """
        for group in self.obs_groups_2d:
            reason = convolution.unfit(steps.first_convolution, self._first_layer(group))
            if reason:
                raise UserError(f"steps.first_convolution: {steps.first_convolution} is not for {group}: {reason}")
        self.steps = steps
        self.packed = {}
        self.cnns.to(memory_format=torch.channels_last if steps.channels_last else torch.contiguous_format)  # type: ignore

    def layout_of(self, group: str) -> Layout:
        """Return how this network's stacks of a group are to be laid out for learning."""
        first = self._first_layer(group)
        dtype = self._dtype(first.bias.device)
        if not isinstance(first, nn.Conv2d):
            return Layout(dtype)
        height, width = self.obs_dims_2d[self.obs_groups_2d.index(group)]
        return convolution.layout_of(
            self.steps.first_convolution, first, height, width, dtype, self.steps.channels_last
        )

    def get_latent(self, obs: TensorDict, masks: torch.Tensor | None = None, hidden_state: Any = None) -> torch.Tensor:
        """Return the latent [transitions, size] of observations.

        Their images are uint8, normalized, or [transitions, channels] which planes of `rollout` they are.
        """
        at_once = self.steps.images_at_once
        # Fused, acting takes no more memory than an environment step does.
        if at_once and not self.steps.fused and len(obs) > at_once and not torch.is_grad_enabled():
            return torch.cat([self.get_latent(part, masks, hidden_state) for part in obs.split(at_once)])
        found: Any = {group: obs[group] for group in self.obs_groups_2d}
        device: torch.device = found[self.obs_groups_2d[0]].device
        images = []
        for group, image in found.items():
            is_fused = bool(self.steps.fused) and image.dtype in (torch.uint8, torch.int64)
            in_bfloat16 = self.steps.bfloat16 or is_fused
            with torch.autocast(device.type, torch.bfloat16) if in_bfloat16 else nullcontext():
                if is_fused:
                    images.append(self._fused(group, image))
                    continue
                if image.dtype == torch.uint8:
                    image = normalized(image, self._dtype(device))
                images.append(encode(self._encoder(group), self.steps.first_convolution, image))
        latent = torch.cat(images, dim=-1)
        if not torch.is_autocast_enabled(device.type):
            latent = latent.float()
        if not self.obs_groups:
            return latent
        return torch.cat([MLPModel.get_latent(self, obs), latent], dim=-1)

    def _fused(self, group: str, image: torch.Tensor) -> torch.Tensor:
        from envknee.lean import fused

        height, width = self.obs_dims_2d[self.obs_groups_2d.index(group)]
        layers, others = fused.layers_of(self._encoder(group), height, width)
        if image.dtype == torch.uint8:
            frames = image.flatten(0, 1)
            sums = torch.empty(len(frames), dtype=torch.int64, device=image.device)
            operations.plane_sums(frames.flatten(1), sums)
            planes = torch.arange(len(frames), device=image.device).view(image.shape[:2])
        else:
            storage: Any = self.rollout
            frames, sums, planes = storage.frames[group].flatten(0, 2), storage.sums[group].view(-1), image
        packed = None
        if not torch.is_grad_enabled():
            versions = tuple(parameter._version for layer in layers for parameter in (layer.weight, layer.bias))
            if group not in self.packed or self.packed[group][0] != versions:
                self.packed[group] = versions, fused.pack(layers)
            packed = self.packed[group][1]
        images = fused.convolve(frames, sums, planes, layers, packed)
        for layer in others:
            images = layer(images)
        return images

    def _encoder(self, group: str) -> Any:
        return self.cnns[group]

    def _dtype(self, device: torch.device) -> torch.dtype:
        return torch.bfloat16 if self.steps.bfloat16 else compute_dtype(device)

    def _first_layer(self, group: str) -> Any:
        return self._encoder(group)[0]


class FrameStorage(RolloutStorage):
    """A rollout that keeps each camera frame once, with what is needed to stack it again.

    Of the stacks at a rollout's first step all frames are kept, of later ones the newest. Where an episode ended at the
    step before, the history was filled with the new episode's first frame, and is filled with it again.
    """

    def __init__(
        self,
        num_envs: int,
        num_transitions_per_env: int,
        obs: TensorDict,
        stack_sizes: dict[str, int],
        actions_shape: list[int],
        device: str,
    ) -> None:
        """Allocate a rollout.

        Args:
            num_envs: environments, n
            num_transitions_per_env: steps, t
            obs: one observation of each group, the stacks of frames [n, k * c, h, w]
            stack_sizes: of the groups that are such stacks, how many frames each holds: k
            actions_shape: of one action
            device: where all of it lies
        """
        super().__init__("rl", num_envs, num_transitions_per_env, obs.exclude(*stack_sizes), actions_shape, device)
        self.stack_sizes = stack_sizes
        frames, sums = {}, {}
        for group, size in stack_sizes.items():
            channels, *image = obs[group].shape[1:]
            if size > MOST_FRAMES or channels % size:
                raise UserError(
                    f"observations/{group} of shape {tuple(obs[group].shape)} is no stack of {size} frames"
                    f" (at most {MOST_FRAMES})"
                )
            shape = (num_transitions_per_env + size - 1, num_envs, channels // size)
            frames[group] = torch.zeros(*shape, *image, dtype=obs[group].dtype, device=device)
            if obs[group].dtype == torch.uint8:
                sums[group] = torch.zeros(shape, dtype=torch.int64, device=device)
        self.frames = TensorDict(frames, batch_size=[])
        """By group [t + k - 1, n, c, h, w]; the frame of step s at s + k - 1."""
        self.sums = TensorDict(sums, batch_size=[])
        """Of the pixels of each channel [t + k - 1, n, c], for frames that are normalized later: uint8."""
        self.history = torch.full((num_transitions_per_env, num_envs), MOST_FRAMES, dtype=torch.uint8, device=device)
        """How many frames before a step's are of the same episode [t, n], as far as this rollout knows them: once it is full."""

    @property
    def newest_frames(self) -> dict[str, torch.Tensor]:
        """By group, the newest frame of each step [t, n, c, h, w]: views."""
        return {group: self.frames[group][size - 1 :] for group, size in self.stack_sizes.items()}

    def add_transition(self, transition: RolloutStorage.Transition) -> None:
        """Add one transition at the current step, of its stacks the newest frame."""
        step = self.step
        observations: Any = transition.observations
        if step < self.num_transitions_per_env:  # otherwise upstream complains
            for group, size in self.stack_sizes.items():
                self._add_frames(group, observations[group], size, step)
            if step == self.num_transitions_per_env - 1:
                self._find_history()
        transition.observations = observations.exclude(*self.stack_sizes)
        super().add_transition(transition)

    def _add_frames(self, group: str, stacked: torch.Tensor, size: int, step: int) -> None:
        frames: Any = self.frames[group]
        _, envs, channels, *image = frames.shape
        operations.check_tensor(
            f"observations/{group}", stacked, (frames.dtype,), (envs, size * channels, *image), frames.device, False
        )
        if step == 0:
            first = 0
            frames[:size].copy_(stacked.unflatten(1, (size, channels)).transpose(0, 1))
        else:
            first = step + size - 1
            frames[first].copy_(stacked[:, -channels:])
        if group in self.sums:
            new, sums = frames[first : step + size], self.sums[group]
            operations.plane_sums(new.flatten(0, 2).flatten(1), sums[first : step + size].view(-1))

    def _find_history(self) -> None:
        """Count how long each step's episode has been in this rollout; its end is another step's."""
        steps = torch.arange(1, self.num_transitions_per_env, device=self.history.device).unsqueeze(1)
        begun = ((self.dones[:-1, :, 0] != 0) * steps).cummax(0).values  # the newest step that was an episode's first
        self.history[1:] = torch.where(begun > 0, steps - begun, MOST_FRAMES).clamp(max=MOST_FRAMES)

    def stacks(self, places: torch.Tensor, layouts: dict[str, Layout] | None = None) -> dict[str, torch.Tensor]:
        """Return the stacks of some transitions by group, each [b, k * c, h, w] or, if normalized here, as its layout says.

        Args:
            places: transitions [b] (int64), step * num_envs + environment
            layouts: of the groups that are wanted; None: all, float32, as Isaac Lab's environments give them
        """
        found = {}
        for group, layout in (layouts if layouts is not None else dict.fromkeys(self.stack_sizes, PLAIN)).items():
            frames, size = self.frames[group], self.stack_sizes[group]
            if group in self.sums:
                found[group] = gather_normalized(frames, self.sums[group], self.history, places, size, layout)
            else:
                found[group] = gather(frames, self.history, places, size)
        return found

    def planes(self, group: str, places: torch.Tensor) -> torch.Tensor:
        """Return which planes of `frames[group]` the stacks of some transitions [b] are: [b, k * c], oldest frame first."""
        channels = self.frames[group].shape[2]
        frames = operations.frames_of(self.history, places, self.stack_sizes[group])
        return (frames.unsqueeze(2) * channels + torch.arange(channels, device=places.device)).flatten(1)


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
        if self.steps.images_at_once and (unfit := self._unfit_for_parts()):
            raise UserError(
                f"steps.images_at_once: {', '.join(unfit)}: there the gradients of parts do not add up to a mini-batch's."
                " Leave it out, or that"
            )
        self._decide_steps()
        for model in self._lean_models:
            model.use_steps(self.steps)
        self._rate: torch.Tensor | None = None
        """The learning rate [] where it adapts on the device, in float64 as Python computes it upstream."""
        self._captured: dict[int, CapturedStep] = {}
        """By the size of a mini-batch."""
        self._has_learned = False
        self._set_up_optimizer()

    @staticmethod
    def construct_algorithm(obs: TensorDict, env: VecEnv, cfg: dict, device: str) -> PPO:
        """Construct models, optimizer and storage, as upstream's runner calls it.

        Raises:
            UserError: when the environment stacks no uint8 frames.
        """
        stack_sizes = stack_sizes_of(obs, env)
        # Upstream makes a storage of the horizon's length; one step of it is enough to be replaced.
        shortened = cfg | {"num_steps_per_env": 1}
        algorithm = PPO.construct_algorithm(obs, env, shortened, device)
        cfg["obs_groups"] = shortened["obs_groups"]
        algorithm.storage = FrameStorage(
            env.num_envs, cfg["num_steps_per_env"], obs, stack_sizes, [env.num_actions], device
        )
        return algorithm

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
        if self.steps.images_at_once:
            # Memory may have asked for more parts before.
            self.micro_batches = max(self.micro_batches, math.ceil(self._mini_batch_size / self.steps.images_at_once))
        for model in self._lean_models:
            model.rollout = self.storage
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
            graph = fused and gaussian and not self.is_multi_gpu
        at_once = self.steps.images_at_once
        if at_once is None and fused and not self._unfit_for_parts():
            at_once = FUSED_IMAGES_AT_ONCE
        self.steps = replace(self.steps, fused=fused, fused_adam=adam, cuda_graph=graph, images_at_once=at_once)

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
        if steps.cuda_graph and (device.type != "cuda" or self.is_multi_gpu):
            raise UserError(
                f"steps.cuda_graph is for one GPU, and this is {'one of several' if self.is_multi_gpu else device}"
            )
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
            self._captured[size] = CapturedStep(lambda kept: whole(observations, kept), batch)
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
                f" ({' and '.join(map(str, layouts))}). Set steps.first_convolution: plain"
            )
        return layouts.pop() if layouts else Layout()


def stack_sizes_of(obs: TensorDict, env: Any) -> dict[str, int]:
    """Return, of each group of observations that is a stack of frames, how many it holds.

    Raises:
        UserError: when there is none, or two stacks of the same shape hold different numbers of frames.
    """
    sizes: dict[tuple[torch.dtype, tuple[int, ...]], set[int]] = {}
    for stack in lean_stacks(env):
        if stack.dtype is not None and stack.stacked_shape is not None:
            sizes.setdefault((stack.dtype, stack.stacked_shape), set()).add(stack.frames)
    found = {}
    for group, tensor in obs.items():
        if tensor.ndim != 4:
            continue
        fitting = sizes.get((tensor.dtype, tuple(tensor.shape[1:])), set())
        if not fitting and tensor.dtype != torch.uint8:
            continue  # images that no lean stack made are kept as upstream keeps them
        if len(fitting) != 1:
            shapes = sorted(shape for dtype, shape in sizes if dtype == tensor.dtype)
            raise UserError(
                f"observations/{group} of shape {tuple(tensor.shape)} is not told from {len(fitting)} stacks of frames of"
                f" this shape (there are: {shapes}). Give each camera's stack a shape of its own"
            )
        (found[group],) = fitting
    if not found:
        raise UserError(
            "LeanPPO learns from stacks of frames, and the observations hold none that a LeanFrameStack made:"
            f" {', '.join(f'{group} {tensor.dtype}' for group, tensor in obs.items())}."
            ' Call envknee.tasks.frames.use("lean", env) before the runner is made, or use stock PPO'
        )
    return found


def can_build_launchers() -> bool:
    """Return whether Triton can build what launches its kernels (triton 3.6, runtime/build.py)."""
    compiler = os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")
    return compiler is not None and (Path(sysconfig.get_paths()["include"]) / "Python.h").exists()


def compute_dtype(device: torch.device) -> torch.dtype:
    """Return in what the network computes now: autocast's dtype where it is on, else float32."""
    return torch.get_autocast_dtype(device.type) if torch.is_autocast_enabled(device.type) else torch.float32
