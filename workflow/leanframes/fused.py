"""Convolutions of a small camera network on an NVIDIA GPU that read uint8 frames directly from a rollout, in Triton.

cuDNN's kernels are made for many channels. With the 6, 8 and 16 channels of a camera task they take most of an update. Before them,
frames must be gathered, normalized, and written to memory in bfloat16. Here the first layer reads bytes, and finds the frames of a stack
in the rollout. Every layer includes bias and activation (ReLU or ELU), so its output is written once and read once in each direction.

Input: frames [planes, h, w] as uint8, the planes of each image, and a network's first layers. Output: activations in bfloat16, and
gradients. Arithmetic: bytes are exact in bfloat16. Weights, activations and gradients of activations are rounded to it, as in
`torch.autocast`. Products are accumulated in float32, and gradients of parameters stay float32. Normalization (`x / 255 - mean`) is
linear, so no normalized image is stored: W * (x / 255 - mean) = (W * x) / 255 - mean * sum(W).

The method is implicit GEMM (Chetlur et al. 2014, cuDNN, arXiv:1410.0759): an image's patches are the rows of a matrix of which only
tiles are ever formed. Importing this module needs Triton, which comes with PyTorch for CUDA.
"""

# Python's type checker takes Triton's kernels for functions.
# pyright: reportMissingImports=false, reportIndexIssue=false, reportOperatorIssue=false

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import torch
import triton
from torch import nn
from torch.nn import functional

from leanframes import first_layer, fused_kernels, operations


class Layer(NamedTuple):
    """A convolution and the activation that follows it."""

    weight: torch.Tensor
    """[o, c, kh, kw]"""
    bias: torch.Tensor
    """[o]"""
    stride: int
    is_elu: bool
    """ELU with alpha 1, else ReLU. The slopes of both follow from their outputs."""


# Tile of pixels (BLOCK_M) and of a patch (BLOCK_K) of a program, its warps, and the number of programs that share a sum. The fastest
# of those tried on an H100 with the network of Isaac Lab's camera cart-pole, 8,192 images of 96 x 96. WEIGHTS must have one stage: with
# more, Triton 3.6 loads the next tiles over those that the tensor cores still read, and gradients are up to 2% off.
FORWARD_BYTES = {"BLOCK_M": 128, "BLOCK_K": 32, "num_warps": 4}
WEIGHTS_BYTES = {"BLOCK_M": 64, "BLOCK_K": 32, "num_warps": 2, "num_stages": 3}
WEIGHTS_BYTES_PROGRAMS = 2112
FORWARD = {"BLOCK_M": 128, "BLOCK_K": 32, "num_warps": 4}
INPUTS = {"BLOCK_M": 128, "num_warps": 4}
WEIGHTS = {"BLOCK_M": 128, "BLOCK_K": 128, "num_warps": 4, "num_stages": 1}
WEIGHTS_PROGRAMS = 1056
SHIFTS = {"BLOCK": 32}
REARRANGE = {"BLOCK": 256}
ADD_UP = {"ROWS": 128, "COLUMNS": 16}
FLAT_PIXELS = 128
"""Pixels of an image that a program flattens."""

LEAST = 16
"""Least rows and columns of a tensor core's operands; smaller matrices are padded with zeros."""


class Packed(NamedTuple):
    """A layer's parameters in the layout of its forward kernel."""

    weight: torch.Tensor | None
    """bfloat16; the kernels describe its layout. None: `first_layer` takes the parameters as they are."""
    bias: torch.Tensor
    """[o], float32"""


class _Layers(torch.autograd.Function):
    """All layers as one autograd function: from planes to activations [b, o, oh, ow], and back to the parameters."""

    @staticmethod
    def forward(
        ctx: Any,
        frames: torch.Tensor,
        sums: torch.Tensor,
        planes: torch.Tensor,
        settings: tuple[tuple[int, bool], ...],
        packed: list[Packed] | None,
        *parameters: Any,
    ) -> torch.Tensor:
        layers = _layers(parameters, settings)
        height, width = frames.shape[1:]
        first, *others = packed or pack(layers, height, width)
        means, shift = means_and_shifts(frames, sums, planes, layers[0])
        outs = [forward_of_bytes(frames, shift, planes, layers[0], first)]
        for layer, ready in zip(layers[1:], others, strict=True):
            outs.append(_forward_of(outs[-1], layer, ready))
        ctx.save_for_backward(frames, means, planes, *parameters, *outs)
        ctx.settings = settings
        return _channels_first(outs[-1])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        frames, means, planes, *saved = ctx.saved_tensors
        parameters, outs = saved[: 2 * len(ctx.settings)], saved[2 * len(ctx.settings) :]
        layers = _layers(parameters, ctx.settings)
        # Gradients overwrite activations, which nobody else holds: half the memory. The new versions make a second backward fail.
        torch.autograd.graph.increment_version(outs)
        grad = _last_into_gradient(grads[0], outs[-1], layers[-1].is_elu)
        gradients: list[torch.Tensor] = []
        for number in range(len(layers) - 1, 0, -1):
            inputs = outs[number - 1]
            gradients = [*_gradients_of(inputs, grad, layers[number]), *gradients]
            grad = _into_gradient(grad, inputs, layers[number], layers[number - 1].is_elu)
        return *[None] * 5, *gradients_of_bytes(frames, means, planes, grad, layers[0]), *gradients


def layers_of(encoder: nn.Sequential, height: int, width: int) -> tuple[list[Layer], list[nn.Module]]:
    """Return the first layers of a network that can be computed here (maybe none), and the modules after them.

    A layer is a convolution with bias, at most 128 outputs and equal strides, without padding, dilation or groups, and its ReLU or ELU
    (alpha 1). The first layer needs an even stride, height and width (it reads two pixels at once). Later layers need a multiple of 8 input
    channels (16 bytes).
    """
    modules, layers = list(encoder), list[Layer]()
    while len(modules) >= 2:
        convolution, activation = modules[:2]
        is_elu = type(activation) is nn.ELU and activation.alpha == 1.0
        if (
            not isinstance(convolution, nn.Conv2d)
            or not (is_elu or type(activation) is nn.ReLU)
            or convolution.bias is None
        ):
            break
        stride = convolution.stride[0]
        plain = convolution.groups == 1 and convolution.dilation == (1, 1) and convolution.padding == (0, 0)
        even = stride % 2 == 0 and height % 2 == 0 and width % 2 == 0
        if not plain or convolution.stride != (stride, stride) or convolution.out_channels > 128:
            break
        if not (even if not layers else convolution.in_channels % 8 == 0):
            break
        layers.append(Layer(convolution.weight, convolution.bias, stride, is_elu))
        modules = modules[2:]
    return layers, modules


def pack(layers: list[Layer], height: int, width: int) -> list[Packed]:
    """Return the layers' current parameters in the layout of the forward kernels, for frames of this size."""
    first, *others = layers
    weights = [None if _in_cuda((height, width), first) else weight_for_triton(first)]
    weights += [_laid_out(layer.weight, _ByPatches(FORWARD["BLOCK_K"])) for layer in others]
    return [Packed(weight, layer.bias.float()) for weight, layer in zip(weights, layers, strict=True)]


def _in_cuda(size: Sequence[int], layer: Layer) -> first_layer.Kernels | None:
    """Return the kernels of `first_layer` for a first layer on frames of this size [2], or None if they cannot compute it."""
    return first_layer.kernels_for(size[0], size[1], layer.weight, layer.stride, layer.is_elu)


def weight_for_triton(layer: Layer) -> torch.Tensor:
    """Return the first layer's weight in the layout of its kernel in Triton."""
    return _laid_out(layer.weight, _ByBytes(FORWARD_BYTES["BLOCK_K"]))


class _ByBytes(NamedTuple):
    """Lays out a weight as [2, patch, o]: left and right pixels apart. With odd columns the last pair's right pixel has weight zero."""

    block: int
    """The patch is padded to a multiple of so many rows."""

    def __call__(self, weight: torch.Tensor) -> torch.Tensor:
        outputs, inputs, rows, columns = weight.shape
        patch = inputs * rows * ((columns + 1) // 2)
        pairs = functional.pad(weight, (0, columns % 2)).view(outputs, patch, 2).permute(2, 1, 0)
        return functional.pad(pairs, (0, _padded(outputs) - outputs, 0, -patch % self.block))


class _ByPatches(NamedTuple):
    """Lays out a weight as [patch, o], its rows (ky * columns + kx) * c + channel."""

    block: int
    """The patch is padded to a multiple of so many rows."""

    def __call__(self, weight: torch.Tensor) -> torch.Tensor:
        outputs, patch = weight.shape[0], weight[0].numel()
        rows = weight.permute(2, 3, 1, 0).reshape(patch, outputs)
        return functional.pad(rows, (0, _padded(outputs) - outputs, 0, -patch % self.block))


class _ByInputs(NamedTuple):
    """Lays out a weight as [ky * taps + tx, o, px * c + channel], for tap (ky, px + stride * tx)."""

    stride: int

    def __call__(self, weight: torch.Tensor) -> torch.Tensor:
        outputs, inputs, rows, columns = weight.shape
        taps, wide = triton.cdiv(columns, self.stride), self.stride * inputs
        phases = functional.pad(weight, (0, taps * self.stride - columns))
        phases = phases.view(outputs, inputs, rows, taps, self.stride).permute(2, 3, 0, 4, 1)
        phases = phases.reshape(rows * taps, outputs, wide)
        return functional.pad(phases, (0, _padded(wide) - wide, 0, _padded(outputs) - outputs))


Layout = Callable[[torch.Tensor], torch.Tensor]
"""Moves the numbers of a weight [o, c, kh, kw], and adds zeros. Equal layouts have equal hashes."""


@lru_cache
def _places_in(layout: Layout, shape: torch.Size, device: torch.device) -> torch.Tensor:
    """Return a layout of the places in a weight of this shape, int32; -1 for the zeros that the layout adds."""
    count = shape.numel()
    return layout(torch.arange(1, count + 1, dtype=torch.int32, device=device).view(shape)).contiguous() - 1


def _laid_out(weight: torch.Tensor, layout: Layout) -> torch.Tensor:
    """Return a weight in a layout, rounded to bfloat16."""
    places = _places_in(layout, weight.shape, weight.device)
    out = torch.empty(places.shape, dtype=torch.bfloat16, device=weight.device)
    count = places.numel()
    fused_kernels.rearrange[(triton.cdiv(count, REARRANGE["BLOCK"]),)](weight, places, out, count, **REARRANGE)
    return out


def add_up(
    parts: torch.Tensor, places: torch.Tensor, size: int, scale: float = 1.0, corrections: torch.Tensor | None = None
) -> torch.Tensor:
    """Return `scale` times the sums of parts [programs, ...], each at its place in a tensor [size], int32; -1: nowhere.

    `corrections` [size / n] are subtracted from n sums each.
    """
    out = torch.empty(size, device=parts.device)
    width = places.numel()
    patch = 0 if corrections is None else size // corrections.numel()
    fused_kernels.add_up[(triton.cdiv(width, ADD_UP["COLUMNS"]),)](
        parts, places, out if corrections is None else corrections, out, len(parts), width, scale, PATCH=patch, **ADD_UP
    )
    return out


def planes_of(stacks: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the first three arguments of `convolve` for uint8 stacks [b, k, h, w]: frames, their pixels' sums, each image's planes."""
    frames = stacks.flatten(0, 1)
    sums = torch.empty(len(frames), dtype=torch.int64, device=stacks.device)
    operations.plane_sums(frames.flatten(1), sums)
    return frames, sums, torch.arange(len(frames), device=stacks.device).view(stacks.shape[:2])


def convolve(
    frames: torch.Tensor,
    sums: torch.Tensor,
    planes: torch.Tensor,
    layers: list[Layer],
    packed: list[Packed] | None = None,
) -> torch.Tensor:
    """Return the activations of a network's first layers for normalized stacks of frames.

    Args:
        frames: [p, h, w], uint8, contiguous
        sums: sum of the pixels of each plane [p], int64
        planes: indices of the planes that are the channels of each image [b, c], int64, from 0 to p - 1 (not checked)
        layers: from `layers_of`
        packed: from `pack`, to reuse it for the same parameters; None: `convolve` calls `pack`

    Returns:
        Activations [b, o, oh, ow] in float32, contiguous, so that `nn.Flatten` copies nothing. Differentiable with respect to the
        layers' parameters, once.
    """
    parameters = [tensor for layer in layers for tensor in (layer.weight, layer.bias)]
    activations: Any = _Layers.apply(
        frames, sums, planes, tuple((layer.stride, layer.is_elu) for layer in layers), packed, *parameters
    )
    return activations


def _layers(parameters: Any, settings: tuple[tuple[int, bool], ...]) -> list[Layer]:
    pairs = zip(parameters[::2], parameters[1::2], settings, strict=True)
    return [Layer(weight, bias, *more) for weight, bias, more in pairs]


def means_and_shifts(
    frames: torch.Tensor, sums: torch.Tensor, planes: torch.Tensor, layer: Layer
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the means of each image's planes, of bytes / 255 [b, c], and the bias less what these means take from its outputs [b, o]."""
    height, width = frames.shape[1:]
    outputs, inputs, *kernel = layer.weight.shape
    taps = kernel[0] * kernel[1]
    means = torch.empty(len(planes), inputs, device=frames.device)
    shift = torch.empty(len(planes), outputs, device=frames.device)
    is_half = _in_cuda((height, width), layer) is not None
    fused_kernels.shifts[(triton.cdiv(len(planes), SHIFTS["BLOCK"]),)](
        sums, planes.contiguous(), layer.weight.float(), layer.bias.float(), means, shift, len(planes), height * width * 255.0,
        C=inputs, T=taps, TPAD=triton.next_power_of_2(taps), O=outputs, OPAD=_padded(outputs), HALF=is_half, **SHIFTS,
    )  # fmt: skip
    return means, shift


def forward_of_bytes(
    frames: torch.Tensor, shift: torch.Tensor, planes: torch.Tensor, layer: Layer, packed: Packed
) -> torch.Tensor:
    """Return the first layer's activations [b, oh, ow, o]; `shift` is from `means_and_shifts`."""
    if kernels := _in_cuda(frames.shape[1:], layer):
        return kernels.forward(frames, planes, layer.weight.float(), shift)
    return forward_of_bytes_in_triton(frames, shift, planes, layer, packed)


def forward_of_bytes_in_triton(
    frames: torch.Tensor, shift: torch.Tensor, planes: torch.Tensor, layer: Layer, packed: Packed
) -> torch.Tensor:
    """Return the first layer's activations [b, oh, ow, o], for layers or GPUs that `first_layer` does not support."""
    shape = _shape_of_bytes(frames, layer)
    size = _size(frames.shape[1:], layer.weight, layer.stride)
    out = torch.empty(len(planes), *size, shape["O"], dtype=torch.bfloat16, device=frames.device)
    tiles = triton.cdiv(shape["M"], FORWARD_BYTES["BLOCK_M"])
    fused_kernels.forward_bytes[(tiles * len(planes),)](
        _pairs(frames), planes, packed.weight, shift, out, ELU=layer.is_elu, **shape, **FORWARD_BYTES
    )
    return out


def gradients_of_bytes(
    frames: torch.Tensor, means: torch.Tensor, planes: torch.Tensor, grad: torch.Tensor, layer: Layer
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the gradients of the first layer's weight and bias; `means` are from `means_and_shifts`."""
    if kernels := _in_cuda(frames.shape[1:], layer):
        parts, sums = kernels.gradients(frames, planes, grad)
        places = _places_in(kernels.shape.layout, layer.weight.shape, layer.weight.device)
        return _without_means(parts, places, sums, means, layer.weight)
    return gradients_of_bytes_in_triton(frames, means, planes, grad, layer)


def gradients_of_bytes_in_triton(
    frames: torch.Tensor, means: torch.Tensor, planes: torch.Tensor, grad: torch.Tensor, layer: Layer
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the gradients of the first layer's weight and bias, for layers or GPUs that `first_layer` does not support."""
    outputs, inputs, rows, _ = layer.weight.shape
    shape, count = _shape_of_bytes(frames, layer), len(planes)
    each = triton.cdiv(count, WEIGHTS_BYTES_PROGRAMS)
    programs = triton.cdiv(count, each)
    chunks = triton.cdiv(inputs * rows * shape["KP"], WEIGHTS_BYTES["BLOCK_K"])
    places = _places_in(_ByBytes(WEIGHTS_BYTES["BLOCK_K"]), layer.weight.shape, layer.weight.device)
    parts = torch.empty(programs, *places.shape, device=grad.device)
    sums = torch.empty(count, outputs, device=grad.device)
    fused_kernels.weights_bytes[(chunks, programs)](
        _pairs(frames), planes, grad, parts, sums, count, each, **shape, **WEIGHTS_BYTES
    )
    return _without_means(parts, places, sums, means, layer.weight)


def _without_means(
    parts: torch.Tensor, places: torch.Tensor, sums: torch.Tensor, means: torch.Tensor, weight: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the gradients of the first layer's weight and bias, from parts of bytes x gradient and each image's gradient [b, o]."""
    gradient = add_up(parts, places, weight.numel(), 1.0 / 255.0, sums.t() @ means)
    return gradient.view_as(weight), sums.sum(0)


def _forward_of(x: torch.Tensor, layer: Layer, packed: Packed) -> torch.Tensor:
    shape = _shape(x, layer)
    outputs = shape["O"]
    size = _size(x.shape[1:3], layer.weight, layer.stride)
    out = torch.empty(len(x), *size, outputs, dtype=torch.bfloat16, device=x.device)
    count = out.numel() // outputs
    tiles = triton.cdiv(count, FORWARD["BLOCK_M"])
    fused_kernels.forward[(tiles,)](
        x, packed.weight, packed.bias, out, count, M=size[0] * size[1], ELU=layer.is_elu, **shape, **FORWARD
    )
    return out


def _gradients_of(x: torch.Tensor, grad: torch.Tensor, layer: Layer) -> tuple[torch.Tensor, torch.Tensor]:
    shape = _shape(x, layer)
    outputs = shape["O"]
    count = grad.numel() // outputs
    chunks = triton.cdiv(layer.weight[0].numel(), WEIGHTS["BLOCK_K"])
    each = triton.cdiv(triton.cdiv(count, WEIGHTS["BLOCK_M"]), WEIGHTS_PROGRAMS // chunks) * WEIGHTS["BLOCK_M"]
    programs = triton.cdiv(count, each)
    places = _places_with_bias(layer.weight.shape, layer.weight.device)
    parts = torch.empty(programs, *places.shape, device=x.device)
    fused_kernels.weights[(chunks, programs)](
        x, grad, parts, count, each, M=grad.shape[1] * grad.shape[2], **shape, **WEIGHTS
    )
    gradients = add_up(parts, places, layer.weight.numel() + outputs)
    return gradients[:-outputs].view_as(layer.weight), gradients[-outputs:]


@lru_cache
def _places_with_bias(shape: torch.Size, device: torch.device) -> torch.Tensor:
    """Return the places of a layer's gradients, weight before bias, in what the kernel `weights` adds up [padded patch + 1, o]."""
    patches = _places_in(_ByPatches(WEIGHTS["BLOCK_K"]), shape, device)
    bias = torch.full((1, patches.shape[1]), -1, dtype=torch.int32, device=device)
    bias[0, : shape[0]] = shape.numel() + torch.arange(shape[0], dtype=torch.int32, device=device)
    return torch.cat([patches, bias])


def _channels_first(x: torch.Tensor) -> torch.Tensor:
    """Return activations [b, oh, ow, o] as float32 [b, o, oh, ow]."""
    out = torch.empty(len(x), x.shape[3], *x.shape[1:3], device=x.device)
    _launch_flat(fused_kernels.flatten, x, out)
    return out


def _last_into_gradient(grad: torch.Tensor, x: torch.Tensor, is_elu: bool) -> torch.Tensor:
    """Overwrite the last layer's activations by the gradient before its activation function, and return them."""
    _launch_flat(fused_kernels.unflatten, x, grad.contiguous(), ELU=is_elu)
    return x


def _launch_flat(kernel: Any, x: torch.Tensor, flat: torch.Tensor, **sizes: Any) -> None:
    pixels, outputs = x.shape[1] * x.shape[2], x.shape[3]
    grid = (len(x), triton.cdiv(pixels, FLAT_PIXELS))
    kernel[grid](x, flat, M=pixels, O=outputs, OPAD=_padded(outputs), BLOCK_M=FLAT_PIXELS, **sizes)


def _into_gradient(grad: torch.Tensor, x: torch.Tensor, layer: Layer, given_by_elu: bool) -> torch.Tensor:
    """Overwrite a layer's inputs by their gradient, and return them."""
    stride = layer.stride
    packed = _laid_out(layer.weight, _ByInputs(stride))
    count = len(x) * triton.cdiv(x.shape[1], stride) * triton.cdiv(x.shape[2], stride)
    tiles = triton.cdiv(count, INPUTS["BLOCK_M"])
    fused_kernels.inputs[(tiles, stride)](
        grad, x, packed, count, OH=grad.shape[1], NPAD=packed.shape[2], ELU=given_by_elu, **_shape(x, layer), **INPUTS
    )
    return x


def _shape_of_bytes(frames: torch.Tensor, layer: Layer) -> dict[str, int]:
    height, width = frames.shape[1:]
    outputs, inputs, rows, columns = layer.weight.shape
    oh, ow = _size((height, width), layer.weight, layer.stride)
    return {
        "HALF": width // 2, "HW_HALF": height * width // 2, "OW": ow, "M": oh * ow, "S": layer.stride,
        "L": inputs, "KH": rows, "KP": (columns + 1) // 2, "O": outputs, "OPAD": _padded(outputs),
    }  # fmt: skip


def _shape(x: torch.Tensor, layer: Layer) -> dict[str, int]:
    _, height, width, inputs = x.shape
    outputs, _, rows, columns = layer.weight.shape
    ow = _size((height, width), layer.weight, layer.stride)[1]
    return {
        "H": height, "W": width, "C": inputs, "OW": ow, "S": layer.stride,
        "KH": rows, "KW": columns, "O": outputs, "OPAD": _padded(outputs),
    }  # fmt: skip


def _size(size: Any, weight: torch.Tensor, stride: int) -> tuple[int, int]:
    return (size[0] - weight.shape[2]) // stride + 1, (size[1] - weight.shape[3]) // stride + 1


def _padded(count: int) -> int:
    return max(LEAST, triton.next_power_of_2(count))


def _pairs(frames: torch.Tensor) -> torch.Tensor:
    return frames.view(-1).view(torch.int16)
