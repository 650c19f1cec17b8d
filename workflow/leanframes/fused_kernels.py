"""Triton kernels of `fused`: convolutions of bytes and of bfloat16, forward and backward, as implicit GEMM.

Sizes in capitals are compile-time constants. Importing this module needs Triton.
"""

# Names of sizes are capitals, as in formulas.
# ruff: noqa: N803, N806, E741

# Python's type checker takes Triton's kernels for functions.
# pyright: reportArgumentType=false, reportCallIssue=false, reportIndexIssue=false, reportOperatorIssue=false
# pyright: reportAttributeAccessIssue=false, reportMissingImports=false, reportGeneralTypeIssues=false
# pyright: reportMissingParameterType=false

import triton
import triton.language as tl


@triton.jit
def _two_numbers(pairs):
    """Return the low and the high bytes of int16 as bfloat16, exactly.

    2^23 + byte is a float32 whose lowest bits are the byte. A byte as float32 fits into its upper half, which is bfloat16.
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
def forward_bytes(
    pairs, planes, weight, shift, out,
    HALF: tl.constexpr, HW_HALF: tl.constexpr, OW: tl.constexpr, M: tl.constexpr, S: tl.constexpr,
    L: tl.constexpr, KH: tl.constexpr, KP: tl.constexpr, O: tl.constexpr, OPAD: tl.constexpr, ELU: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Write a tile of an image's output pixels, out [b, M, O].

    It reads pairs of neighbouring pixels: pairs [p, h, w / 2], int16; planes [b, L]. A patch has Q = L * KH * KP pairs, and
    weight [2, at least Q, OPAD] has a row for the left and one for the right pixel of each. out = activation(sum / 255 + shift [b, O]).
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
def _places(M: tl.constexpr, O: tl.constexpr, OPAD: tl.constexpr, BLOCK_M: tl.constexpr):
    """Return where a program's numbers are in [b, M, O], and which exist; then the same for [b, O, M]."""
    start = tl.program_id(0).to(tl.int64) * M * O
    m, o = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, OPAD)
    inside, turned_inside = (m < M)[:, None] & (o < O)[None, :], (o < O)[:, None] & (m < M)[None, :]
    return start + m[:, None] * O + o[None, :], inside, start + o[:, None] * M + m[None, :], turned_inside


@triton.jit
def flatten(images, flat, M: tl.constexpr, O: tl.constexpr, OPAD: tl.constexpr, BLOCK_M: tl.constexpr):
    """Write images [b, M, O] to flat [b, O, M] as float32. grid: b, tiles of M."""
    place, inside, turned, turned_inside = _places(M, O, OPAD, BLOCK_M)
    values = tl.load(images + place, mask=inside, other=0.0).to(tl.float32)
    tl.store(flat + turned, tl.trans(values), mask=turned_inside)


@triton.jit
def unflatten(
    images, flat,
    M: tl.constexpr, O: tl.constexpr, OPAD: tl.constexpr, BLOCK_M: tl.constexpr, ELU: tl.constexpr,
):  # fmt: skip
    """Overwrite activations images [b, M, O] by their gradient flat [b, O, M] times the activation's slope. grid: b, tiles of M."""
    place, inside, turned, turned_inside = _places(M, O, OPAD, BLOCK_M)
    gradient = tl.trans(tl.load(flat + turned, mask=turned_inside, other=0.0))
    given = tl.load(images + place, mask=inside, other=0.0).to(tl.float32)
    slope = tl.where(given > 0.0, 1.0, given + 1.0) if ELU else tl.where(given > 0.0, 1.0, 0.0)
    tl.store(images + place, (gradient * slope).to(tl.bfloat16), mask=inside)


@triton.jit
def weights_bytes(
    pairs, planes, grad, partial, sums, count, per_program,
    HALF: tl.constexpr, HW_HALF: tl.constexpr, OW: tl.constexpr, M: tl.constexpr, S: tl.constexpr,
    L: tl.constexpr, KH: tl.constexpr, KP: tl.constexpr, O: tl.constexpr, OPAD: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Sum bytes x gradient over a program's images: partial [programs, 2, padded Q, OPAD]; and each image's gradient: sums [b, O].

    grad [b, M, O] includes the activation's slope. grid: chunks of Q, programs.
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
def forward(
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
def weights(
    x, grad, partial, count, per_program,
    H: tl.constexpr, W: tl.constexpr, C: tl.constexpr, OW: tl.constexpr, M: tl.constexpr, S: tl.constexpr,
    KH: tl.constexpr, KW: tl.constexpr, O: tl.constexpr, OPAD: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Sum patches x gradient over a program's output pixels, and below them the gradient: partial [programs, padded K + 1, OPAD].

    grad [b * M, O] includes the activation's slope. grid: chunks of K, programs.
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
    start = partial + program * (rows + 1) * OPAD
    tl.store(start + k[:, None] * OPAD + o[None, :], acc)
    if chunk == 0:
        tl.store(start + rows * OPAD + o, total)


@triton.jit
def inputs(
    grad, x, weight, count,
    H: tl.constexpr, W: tl.constexpr, C: tl.constexpr, OH: tl.constexpr, OW: tl.constexpr, S: tl.constexpr,
    KH: tl.constexpr, KW: tl.constexpr, O: tl.constexpr, OPAD: tl.constexpr, NPAD: tl.constexpr, ELU: tl.constexpr,
    BLOCK_M: tl.constexpr,
):  # fmt: skip
    """Overwrite a layer's inputs x [b, H, W, C] by their gradient times the slope of the activation that produced them.

    That is safe: only the program that writes an element reads it, and it reads first. A program computes S neighbouring columns
    together, for rows of one phase py = y mod S, which only the taps ky = py, py + S, ... reach.
    weight [KH * TX, OPAD, NPAD]: [ky * TX + tx, o, px * C + c] is the weight of output o, input channel c and tap (ky, px + S * tx).
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


@triton.jit
def rearrange(source, places, out, count, BLOCK: tl.constexpr):
    """Write the numbers of `source` at places [count] to out [count], in its dtype; 0 where a place is negative. grid: blocks of count."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    place = tl.load(places + i, mask=i < count, other=-1)
    tl.store(out + i, tl.load(source + place, mask=place >= 0, other=0.0).to(out.dtype.element_ty), mask=i < count)


@triton.jit
def add_up(
    partial, places, corrections, out, count, width, scale, PATCH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):  # fmt: skip
    """Add up rows of numbers, partial [count, width], times `scale`, and write each sum to its place in `out`, if that is not negative.

    PATCH: numbers of `out` from which the same correction is subtracted, corrections [size of out / PATCH]; 0: none is.
    grid: blocks of width.
    """
    j = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    acc = tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in range(0, count, ROWS):
        row = start + tl.arange(0, ROWS)
        inside = (row < count)[:, None] & (j < width)[None, :]
        acc += tl.load(partial + row[:, None] * width + j[None, :], mask=inside, other=0.0)
    total = tl.sum(acc, axis=0) * scale
    place = tl.load(places + j, mask=j < width, other=-1)
    if PATCH > 0:
        total -= tl.load(corrections + place // PATCH, mask=place >= 0, other=0.0)
    tl.store(out + place, total, mask=place >= 0)


@triton.jit
def shifts(
    sums, planes, weight, bias, means, out, count, scale,
    C: tl.constexpr, T: tl.constexpr, TPAD: tl.constexpr, O: tl.constexpr, OPAD: tl.constexpr, HALF: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Write the means of each image's planes, means [count, C] = sums[planes] / scale, and what they take from its outputs.

    out [count, O] = bias - sum over channels of mean x the sum of the channel's T weights, rounded to float16 (HALF) or bfloat16, as the
    convolution rounds them: weight [O, C, T], float32. grid: blocks of count.
    """
    n = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    o, t = tl.arange(0, OPAD), tl.arange(0, TPAD)
    acc = tl.zeros((BLOCK, OPAD), tl.float32) + tl.load(bias + o, mask=o < O, other=0.0)[None, :]
    for c in tl.static_range(C):
        place = (o * C + c)[:, None] * T + t[None, :]
        taps = tl.load(weight + place, mask=(o < O)[:, None] & (t < T)[None, :], other=0.0)
        rounded = taps.to(tl.float16) if HALF else taps.to(tl.bfloat16)
        plane = tl.load(planes + n * C + c, mask=n < count, other=0)
        mean = tl.load(sums + plane, mask=n < count, other=0).to(tl.float32) / scale
        tl.store(means + n * C + c, mean, mask=n < count)
        acc -= mean[:, None] * tl.sum(rounded.to(tl.float32), axis=1)[None, :]
    tl.store(out + n[:, None] * O + o[None, :], acc, mask=(n < count)[:, None] & (o < O)[None, :])
