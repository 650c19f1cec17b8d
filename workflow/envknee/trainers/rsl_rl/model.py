"""RSL-RL's CNN model on frames that stay uint8 until the network reads them."""

from contextlib import nullcontext
from typing import Any

import torch
from rsl_rl.models import CNNModel, MLPModel
from tensordict import TensorDict

from envknee.lean import Layout, fused_fits, normalized
from envknee.trainers.rsl_rl.steps import LearnerSteps
from envknee.trainers.rsl_rl.storage import FrameStorage


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

    _kept: dict[str, list[Any]]
    """By group, the tensors of `packed`, which stay."""

    def unfit_for_fused(self) -> str | None:
        """Return why `steps.fused` is not for this network on its device, or None."""
        device = next(self.parameters()).device
        reason = fused_fits.why_not(device)
        if reason:
            return reason
        from envknee.lean import fused

        for group, (height, width) in zip(self.obs_groups_2d, self.obs_dims_2d, strict=True):
            if not fused.layers_of(self._encoder(group), height, width)[0]:
                return (
                    f"{group}, {height} x {width}: the first layer must be a convolution with an even stride, without padding,"
                    f" before a ReLU or ELU, on an even height and width ({self._encoder(group)})"
                )
        return None

    def use_steps(self, steps: LearnerSteps) -> None:
        """Compute as `steps` say from now on."""
        self.steps = steps
        self.packed, self._kept = {}, {}
        self.cnns.to(memory_format=torch.channels_last if steps.channels_last else torch.contiguous_format)  # type: ignore

    def layout_of(self, group: str) -> Layout:
        """Return how this network's stacks of a group are to be laid out for learning."""
        return Layout(compute_dtype(next(self._encoder(group).parameters()).device), bool(self.steps.channels_last))

    def get_latent(self, obs: TensorDict, masks: torch.Tensor | None = None, hidden_state: Any = None) -> torch.Tensor:
        """Return the latent [transitions, size] of observations.

        Their images are uint8, normalized, or [transitions, channels] which planes of `rollout` they are.
        """
        at_once = self.steps.images_at_once
        # Fused, acting takes no more memory than an environment step does.
        if at_once and not self.steps.fused and len(obs) > at_once and not torch.is_grad_enabled():
            return torch.cat([self.get_latent(part, masks, hidden_state) for part in obs.split(at_once)])
        observations: Any = {group: obs[group] for group in self.obs_groups_2d}
        device: torch.device = observations[self.obs_groups_2d[0]].device
        images = []
        for group, image in observations.items():
            is_fused = bool(self.steps.fused) and image.dtype in (torch.uint8, torch.int64)
            with torch.autocast(device.type, torch.bfloat16) if is_fused else nullcontext():
                if is_fused:
                    images.append(self._fused(group, image))
                    continue
                if image.dtype == torch.uint8:
                    image = normalized(image, compute_dtype(device))
                images.append(self._encoder(group)(image))
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
            frames, sums, planes = fused.planes_of(image)
        else:
            storage: Any = self.rollout
            frames, sums, planes = storage.frames[group].flatten(0, 2), storage.sums[group].view(-1), image
        if not torch.is_grad_enabled():
            versions = tuple(parameter._version for layer in layers for parameter in (layer.weight, layer.bias))
            if group not in self.packed or self.packed[group][0] != versions:
                self.packed[group] = versions, self._pack(group, layers)
            packed = self.packed[group][1]
            images = fused.convolve(frames, sums, planes, layers, packed)
        else:
            # Only convolutions are learned from in parts. What follows them is small, and as many kernels for a part as for the whole.
            at_once = self.steps.images_at_once or len(planes)
            with torch.no_grad():
                packed = fused.pack(layers)
            parts = [fused.convolve(frames, sums, part, layers, packed) for part in planes.split(at_once)]
            images = torch.cat(parts) if len(parts) > 1 else parts[0]
        for layer in others:
            images = layer(images)
        return images

    def _pack(self, group: str, layers: list[Any]) -> list[Any]:
        """Return the layers' parameters as kernels read them, where they were the last time: a captured graph reads them there."""
        from envknee.lean import fused

        with torch.inference_mode(False), torch.no_grad():
            packed = fused.pack(layers)
            kept = self._kept.setdefault(group, packed)
            for place, new in zip(kept, packed, strict=True):
                for tensor, newest in zip(place, new, strict=True):
                    if tensor is not None and tensor is not newest:
                        tensor.copy_(newest)
        return kept

    def _encoder(self, group: str) -> Any:
        return self.cnns[group]


def compute_dtype(device: torch.device) -> torch.dtype:
    """Return in what the network computes now: autocast's dtype where it is on, else float32."""
    return torch.get_autocast_dtype(device.type) if torch.is_autocast_enabled(device.type) else torch.float32
