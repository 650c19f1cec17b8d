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
FLAT_PIXELS = 128
"""Pixels of an image that a program flattens."""

LEAST = 16
"""Least rows and columns of a tensor core's operands; smaller matrices are padded with zeros."""


class Packed(NamedTuple):
    """A layer's parameters in the layout of its forward kernel."""

    weight: torch.Tensor
    """bfloat16; the kernels describe its layout."""
    bias: torch.Tensor
    """[o], float32"""
    sums: torch.Tensor | None
    """First layer only: sums of the rounded weights over the kernel's taps [c, o], to multiply with the means of an image's planes."""
    half_sums: torch.Tensor | None = None
    """The same for weights rounded to float16, as in `first_layer`."""


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
        first, *others = packed or pack(layers)
        height, width = frames.shape[1:]
        means = sums[planes].float() / (height * width * 255.0)
        outs = [_forward_of_bytes(frames, means, planes, layers[0], first)]
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
        return *[None] * 5, *_gradients_of_bytes(frames, means, planes, grad, layers[0]), *gradients


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


def pack(layers: list[Layer]) -> list[Packed]:
    """Return the layers' current parameters in the layout of the forward kernels."""
    first, *others = layers
    outputs, inputs, rows, columns = first.weight.shape
    rounded, patch = first.weight.bfloat16(), inputs * rows * ((columns + 1) // 2)
    # Separate left and right pixels; with an odd number of columns the last pair's right pixel has weight zero.
    weight = functional.pad(rounded, (0, columns % 2)).view(outputs, patch, 2).permute(2, 1, 0)
    weight = functional.pad(weight, (0, _padded(outputs) - outputs, 0, -patch % FORWARD_BYTES["BLOCK_K"]))
    sums, half_sums = (kind.float().sum((2, 3)).t() for kind in (rounded, first.weight.half()))
    packed = [Packed(weight.contiguous(), first.bias.float(), sums, half_sums)]
    for layer in others:
        outputs, patch = layer.weight.shape[0], layer.weight[0].numel()
        weight = layer.weight.bfloat16().permute(2, 3, 1, 0).reshape(patch, outputs)
        weight = functional.pad(weight, (0, _padded(outputs) - outputs, 0, -patch % FORWARD["BLOCK_K"]))
        packed.append(Packed(weight.contiguous(), layer.bias.float(), None))
    return packed


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


def _forward_of_bytes(
    frames: torch.Tensor, means: torch.Tensor, planes: torch.Tensor, layer: Layer, packed: Packed
) -> torch.Tensor:
    if kernels := first_layer.kernels_for(frames, layer.weight, layer.stride, layer.is_elu):
        assert packed.half_sums is not None
        return kernels.forward(frames, planes, layer.weight.float(), packed.bias - means @ packed.half_sums)
    return forward_of_bytes_in_triton(frames, means, planes, layer, packed)


def forward_of_bytes_in_triton(
    frames: torch.Tensor, means: torch.Tensor, planes: torch.Tensor, layer: Layer, packed: Packed
) -> torch.Tensor:
    """Return the first layer's activations [b, oh, ow, o], for layers or GPUs that `first_layer` does not support."""
    shift = packed.bias - means @ packed.sums
    shape = _shape_of_bytes(frames, layer)
    size = _size(frames.shape[1:], layer.weight, layer.stride)
    out = torch.empty(len(planes), *size, shape["O"], dtype=torch.bfloat16, device=frames.device)
    tiles = triton.cdiv(shape["M"], FORWARD_BYTES["BLOCK_M"])
    fused_kernels.forward_bytes[(tiles * len(planes),)](
        _pairs(frames), planes, packed.weight, shift, out, ELU=layer.is_elu, **shape, **FORWARD_BYTES
    )
    return out


def _gradients_of_bytes(
    frames: torch.Tensor, means: torch.Tensor, planes: torch.Tensor, grad: torch.Tensor, layer: Layer
) -> tuple[torch.Tensor, torch.Tensor]:
    if kernels := first_layer.kernels_for(frames, layer.weight, layer.stride, layer.is_elu):
        raw, sums = kernels.gradients(frames, planes, grad)
        return raw - (sums.t() @ means)[:, :, None, None], sums.sum(0)
    return gradients_of_bytes_in_triton(frames, means, planes, grad, layer)


def gradients_of_bytes_in_triton(
    frames: torch.Tensor, means: torch.Tensor, planes: torch.Tensor, grad: torch.Tensor, layer: Layer
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the gradients of the first layer's weight and bias, for layers or GPUs that `first_layer` does not support."""
    outputs, inputs, rows, columns = layer.weight.shape
    shape, count = _shape_of_bytes(frames, layer), len(planes)
    patch = inputs * rows * shape["KP"]
    each = triton.cdiv(count, WEIGHTS_BYTES_PROGRAMS)
    programs, chunks = triton.cdiv(count, each), triton.cdiv(patch, WEIGHTS_BYTES["BLOCK_K"])
    partial = torch.empty(programs, 2, chunks * WEIGHTS_BYTES["BLOCK_K"], shape["OPAD"], device=grad.device)
    sums = torch.empty(count, outputs, device=grad.device)
    fused_kernels.weights_bytes[(chunks, programs)](
        _pairs(frames), planes, grad, partial, sums, count, each, **shape, **WEIGHTS_BYTES
    )
    raw = partial.sum(0)[:, :patch, :outputs].permute(2, 1, 0)
    raw = raw.reshape(outputs, inputs, rows, 2 * shape["KP"])[..., :columns]
    return raw / 255.0 - (sums.t() @ means)[:, :, None, None], sums.sum(0)


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
    outputs, patch = shape["O"], shape["KH"] * shape["KW"] * shape["C"]
    count = grad.numel() // outputs
    chunks = triton.cdiv(patch, WEIGHTS["BLOCK_K"])
    each = triton.cdiv(triton.cdiv(count, WEIGHTS["BLOCK_M"]), WEIGHTS_PROGRAMS // chunks) * WEIGHTS["BLOCK_M"]
    programs = triton.cdiv(count, each)
    partial = torch.empty(programs, chunks * WEIGHTS["BLOCK_K"], shape["OPAD"], device=x.device)
    biases = torch.empty(programs, shape["OPAD"], device=x.device)
    fused_kernels.weights[(chunks, programs)](
        x, grad, partial, biases, count, each, M=grad.shape[1] * grad.shape[2], **shape, **WEIGHTS
    )
    gradient = partial.sum(0)[:patch, :outputs].view(shape["KH"], shape["KW"], shape["C"], outputs)
    return gradient.permute(3, 2, 0, 1), biases.sum(0)[:outputs]


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
    weight, stride = layer.weight, layer.stride
    shape = _shape(x, layer)
    outputs, inputs, rows, columns = weight.shape
    taps, wide, padded = triton.cdiv(columns, stride), stride * inputs, _padded(stride * inputs)
    packed = functional.pad(weight.bfloat16(), (0, taps * stride - columns)).view(outputs, inputs, rows, taps, stride)
    packed = packed.permute(2, 3, 0, 4, 1).reshape(rows * taps, outputs, wide)
    packed = functional.pad(packed, (0, padded - wide, 0, shape["OPAD"] - outputs)).contiguous()
    count = len(x) * triton.cdiv(x.shape[1], stride) * triton.cdiv(x.shape[2], stride)
    tiles = triton.cdiv(count, INPUTS["BLOCK_M"])
    fused_kernels.inputs[(tiles, stride)](
        grad, x, packed, count, OH=grad.shape[1], NPAD=padded, ELU=given_by_elu, **shape, **INPUTS
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
