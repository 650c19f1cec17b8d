"""RSL-RL's CNN model for frames that stay uint8 until the network reads them."""

from typing import Any

import torch
from rsl_rl.models import CNNModel, MLPModel
from tensordict import TensorDict
from torch import nn

from leanframes import fused_fits, normalized
from leanframes.rsl_rl.storage import FrameStorage


class LeanCNNModel(CNNModel):
    """RSL-RL's CNN model that normalizes uint8 images itself: `x / 255 - mean`, as Isaac Lab's environments do, or by another `normalize`.

    Floating-point images are already normalized, and used as they are. An exported policy takes these, like stock's.
    """

    fused: bool = False
    """Whether `leanframes.fused` computes the convolutions; set by `use_fused`."""

    rollout: "FrameStorage | None" = None
    """The storage with the planes whose indices are in observations; set by `LeanPPO`."""

    packed: dict[str, tuple[tuple[int, ...], Any]]
    """By group, the versions of the encoder's parameters, and those parameters packed for the kernels, once per rollout, for acting.
    Cleared after each update, because a CUDA graph changes parameters without changing their versions."""

    _tensors: dict[str, list[Any]]
    """By group, the tensors of `packed`, which keep their addresses."""

    @staticmethod
    def normalize(images: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """Return what the network reads of uint8 images [transitions, channels, h, w], in `dtype`. Another task's model may override it."""
        return normalized(images, dtype)

    @property
    def normalizes_as_usual(self) -> bool:
        """Whether images are normalized as Isaac Lab does, so that kernels may do it."""
        return type(self).normalize is LeanCNNModel.normalize

    def unfit_for_fused(self) -> str | None:
        """Return why this network cannot use fused convolutions on its device; None if it can."""
        reason = fused_fits.why_not(next(self.parameters()).device)
        if not self.normalizes_as_usual:
            reason = reason or f"{type(self).__name__} normalizes images in a way of its own"
        if reason:
            return reason
        for group, (height, width) in zip(self.obs_groups_2d, self.obs_dims_2d, strict=True):
            if not self._layers_of(group)[0]:
                return (
                    f"{group}, {height} x {width}: the first layer must be a convolution with an even stride, without padding,"
                    f" before a ReLU or ELU, on an even height and width ({self.cnns[group]})"
                )
        return None

    def use_fused(self, fused: bool) -> None:
        """Set whether `leanframes.fused` computes the convolutions from now on."""
        self.fused = fused
        self.packed, self._tensors = {}, {}

    def pack(self) -> None:
        """Pack the current parameters for acting, at the addresses where captured graphs read them."""
        from leanframes import fused

        for group in self.obs_groups_2d:
            layers, _ = self._layers_of(group)
            size = self.obs_dims_2d[self.obs_groups_2d.index(group)]
            with torch.inference_mode(False), torch.no_grad():
                packed = fused.pack(layers, *size)
                tensors = self._tensors.setdefault(group, packed)
                for layer, new_layer in zip(tensors, packed, strict=True):
                    for tensor, new in zip(layer, new_layer, strict=True):
                        if tensor is not None and tensor is not new:
                            tensor.copy_(new)
            self.packed[group] = _versions_of(layers), tensors

    def get_latent(self, obs: TensorDict, masks: torch.Tensor | None = None, hidden_state: Any = None) -> torch.Tensor:
        """Return the latent [transitions, size] of observations.

        Their images are uint8, normalized, or indices of planes in `rollout` [transitions, channels].
        """
        observations: Any = {group: obs[group] for group in self.obs_groups_2d}
        device: torch.device = observations[self.obs_groups_2d[0]].device
        images = []
        for group, image in observations.items():
            if self.fused and image.dtype in (torch.uint8, torch.int64):
                with torch.autocast(device.type, torch.bfloat16):
                    images.append(self._fused(group, image))
            elif image.dtype == torch.uint8:
                images.append(self.cnns[group](self.normalize(image, compute_dtype(device))))
            else:
                images.append(self.cnns[group](image))
        latent = torch.cat(images, dim=-1) if len(images) > 1 else images[0]
        if not torch.is_autocast_enabled(device.type):
            latent = latent.float()
        if not self.obs_groups:
            return latent
        return torch.cat([MLPModel.get_latent(self, obs), latent], dim=-1)

    def _fused(self, group: str, image: torch.Tensor) -> torch.Tensor:
        from leanframes import fused

        layers, others = self._layers_of(group)
        if image.dtype == torch.uint8:
            frames, sums, planes = fused.planes_of(image)
        else:
            storage: Any = self.rollout
            frames, sums, planes = storage.frames[group].flatten(0, 2), storage.sums[group].view(-1), image
        packed = None
        if not torch.is_grad_enabled():
            if group not in self.packed or self.packed[group][0] != _versions_of(layers):
                self.pack()
            packed = self.packed[group][1]
        images = fused.convolve(frames, sums, planes, layers, packed)
        for layer in others:
            images = layer(images)
        return images

    def _layers_of(self, group: str) -> tuple[list[Any], list[nn.Module]]:
        """Return the first layers of a group's encoder that `fused` computes, and the modules after them."""
        from leanframes import fused

        encoder: Any = self.cnns[group]
        return fused.layers_of(encoder, *self.obs_dims_2d[self.obs_groups_2d.index(group)])


def _versions_of(layers: list[Any]) -> tuple[int, ...]:
    return tuple(parameter._version for layer in layers for parameter in (layer.weight, layer.bias))


def compute_dtype(device: torch.device) -> torch.dtype:
    """Return the current dtype of computation: autocast's if it is on, else float32."""
    return torch.get_autocast_dtype(device.type) if torch.is_autocast_enabled(device.type) else torch.float32
