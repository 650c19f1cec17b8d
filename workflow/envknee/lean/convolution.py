"""The first convolution of a network on stacks of frames, in other forms that compute the same numbers.

Few input channels and a stride are what GPUs' convolutions are poor at. Input: a convolution as it was made (its weights stay as
they are, and so do checkpoints and exported policies). Output: how its images are to lie, and what it gives for them.

    folded   a stride of 2 (or 4) turns into channels: 6 channels, 5 x 5 by steps of 2 become 24 channels, 3 x 3 by steps of 1
"""

from typing import Literal

import torch
from torch import nn
from torch.nn import functional

from envknee.lean.operations import Layout

Form = Literal["plain", "folded"]


def unfit(form: Form, convolution: nn.Module) -> str | None:
    """Return why a layer cannot be computed in a form, or None."""
    if form == "plain":
        return None
    if not isinstance(convolution, nn.Conv2d) or convolution.groups != 1:
        return f"the first layer is no convolution of all channels ({convolution})"
    stride, (height, width) = convolution.stride, convolution.kernel_size
    if form == "folded" and not (
        stride[0] == stride[1] and stride[0] in (2, 4) and height == width and convolution.dilation == (1, 1)
        and convolution.padding == (0, 0)
    ):  # fmt: skip
        return f"only a square one with a stride of 2 or 4, without padding or dilation, can be folded ({convolution})"
    return None


def layout_of(form: Form, convolution: nn.Conv2d, height: int, width: int, dtype: torch.dtype, last: bool) -> Layout:
    """Return how normalized images of height x width are to lie for a convolution, with their channels last or not."""
    if form == "folded":
        stride, kernel = convolution.stride[0], convolution.kernel_size[0]
        # So many rows that each output pixel has all of its folded ones, and no more.
        rows, columns = (
            stride * ((side - kernel) // stride + -(-kernel // stride)) for side in (height, width)
        )  # fmt: skip
        return Layout(dtype, last, (rows, columns), stride)
    return Layout(dtype, last)


def convolve(form: Form, convolution: nn.Module, images: torch.Tensor) -> torch.Tensor:
    """Return what a first layer gives for images.

    Args:
        form: in which images were laid out, unless they have as many channels as the layer has inputs
        convolution: the layer; one that is no convolution takes images as they are
        images: [b, c, h, w] as they are, or as `layout_of` says
    """
    if not isinstance(convolution, nn.Conv2d) or images.shape[1] == convolution.in_channels:
        return convolution(images)
    weight = convolution.weight
    stride, kernel = convolution.stride[0], convolution.kernel_size[0]
    missing = -kernel % stride
    weight = functional.pixel_unshuffle(functional.pad(weight, (0, missing, 0, missing)), stride)
    return functional.conv2d(images, weight, convolution.bias)
