"""Convolutions that read uint8 frames where a rollout keeps them: learning a small camera network on an NVIDIA GPU, in Triton.

cuDNN's kernels are made for many channels. With the 6, 8 and 16 of a camera task they take most of an update, and before them frames
are gathered, normalized and laid out in bfloat16, written to memory and read again. Here the first layer reads bytes, a stack's
frames from wherever they are, and every layer does its bias and activation (ReLU or ELU) with it, so that what a layer gives is written
once and read once in each direction.

Input: frames [planes, h, w] as uint8, which planes each image consists of, and a network's first layers. Output: their activations
in bfloat16, and gradients. Arithmetic: bytes are exact in bfloat16; weights, activations and gradients of activations are rounded
to it, as `torch.autocast` rounds them; products are added up in float32, and gradients of parameters stay float32. Normalization
(`x / 255 - mean`) is linear and needs no image of its own: W * (x / 255 - mean) = (W * x) / 255 - mean * sum(W).

The method is implicit GEMM (Chetlur et al. 2014, cuDNN, arXiv:1410.0759): an image's patches are the rows of a matrix that only ever
exists tile by tile. Needs Triton (it comes with PyTorch for CUDA): import this module only where it is.
"""

# Sizes are capitals, as in formulas, and constants of a kernel.
# ruff: noqa: N803, N806, E741

# Triton's compiler reads kernels, and Python's type checker takes them for functions.
# pyright: reportArgumentType=false, reportCallIssue=false, reportIndexIssue=false, reportOperatorIssue=false
# pyright: reportAttributeAccessIssue=false, reportMissingImports=false, reportGeneralTypeIssues=false
# pyright: reportMissingParameterType=false

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import nn
from torch.nn import functional


class Layer(NamedTuple):
    """A convolution and the activation that follows it."""

    weight: torch.Tensor
    """[o, c, kh, kw]"""
    bias: torch.Tensor
    """[o]"""
    stride: int
    is_elu: bool
    """ELU with alpha 1, else ReLU. Both tell their slope by what they give."""


# How large a tile of pixels (BLOCK_M) and of a patch (BLOCK_K) a program computes with how many warps, and how many programs share
# out a sum. The fastest of what was tried on an H100 with the network of Isaac Lab's camera cart-pole, 8,192 images of 96 x 96.
FORWARD_BYTES = {"BLOCK_M": 128, "BLOCK_K": 32, "num_warps": 4}
WEIGHTS_BYTES = {"BLOCK_M": 64, "BLOCK_K": 32, "num_warps": 2, "num_stages": 3}
WEIGHTS_BYTES_PROGRAMS = 2112
FORWARD = {"BLOCK_M": 128, "BLOCK_K": 32, "num_warps": 4}
INPUTS = {"BLOCK_M": 64, "num_warps": 2}
WEIGHTS = {"BLOCK_M": 64, "BLOCK_K": 128, "num_warps": 4}
WEIGHTS_PROGRAMS = 1056

LEAST = 16
"""Rows and columns that a tensor core takes; what is less is filled with zeros."""


@triton.jit
def _two_numbers(pairs):
    """Return the low and the high bytes of int16 as bfloat16, exactly.

    2^23 + byte is a float32 whose last bits are the byte; a number below 256 fits the upper half of a float32.
    """
    return tl.inline_asm_elementwise(
        """{
        .reg .b32 i, j;
        .reg .f32 a, b, c, d;
        prmt.b32 i, $2, 0x4B000000, 0x7440;
        mov.b32 a, i;
        prmt.b32 i, $2, 0x4B000000, 0x7441;
        mov.b32 b, i;
        prmt.b32 i, $2, 0x4B000000, 0x7442;
        mov.b32 c, i;
        prmt.b32 i, $2, 0x4B000000, 0x7443;
        mov.b32 d, i;
        sub.rn.f32 a, a, 0f4B000000;
        sub.rn.f32 b, b, 0f4B000000;
        sub.rn.f32 c, c, 0f4B000000;
        sub.rn.f32 d, d, 0f4B000000;
        mov.b32 i, a;
        mov.b32 j, c;
        prmt.b32 $0, i, j, 0x7632;
        mov.b32 i, b;
        mov.b32 j, d;
        prmt.b32 $1, i, j, 0x7632;
        }""",
        "=r,=r,r",
        [pairs],
        dtype=(tl.bfloat16, tl.bfloat16),
        is_pure=True,
        pack=2,
    )


@triton.jit
def _activated(x, ELU: tl.constexpr):
    return tl.where(x > 0.0, x, tl.exp(x) - 1.0) if ELU else tl.maximum(x, 0.0)


@triton.jit
def _forward_bytes(
    pairs, planes, weight, shift, out,
    HALF: tl.constexpr, HW_HALF: tl.constexpr, OW: tl.constexpr, M: tl.constexpr, S: tl.constexpr,
    L: tl.constexpr, KH: tl.constexpr, KP: tl.constexpr, O: tl.constexpr, OPAD: tl.constexpr, ELU: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Write a tile of an image's output pixels, out [b, M, O].

    Two neighbouring pixels of a row are read at once: pairs int16 [p, h, w / 2]; planes [b, L]. A patch has Q = L * KH * KP of them,
    and weight [2, at least Q, OPAD] one row for its left and one for its right pixel. shift [b, O] is added after 1 / 255.
    grid: b * tiles.
    """
    TILES: tl.constexpr = (M + BLOCK_M - 1) // BLOCK_M
    b = (tl.program_id(0) // TILES).to(tl.int64)
    m = (tl.program_id(0) % TILES) * BLOCK_M + tl.arange(0, BLOCK_M)
    inside = tl.minimum(m, M - 1)
    pixel = (inside // OW) * (S * HALF) + (inside % OW) * (S // 2)
    o = tl.arange(0, OPAD)
    Q: tl.constexpr = L * KH * KP
    CHUNKS: tl.constexpr = (Q + BLOCK_K - 1) // BLOCK_K
    acc = tl.zeros((BLOCK_M, OPAD), tl.float32)
    for chunk in tl.static_range(CHUNKS):
        k = chunk * BLOCK_K + tl.arange(0, BLOCK_K)
        q = tl.minimum(k, Q - 1)  # beyond, weights are zero
        start = tl.load(planes + b * L + q // (KH * KP)) * HW_HALF + ((q // KP) % KH) * HALF + q % KP
        left, right = _two_numbers(tl.load(pairs + start[None, :] + pixel[:, None]))
        acc = tl.dot(left, tl.load(weight + k[:, None] * OPAD + o[None, :]), acc)
        acc = tl.dot(right, tl.load(weight + (CHUNKS * BLOCK_K + k)[:, None] * OPAD + o[None, :]), acc)
    acc = acc * (1.0 / 255.0) + tl.load(shift + b * O + o, mask=o < O, other=0.0)[None, :]
    place = (b * M + m)[:, None] * O + o[None, :]
    tl.store(out + place, _activated(acc, ELU).to(tl.bfloat16), mask=(m < M)[:, None] & (o < O)[None, :])


@triton.jit
def _weights_bytes(
    pairs, planes, grad, partial, sums, count, per_program,
    HALF: tl.constexpr, HW_HALF: tl.constexpr, OW: tl.constexpr, M: tl.constexpr, S: tl.constexpr,
    L: tl.constexpr, KH: tl.constexpr, KP: tl.constexpr, O: tl.constexpr, OPAD: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Add up bytes x gradient over some images: partial [programs, 2, Q, OPAD]; and of each image sums [b, O], the gradient's.

    grad [b, M, O], already times the activation's slope. grid: chunks of Q, programs.
    """
    chunk = tl.program_id(0)
    program = tl.program_id(1)
    Q: tl.constexpr = L * KH * KP
    k = chunk * BLOCK_K + tl.arange(0, BLOCK_K)
    q = tl.minimum(k, Q - 1)
    o = tl.arange(0, OPAD)
    inner = ((q // KP) % KH) * HALF + q % KP
    lefts = tl.zeros((BLOCK_K, OPAD), tl.float32)
    rights = tl.zeros((BLOCK_K, OPAD), tl.float32)
    first = program * per_program
    for row in range(first, tl.minimum(first + per_program, count)):
        b = tl.full((), 0, tl.int64) + row
        start = tl.load(planes + b * L + q // (KH * KP)) * HW_HALF + inner
        total = tl.zeros((OPAD,), tl.float32)
        for tile in range(0, M, BLOCK_M):
            m = tile + tl.arange(0, BLOCK_M)
            inside = tl.minimum(m, M - 1)
            pixel = (inside // OW) * (S * HALF) + (inside % OW) * (S // 2)
            place = (b * M + m)[:, None] * O + o[None, :]
            g = tl.load(grad + place, mask=(m < M)[:, None] & (o < O)[None, :], other=0.0)
            if chunk == 0:
                total += tl.sum(g.to(tl.float32), axis=0)
            left, right = _two_numbers(tl.load(pairs + start[:, None] + pixel[None, :]))
            lefts = tl.dot(left, g, lefts)
            rights = tl.dot(right, g, rights)
        if chunk == 0:
            tl.store(sums + b * O + o, total, mask=o < O)
    rows = tl.num_programs(0) * BLOCK_K
    target = partial + (program * 2 * rows + k)[:, None] * OPAD + o[None, :]
    tl.store(target, lefts)
    tl.store(target + rows * OPAD, rights)


@triton.jit
def _forward(
    x, weight, bias, out, count,
    H: tl.constexpr, W: tl.constexpr, C: tl.constexpr, OW: tl.constexpr, M: tl.constexpr, S: tl.constexpr,
    KH: tl.constexpr, KW: tl.constexpr, O: tl.constexpr, OPAD: tl.constexpr, ELU: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Write a tile of the output pixels of all images, out [b * M, O].

    x [b, H, W, C]; weight [at least K, OPAD], its rows (ky * KW + kx) * C + c; count = b * M.
    """
    n = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    inside = tl.minimum(n, count - 1)
    b = (inside // M).to(tl.int64)
    m = inside % M
    pixel = ((b * H + (m // OW) * S) * W + (m % OW) * S) * C
    o = tl.arange(0, OPAD)
    K: tl.constexpr = KH * KW * C
    acc = tl.zeros((BLOCK_M, OPAD), tl.float32)
    for chunk in tl.static_range((K + BLOCK_K - 1) // BLOCK_K):
        k = chunk * BLOCK_K + tl.arange(0, BLOCK_K)
        offset = (k // (KW * C)) * (W * C) + k % (KW * C)
        patch = tl.load(x + pixel[:, None] + offset[None, :], mask=(k < K)[None, :], other=0.0)
        acc = tl.dot(patch, tl.load(weight + k[:, None] * OPAD + o[None, :]), acc)
    acc = _activated(acc + tl.load(bias + o, mask=o < O, other=0.0)[None, :], ELU)
    place = n.to(tl.int64)[:, None] * O + o[None, :]
    tl.store(out + place, acc.to(tl.bfloat16), mask=(n < count)[:, None] & (o < O)[None, :])


@triton.jit
def _weights(
    x, grad, partial, biases, count, per_program,
    H: tl.constexpr, W: tl.constexpr, C: tl.constexpr, OW: tl.constexpr, M: tl.constexpr, S: tl.constexpr,
    KH: tl.constexpr, KW: tl.constexpr, O: tl.constexpr, OPAD: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Add up patches x gradient over some output pixels: partial [programs, K, OPAD]; biases [programs, OPAD].

    grad [b * M, O], already times the activation's slope. grid: chunks of K, programs.
    """
    chunk = tl.program_id(0)
    program = tl.program_id(1)
    K: tl.constexpr = KH * KW * C
    k = chunk * BLOCK_K + tl.arange(0, BLOCK_K)
    offset = (k // (KW * C)) * (W * C) + k % (KW * C)
    o = tl.arange(0, OPAD)
    acc = tl.zeros((BLOCK_K, OPAD), tl.float32)
    total = tl.zeros((OPAD,), tl.float32)
    first = program * per_program
    for tile in range(first, tl.minimum(first + per_program, count), BLOCK_M):
        n = tile + tl.arange(0, BLOCK_M)
        inside = tl.minimum(n, count - 1)
        b = (inside // M).to(tl.int64)
        m = inside % M
        pixel = ((b * H + (m // OW) * S) * W + (m % OW) * S) * C
        place = n.to(tl.int64)[:, None] * O + o[None, :]
        g = tl.load(grad + place, mask=(n < count)[:, None] & (o < O)[None, :], other=0.0)
        total += tl.sum(g.to(tl.float32), axis=0)
        patch = tl.load(x + pixel[:, None] + offset[None, :], mask=(k < K)[None, :], other=0.0)
        acc = tl.dot(tl.trans(patch), g, acc)
    rows = tl.num_programs(0) * BLOCK_K
    tl.store(partial + (program * rows + k)[:, None] * OPAD + o[None, :], acc)
    if chunk == 0:
        tl.store(biases + program * OPAD + o, total)


@triton.jit
def _inputs(
    grad, x, weight, count,
    H: tl.constexpr, W: tl.constexpr, C: tl.constexpr, OH: tl.constexpr, OW: tl.constexpr, S: tl.constexpr,
    KH: tl.constexpr, KW: tl.constexpr, O: tl.constexpr, OPAD: tl.constexpr, NPAD: tl.constexpr, ELU: tl.constexpr,
    BLOCK_M: tl.constexpr,
):  # fmt: skip
    """Overwrite a layer's inputs x [b, H, W, C] by their gradient, times the slope of the activation that gave them.

    Each element is read by the program that writes it, before.
    S neighbouring columns are computed together, and rows by their phase py = y mod S, which only the taps ky = py, py + S, ... reach.
    weight [KH * TX, OPAD, NPAD]: by ky and tx, with n = px * C + c, that of the column kx = px + S * tx.
    count = b * ceil(H / S) * ceil(W / S). grid: tiles, phases.
    """
    py = tl.program_id(1)
    HS: tl.constexpr = (H + S - 1) // S
    WS: tl.constexpr = (W + S - 1) // S
    TX: tl.constexpr = (KW + S - 1) // S
    n = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    b = (n // (HS * WS)).to(tl.int64)
    yy = (n // WS) % HS
    xx = n % WS
    o = tl.arange(0, OPAD)
    j = tl.arange(0, NPAD)
    acc = tl.zeros((BLOCK_M, NPAD), tl.float32)
    for ty in tl.static_range((KH + S - 1) // S):
        ky = py + ty * S
        if ky < KH:
            for tx in tl.static_range(TX):
                oy = yy - ty
                ox = xx - tx
                legal = (n < count) & (oy >= 0) & (oy < OH) & (ox >= 0) & (ox < OW)
                place = (((b * OH + oy) * OW + ox) * O)[:, None] + o[None, :]
                g = tl.load(grad + place, mask=legal[:, None] & (o < O)[None, :], other=0.0)
                acc = tl.dot(g, tl.load(weight + ((ky * TX + tx) * OPAD + o)[:, None] * NPAD + j[None, :]), acc)
    y = yy * S + py
    place = (((b * H + y) * W + xx * S) * C)[:, None] + j[None, :]
    legal = ((n < count) & (y < H))[:, None] & (j < S * C)[None, :] & ((xx * S * C)[:, None] + j[None, :] < W * C)
    value = tl.load(x + place, mask=legal, other=0.0)
    below = acc * (value.to(tl.float32) + 1.0) if ELU else tl.zeros_like(acc)
    tl.store(x + place, tl.where(value > 0, acc, below).to(tl.bfloat16), mask=legal)


class Packed(NamedTuple):
    """A layer's parameters as its forward kernel reads them."""

    weight: torch.Tensor
    """In bfloat16; see the kernels."""
    bias: torch.Tensor
    """[o], float32"""
    sums: torch.Tensor | None
    """Of the first layer's rounded weights [c, o], which the means of the images' planes are multiplied by."""


class _Layers(torch.autograd.Function):
    """The layers as one step of differentiation: from planes to activations [b, o, oh, ow], and back to the parameters."""

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
        return outs[-1].permute(0, 3, 1, 2)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        frames, means, planes, *saved = ctx.saved_tensors
        parameters, outs = saved[: 2 * len(ctx.settings)], saved[2 * len(ctx.settings) :]
        layers = _layers(parameters, ctx.settings)
        grad, given = grads[0].permute(0, 2, 3, 1), outs[-1]
        slope = torch.where(given > 0, 1.0, given + 1.0) if layers[-1].is_elu else given > 0
        grad = (grad * slope).to(torch.bfloat16).contiguous()
        found: list[torch.Tensor] = []
        for number in range(len(layers) - 1, 0, -1):
            inputs = outs[number - 1]
            found = [*_gradients_of(inputs, grad, layers[number]), *found]
            # In their place, which nobody else has: half of the memory. A second pass back is told that they are gone.
            torch.autograd.graph.increment_version(inputs)
            grad = _into_gradient(grad, inputs, layers[number], layers[number - 1].is_elu)
        return None, None, None, None, None, *_gradients_of_bytes(frames, means, planes, grad, layers[0]), *found


def layers_of(encoder: nn.Sequential, height: int, width: int) -> tuple[list[Layer], list[nn.Module]]:
    """Return the first layers of a network that can be computed here, and what follows them.

    A layer is a convolution without padding, dilation or groups, and its ReLU or ELU. The first needs an even stride and even height and
    width (two pixels are read at once), later ones inputs of a multiple of 8 channels (16 bytes). None: the list is empty.
    """
    modules, found = list(encoder), list[Layer]()
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
        if not (even if not found else convolution.in_channels % 8 == 0):
            break
        found.append(Layer(convolution.weight, convolution.bias, stride, is_elu))
        modules = modules[2:]
    return found, modules


def pack(layers: list[Layer]) -> list[Packed]:
    """Return what the forward kernels read of the layers' parameters as they are now."""
    first, *others = layers
    outputs, inputs, rows, columns = first.weight.shape
    rounded, patch = first.weight.bfloat16(), inputs * rows * ((columns + 1) // 2)
    # Left and right pixels apart, and a zero where the last pair of a row has no right one.
    weight = functional.pad(rounded, (0, columns % 2)).view(outputs, patch, 2).permute(2, 1, 0)
    weight = functional.pad(weight, (0, _padded(outputs) - outputs, 0, -patch % FORWARD_BYTES["BLOCK_K"]))
    found = [Packed(weight.contiguous(), first.bias.float(), rounded.float().sum((2, 3)).t())]
    for layer in others:
        outputs, patch = layer.weight.shape[0], layer.weight[0].numel()
        weight = layer.weight.bfloat16().permute(2, 3, 1, 0).reshape(patch, outputs)
        weight = functional.pad(weight, (0, _padded(outputs) - outputs, 0, -patch % FORWARD["BLOCK_K"]))
        found.append(Packed(weight.contiguous(), layer.bias.float(), None))
    return found


def convolve(
    frames: torch.Tensor,
    sums: torch.Tensor,
    planes: torch.Tensor,
    layers: list[Layer],
    packed: list[Packed] | None = None,
) -> torch.Tensor:
    """Return what the first layers of a network give for normalized stacks of frames.

    Args:
        frames: [p, h, w], uint8, contiguous
        sums: of the pixels of each plane [p], int64
        planes: which of them are the channels of each image [b, c], int64, from 0 to p - 1 (not checked)
        layers: from `layers_of`
        packed: from `pack`, where the same parameters are used again and again. None: done here

    Returns:
        Activations [b, o, oh, ow] in bfloat16, channels last. Differentiable by the layers' parameters.
    """
    parameters = [tensor for layer in layers for tensor in (layer.weight, layer.bias)]
    found: Any = _Layers.apply(
        frames, sums, planes, tuple((layer.stride, layer.is_elu) for layer in layers), packed, *parameters
    )
    return found


def _layers(parameters: Any, settings: tuple[tuple[int, bool], ...]) -> list[Layer]:
    pairs = zip(parameters[::2], parameters[1::2], settings, strict=True)
    return [Layer(weight, bias, *more) for weight, bias, more in pairs]


def _forward_of_bytes(
    frames: torch.Tensor, means: torch.Tensor, planes: torch.Tensor, layer: Layer, packed: Packed
) -> torch.Tensor:
    shift = packed.bias - means @ packed.sums
    shape = _shape_of_bytes(frames, layer)
    size = _size(frames.shape[1:], layer.weight, layer.stride)
    out = torch.empty(len(planes), *size, shape["O"], dtype=torch.bfloat16, device=frames.device)
    tiles = triton.cdiv(shape["M"], FORWARD_BYTES["BLOCK_M"])
    _forward_bytes[(tiles * len(planes),)](
        _pairs(frames), planes, packed.weight, shift, out, ELU=layer.is_elu, **shape, **FORWARD_BYTES
    )
    return out


def _gradients_of_bytes(
    frames: torch.Tensor, means: torch.Tensor, planes: torch.Tensor, grad: torch.Tensor, layer: Layer
) -> tuple[torch.Tensor, torch.Tensor]:
    outputs, inputs, rows, columns = layer.weight.shape
    shape, count = _shape_of_bytes(frames, layer), len(planes)
    patch = inputs * rows * shape["KP"]
    each = triton.cdiv(count, WEIGHTS_BYTES_PROGRAMS)
    programs, chunks = triton.cdiv(count, each), triton.cdiv(patch, WEIGHTS_BYTES["BLOCK_K"])
    partial = torch.empty(programs, 2, chunks * WEIGHTS_BYTES["BLOCK_K"], shape["OPAD"], device=grad.device)
    sums = torch.empty(count, outputs, device=grad.device)
    _weights_bytes[(chunks, programs)](
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
    _forward[(tiles,)](
        x, packed.weight, packed.bias, out, count, M=size[0] * size[1], ELU=layer.is_elu, **shape, **FORWARD
    )
    return out


def _gradients_of(x: torch.Tensor, grad: torch.Tensor, layer: Layer) -> tuple[torch.Tensor, torch.Tensor]:
    shape = _shape(x, layer)
    outputs, patch = shape["O"], shape["KH"] * shape["KW"] * shape["C"]
    count = grad.numel() // outputs
    each = triton.cdiv(triton.cdiv(count, WEIGHTS["BLOCK_M"]), WEIGHTS_PROGRAMS) * WEIGHTS["BLOCK_M"]
    programs, chunks = triton.cdiv(count, each), triton.cdiv(patch, WEIGHTS["BLOCK_K"])
    partial = torch.empty(programs, chunks * WEIGHTS["BLOCK_K"], shape["OPAD"], device=x.device)
    biases = torch.empty(programs, shape["OPAD"], device=x.device)
    _weights[(chunks, programs)](
        x, grad, partial, biases, count, each, M=grad.shape[1] * grad.shape[2], **shape, **WEIGHTS
    )
    found = partial.sum(0)[:patch, :outputs].view(shape["KH"], shape["KW"], shape["C"], outputs)
    return found.permute(3, 2, 0, 1), biases.sum(0)[:outputs]


def _into_gradient(grad: torch.Tensor, x: torch.Tensor, layer: Layer, given_by_elu: bool) -> torch.Tensor:
    """Overwrite a layer's inputs by their gradient, and return it."""
    weight, stride = layer.weight, layer.stride
    shape = _shape(x, layer)
    outputs, inputs, rows, columns = weight.shape
    taps, wide, padded = triton.cdiv(columns, stride), stride * inputs, _padded(stride * inputs)
    packed = functional.pad(weight.bfloat16(), (0, taps * stride - columns)).view(outputs, inputs, rows, taps, stride)
    packed = packed.permute(2, 3, 0, 4, 1).reshape(rows * taps, outputs, wide)
    packed = functional.pad(packed, (0, padded - wide, 0, shape["OPAD"] - outputs)).contiguous()
    count = len(x) * triton.cdiv(x.shape[1], stride) * triton.cdiv(x.shape[2], stride)
    tiles = triton.cdiv(count, INPUTS["BLOCK_M"])
    _inputs[(tiles, stride)](grad, x, packed, count, OH=grad.shape[1], NPAD=padded, ELU=given_by_elu, **shape, **INPUTS)
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
