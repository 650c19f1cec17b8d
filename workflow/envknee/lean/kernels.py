"""Warp kernels for stacks of camera frames, and the functions that check what is given to them.

One source for CPU and CUDA. Channels first, so that neighbouring threads read and write neighbouring columns. The module imports
no other of the project: an image is built with it, and its kernels (containers/step_once.py).

The arithmetic of normalization is that of Isaac Lab 3.0.0 (isaaclab/utils/images.py, `_normalize_uint8_kernel` and
`_uint8_spatial_mean`): `float32(x) / 255 - float32(sum) / float32(height * width * 255)`. There one thread adds up whole rows
of a plane; here neighbouring threads read neighbouring words.

Where planes are whole words of four pixels, as at almost every resolution, kernels read and write words (those whose names
end in `_words`): several loads are on their way before the first is used, which is what a GPU needs to be as fast as its
memory. All else goes through the plain kernels, pixel by pixel. Both give the same bits.
"""

# What Warp reads as a kernel, Python's type checker cannot: wp.tid() gives as many numbers as are asked for, and operators of
# Warp's numbers exist in kernels only. Functions of one name are overloads there.
# pyright: reportRedeclaration=false
# pyright: reportAssignmentType=false, reportGeneralTypeIssues=false, reportOperatorIssue=false, reportCallIssue=false
# pyright: reportArgumentType=false, reportIndexIssue=false, reportAttributeAccessIssue=false, reportInvalidTypeForm=false

from dataclasses import dataclass
from typing import Any

import torch
import warp as wp

wp.init()  # tensors can only be handed to it afterwards; again does nothing

LANES = 32
"""Neighbouring threads that go through a row or a plane together on a GPU: a warp. On a CPU one thread goes alone."""

STRETCH = 1 << 20
"""Pixels that are added up as int32: their sum stays below 2^20 * 255 < 2^31. Stretches are added up as int64."""

BLOCK = 256
"""Threads of a block on a GPU, which add up a plane together. Warp's default, so that the module is compiled once."""

WORDS = 4
"""Words of a plane that a thread loads before it uses the first."""

QUADS = 2
"""Times four pixels of an image that a thread loads before it uses the first."""

# x / 255, rounded as IEEE 754 says, is x * HIGH + x * LOW for x = 0 ... 255: x * HIGH is exact, so that only the sum is rounded
# to float32's 24 bits, contracted to a fused multiply-add or not. A division would take a GPU several times as long.
HIGH = wp.constant(float.fromhex("0x1.01p-8"))
LOW = wp.constant(float.fromhex("0x1.010102p-24"))

_Taken = wp.types.vector(length=WORDS, dtype=wp.uint32)
_Quads = wp.types.matrix(shape=(QUADS, 4), dtype=wp.uint32)

# Rows of memory, without what Warp's own indexing does for negative indices and strides, and with one access of 8 or 16 bytes for
# four neighbours: a struct that is aligned so is loaded and stored at once, by CUDA's compiler as by the CPU's.
_PUT_FOUR = """
    struct alignas(4 * sizeof(%s)) Four { %s values[4]; } four;
    for (int i = 0; i < 4; ++i) four.values[i] = %s(values[i]);
    reinterpret_cast<Four*>(reinterpret_cast<char*>(out.data) + size_t(row) * out.strides[0])[unsigned(place)] = four;
"""


@wp.func_native("""
    return reinterpret_cast<const wp::uint32*>(
        reinterpret_cast<const char*>(words.data) + size_t(row) * words.strides[0])[unsigned(place)];
""")
def _word(words: wp.array2d(dtype=wp.uint32), row: wp.int32, place: wp.int32) -> wp.uint32: ...


@wp.func_native("""
    reinterpret_cast<wp::uint32*>(
        reinterpret_cast<char*>(words.data) + size_t(row) * words.strides[0])[unsigned(place)] = value;
""")
def _put_word(words: wp.array2d(dtype=wp.uint32), row: wp.int32, place: wp.int32, value: wp.uint32): ...


@wp.func_native("""
    struct alignas(16) Four { wp::uint32 values[4]; };
    const Four four = reinterpret_cast<const Four*>(
        reinterpret_cast<const char*>(words.data) + size_t(row) * words.strides[0])[unsigned(place)];
    return wp::vec4ui(four.values[0], four.values[1], four.values[2], four.values[3]);
""")
def _four_words(words: wp.array2d(dtype=wp.uint32), row: wp.int32, place: wp.int32) -> wp.vec4ui: ...


@wp.func_native(_PUT_FOUR % (("wp::float32",) * 3))
def _put_four(out: wp.array2d(dtype=wp.float32), row: wp.int32, place: wp.int32, values: wp.vec4f): ...


@wp.func_native(_PUT_FOUR % (("wp::bfloat16",) * 3))
def _put_four(out: wp.array2d(dtype=wp.bfloat16), row: wp.int32, place: wp.int32, values: wp.vec4f): ...


@wp.func_native(_PUT_FOUR % (("wp::float16",) * 3))
def _put_four(out: wp.array2d(dtype=wp.float16), row: wp.int32, place: wp.int32, values: wp.vec4f): ...


@wp.func
def _four_pixels(images: wp.array2d(dtype=wp.uint32), env: wp.int32, place: wp.int32, pixel: wp.int32):
    """Return four neighbouring pixels of 3 or 4 bytes, the first channel in the lowest byte of each word."""
    if pixel == 4:
        return _four_words(images, env, place)
    first = _word(images, env, 3 * place)
    second = _word(images, env, 3 * place + 1)
    third = _word(images, env, 3 * place + 2)
    return wp.vec4ui(
        first,
        (first >> wp.uint32(24)) | (second << wp.uint32(8)),
        (second >> wp.uint32(16)) | (third << wp.uint32(16)),
        third >> wp.uint32(8),
    )


@wp.func
def _channel_of(pixels: wp.vec4ui, channel: wp.int32):
    """Return a channel of four pixels as a word of a plane."""
    shift = wp.uint32(8 * channel)
    low = ((pixels[0] >> shift) & wp.uint32(255)) | (((pixels[1] >> shift) & wp.uint32(255)) << wp.uint32(8))
    high = ((pixels[2] >> shift) & wp.uint32(255)) | (((pixels[3] >> shift) & wp.uint32(255)) << wp.uint32(8))
    return low | (high << wp.uint32(16))


@wp.func
def _sum_of_word(word: wp.uint32):
    """Return the sum of four pixels."""
    pairs = (word & wp.uint32(0x00FF00FF)) + ((word >> wp.uint32(8)) & wp.uint32(0x00FF00FF))
    return wp.int32((pairs & wp.uint32(0xFFFF)) + (pairs >> wp.uint32(16)))


@wp.func
def _take(words: wp.array2d(dtype=wp.uint32), row: wp.int32, start: wp.int32, lanes: wp.int32):
    """Return the words of a row that are `lanes` apart; beyond its end the last one, so that no load waits for a branch."""
    taken = _Taken()
    for step in range(WORDS):
        taken[step] = _word(words, row, wp.min(start + step * lanes, words.shape[1] - 1))
    return taken


@wp.func
def _sum_of_row(words: wp.array2d(dtype=wp.uint32), row: wp.int32, lane: wp.int32, lanes: wp.int32):
    """Return a thread's part of the sum of a plane of at most STRETCH pixels."""
    width = words.shape[1]
    total = wp.int32(0)
    for start in range(lane, width, WORDS * lanes):
        taken = _take(words, row, start, lanes)
        for step in range(WORDS):
            if start + step * lanes < width:
                total += _sum_of_word(taken[step])
    return total


@wp.func
def _copy_row(
    words: wp.array2d(dtype=wp.uint32),
    row: wp.int32,
    lane: wp.int32,
    lanes: wp.int32,
    out: wp.array2d(dtype=wp.uint32),
    to: wp.int32,
):
    """Do a thread's part of copying a row."""
    width = words.shape[1]
    for start in range(lane, width, WORDS * lanes):
        taken = _take(words, row, start, lanes)
        for step in range(WORDS):
            if start + step * lanes < width:
                _put_word(out, to, start + step * lanes, taken[step])


@wp.func
def _normalize_row(
    words: wp.array2d(dtype=wp.uint32),
    row: wp.int32,
    mean: wp.float32,
    lane: wp.int32,
    lanes: wp.int32,
    out: wp.array2d(dtype=Any),
    to: wp.int32,
):
    """Do a thread's part of writing `x / 255 - mean` of a plane."""
    width = words.shape[1]
    for start in range(lane, width, WORDS * lanes):
        taken = _take(words, row, start, lanes)
        for step in range(WORDS):
            if start + step * lanes < width:
                values = wp.vec4f()
                for byte in range(4):
                    x = wp.float32((taken[step] >> wp.uint32(8 * byte)) & wp.uint32(255))
                    values[byte] = (x * HIGH + x * LOW) - mean
                _put_four(out, to, start + step * lanes, values)


@wp.func
def _put_image(
    images: wp.array2d(dtype=wp.uint32),
    env: wp.int32,
    pixel: wp.int32,
    channels: wp.int32,
    lane: wp.int32,
    lanes: wp.int32,
    ring: wp.array2d(dtype=wp.uint32),
    row: wp.int32,
    twice: wp.bool,
    stacked: wp.array2d(dtype=wp.uint32),
    to: wp.int32,
):
    """Do a thread's part of putting an image into a row of the ring, and one of the stacks; return its part of the sums."""
    width = ring.shape[1] // channels
    total = wp.vec4i()
    for start in range(lane, width, QUADS * lanes):
        taken = _Quads()
        for step in range(QUADS):
            taken[step] = _four_pixels(images, env, wp.min(start + step * lanes, width - 1), pixel)
        for step in range(QUADS):
            word = start + step * lanes
            if word < width:
                for channel in range(4):
                    if channel < channels:
                        value = _channel_of(taken[step], channel)
                        total[channel] += _sum_of_word(value)
                        _put_word(ring, row, channel * width + word, value)
                        if twice:
                            _put_word(stacked, to, channel * width + word, value)
    return total


@wp.kernel(enable_backward=False)
def _push(
    images: wp.array4d(dtype=Any),
    is_fresh: wp.array(dtype=wp.bool),
    ring: wp.array4d(dtype=Any),
    newest: wp.int32,
    lanes: wp.int32,
    stacked: wp.array4d(dtype=Any),
):
    """Take the newest frames [n, h, w, c], and write the stacks [n, k * c, h, w]; ring [k, n * c, h, w]. dim: n, h, lanes."""
    env, y, lane = wp.tid()
    channels = images.shape[3]
    frames = ring.shape[0]
    fresh = is_fresh[env]
    for x in range(lane, images.shape[2], lanes):
        for channel in range(channels):
            value = images[env, y, x, channel]
            plane = env * channels + channel
            if fresh:
                for place in range(frames):
                    ring[place, plane, y, x] = value
                    stacked[env, place * channels + channel, y, x] = value
            else:
                ring[newest, plane, y, x] = value
                for place in range(frames - 1):
                    older = ring[(newest + 1 + place) % frames, plane, y, x]
                    stacked[env, place * channels + channel, y, x] = older
                stacked[env, (frames - 1) * channels + channel, y, x] = value


@wp.kernel(enable_backward=False)
def _push_words(
    images: wp.array2d(dtype=wp.uint32),
    pixel: wp.int32,
    channels: wp.int32,
    is_fresh: wp.array(dtype=wp.bool),
    ring: wp.array2d(dtype=wp.uint32),
    newest: wp.int32,
    lanes: wp.int32,
    stacked: wp.array2d(dtype=wp.uint32),
):
    """Do what `_push` does, a thread for several words of one frame.

    images [n, h * w * pixel / 4] of 3 or 4 bytes a pixel; ring [k * n, c * h * w / 4]; stacks [n * k, c * h * w / 4].
    dim: n, k, lanes.
    """
    env, place, lane = wp.tid()
    envs = images.shape[0]
    frames = ring.shape[0] // envs
    slot = newest + 1 + place
    if slot >= frames:
        slot -= frames
    row = slot * envs + env
    to = env * frames + place
    if place < frames - 1 and not is_fresh[env]:
        _copy_row(ring, row, lane, lanes, stacked, to)
    else:
        _put_image(images, env, pixel, channels, lane, lanes, ring, row, True, stacked, to)


@wp.kernel(enable_backward=False)
def _take_words(
    images: wp.array2d(dtype=wp.uint32),
    pixel: wp.int32,
    channels: wp.int32,
    is_fresh: wp.array(dtype=wp.bool),
    ring: wp.array2d(dtype=wp.uint32),
    newest: wp.int32,
    lanes: wp.int32,
    sums: wp.array2d(dtype=wp.int64),
):
    """Put the newest frames into the ring as `_push_words` does, and the sums of their planes into sums [k * n, c].

    dim: n, lanes, and a block has as many threads as there are lanes.
    """
    env, lane = wp.tid()
    envs = images.shape[0]
    frames = ring.shape[0] // envs
    row = newest * envs + env
    total = _put_image(images, env, pixel, channels, lane, lanes, ring, row, False, ring, row)
    found = wp.tile_sum(wp.tile(total, preserve_type=True))[0]
    # The sum has waited for the block: each of its threads sees what the others wrote.
    for slot in range(frames):
        if slot == newest or is_fresh[env]:
            if slot != newest:
                _copy_row(ring, row, lane, lanes, ring, slot * envs + env)
            if lane == 0:
                for channel in range(4):
                    if channel < channels:
                        sums[slot * envs + env, channel] = wp.int64(found[channel])


@wp.kernel(enable_backward=False)
def _normalize_ring_words(
    ring: wp.array2d(dtype=wp.uint32),
    sums: wp.array(dtype=wp.int64),
    envs: wp.int32,
    channels: wp.int32,
    newest: wp.int32,
    scale: wp.float32,
    lanes: wp.int32,
    out: wp.array2d(dtype=Any),
):
    """Write the normalized stacks [n * k * c, h * w] of a ring [k * n * c, h * w / 4] whose sums are known. dim: n, k * c, lanes."""
    env, layer, lane = wp.tid()
    planes = envs * channels
    frames = ring.shape[0] // planes
    place = layer // channels
    slot = newest + 1 + place
    if slot >= frames:
        slot -= frames
    row = slot * planes + env * channels + layer - place * channels
    _normalize_row(ring, row, wp.float32(sums[row]) / scale, lane, lanes, out, env * frames * channels + layer)


@wp.kernel(enable_backward=False)
def _add_up_words(planes: wp.array2d(dtype=wp.uint32), lanes: wp.int32, sums: wp.array(dtype=wp.int64)):
    """Write the sums of planes [p, h * w / 4] of at most STRETCH pixels to sums [p]. dim: p, lanes, and so is a block."""
    plane, lane = wp.tid()
    total = wp.tile_sum(wp.tile(_sum_of_row(planes, plane, lane, lanes)))[0]
    if lane == 0:
        sums[plane] = wp.int64(total)


@wp.kernel(enable_backward=False)
def _normalize_words(
    planes: wp.array2d(dtype=wp.uint32),
    scale: wp.float32,
    lanes: wp.int32,
    out: wp.array2d(dtype=Any),
):
    """Write `x / 255 - sum / scale` of planes [p, h * w / 4] of at most STRETCH pixels. dim: p, lanes, and so is a block.

    A block reads its plane twice, the second time from a cache.
    """
    plane, lane = wp.tid()
    total = wp.tile_sum(wp.tile(_sum_of_row(planes, plane, lane, lanes)))[0]
    _normalize_row(planes, plane, wp.float32(total) / scale, lane, lanes, out, plane)


@wp.kernel(enable_backward=False)
def _gather_normalized_words(
    frames: wp.array2d(dtype=wp.uint32),
    sums: wp.array(dtype=wp.int64),
    history: wp.array2d(dtype=wp.uint8),
    places: wp.array(dtype=wp.int64),
    channels: wp.int32,
    stacked: wp.int32,
    scale: wp.float32,
    lanes: wp.int32,
    out: wp.array2d(dtype=Any),
):
    """Do what `_gather_normalized` does, for stacks as they are: frames [(t + k - 1) * n * c, h * w / 4], out [b * k * c, h * w].

    dim: b, k * c, lanes.
    """
    row, layer, lane = wp.tid()
    frame = layer // channels
    plane = _frame_of(history, wp.int32(places[row]), frame, stacked) * channels + layer - frame * channels
    mean = wp.float32(sums[plane]) / scale
    _normalize_row(frames, plane, mean, lane, lanes, out, row * stacked * channels + layer)


@wp.kernel(enable_backward=False)
def _gather_words(
    frames: wp.array2d(dtype=wp.uint32),
    history: wp.array2d(dtype=wp.uint8),
    places: wp.array(dtype=wp.int64),
    stacked: wp.int32,
    lanes: wp.int32,
    out: wp.array2d(dtype=wp.uint32),
):
    """Write the stacks [b * k, c * h * w / 4] of transitions, from frames [(t + k - 1) * n, c * h * w / 4]. dim: b, k, lanes."""
    row, place, lane = wp.tid()
    frame = _frame_of(history, wp.int32(places[row]), place, stacked)
    _copy_row(frames, frame, lane, lanes, out, row * stacked + place)


@wp.func
def _frame_of(history: wp.array2d(dtype=wp.uint8), transition: wp.int32, place: wp.int32, stacked: wp.int32):
    """Return which frame, step * n + env, is at a place of a transition's stack."""
    envs = history.shape[1]
    step = transition // envs
    env = transition - step * envs
    back = wp.min(stacked - 1 - place, wp.int32(history[step, env]))
    return (step + stacked - 1 - back) * envs + env


@wp.kernel(enable_backward=False)
def _add_up(planes: wp.array2d(dtype=wp.uint8), stretch: wp.int32, lanes: wp.int32, sums: wp.array(dtype=wp.int64)):
    """Add the pixels of planes [p, h * w] to sums [p]. dim: p, stretches, lanes."""
    plane, part, lane = wp.tid()
    end = wp.min((part + 1) * stretch, planes.shape[1])
    total = wp.int32(0)
    for pixel in range(part * stretch + lane, end, lanes):
        total += wp.int32(planes[plane, pixel])
    wp.atomic_add(sums, plane, wp.int64(total))


@wp.kernel(enable_backward=False)
def _normalize(
    planes: wp.array2d(dtype=wp.uint8),
    sums: wp.array(dtype=wp.int64),
    scale: wp.float32,
    lanes: wp.int32,
    out: wp.array2d(dtype=Any),
):
    """Write `x / 255 - sum / scale` of planes [p, h * w]. dim: p, lanes."""
    plane, lane = wp.tid()
    mean = wp.float32(sums[plane]) / scale
    for pixel in range(lane, planes.shape[1], lanes):
        out[plane, pixel] = out.dtype(wp.float32(planes[plane, pixel]) / 255.0 - mean)


@wp.kernel(enable_backward=False)
def _gather_normalized(
    frames: wp.array4d(dtype=wp.uint8),
    sums: wp.array2d(dtype=wp.int64),
    history: wp.array2d(dtype=wp.uint8),
    places: wp.array(dtype=wp.int64),
    channels: wp.int32,
    stacked: wp.int32,
    scale: wp.float32,
    lanes: wp.int32,
    channels_last: wp.bool,
    bits: wp.int32,
    out: wp.array4d(dtype=Any),
):
    """Write the normalized stacks of transitions at `places` (step * n + env).

    frames [t + k - 1, n * c, h, w] hold each frame once, the one of step t at t + k - 1; history [t, n] tells how many of
    the k - 1 frames before it belong to the same episode. out [b, l * f * f, H / f, W / f] has l = k * c layers, each of
    H x W pixels folded by f = 2^bits; what of H x W is not in h x w is zero.

    dim: b, l, lanes, or with channels last b, lanes, l: neighbouring threads write neighbouring numbers.
    """
    row, layer, lane = wp.tid()
    if channels_last:
        turned = layer
        layer = lane
        lane = turned
    fold = wp.int32(1) << bits
    place = layer // channels
    frame = _frame_of(history, wp.int32(places[row]), place, stacked)
    plane = layer - place * channels + (frame % history.shape[1]) * channels
    frame = frame // history.shape[1]
    mean = wp.float32(sums[frame, plane]) / scale
    for y in range(out.shape[2] << bits):
        for x in range(lane, out.shape[3] << bits, lanes):
            value = wp.float32(0.0)
            if y < frames.shape[2] and x < frames.shape[3]:
                value = wp.float32(frames[frame, plane, y, x]) / 255.0 - mean
            part = (layer * fold + (y & (fold - 1))) * fold + (x & (fold - 1))
            out[row, part, y >> bits, x >> bits] = out.dtype(value)


# All that is ever launched, so that it is compiled at once: each dtype that came later would compile the module again.
for _kind in (wp.uint8, wp.float32):
    _four = wp.array4d(dtype=_kind)
    wp.overload(_push, {"images": _four, "ring": _four, "stacked": _four})
_INTO: dict[tuple[Any, torch.dtype], Any] = {}
"""Kernels of words by what they write."""
for _kind, _dtype in ((wp.float32, torch.float32), (wp.bfloat16, torch.bfloat16), (wp.float16, torch.float16)):
    wp.overload(_normalize, {"out": wp.array2d(dtype=_kind)})
    wp.overload(_gather_normalized, {"out": wp.array4d(dtype=_kind)})
    for _kernel in (_normalize_ring_words, _normalize_words, _gather_normalized_words):
        _INTO[_kernel, _dtype] = wp.overload(_kernel, {"out": wp.array2d(dtype=_kind)})


def check_tensor(
    name: str,
    tensor: torch.Tensor,
    dtypes: tuple[torch.dtype, ...],
    shape: tuple[int | None, ...],
    device: torch.device,
    contiguous: bool = True,
) -> None:
    """Check a tensor against what a kernel takes; None stands for any positive size.

    Raises:
        TypeError: for a wrong dtype, naming the tensor.
        ValueError: for a wrong rank, size, device or order in memory, naming tensor and shape.
    """
    if tensor.dtype not in dtypes:
        expected = " or ".join(str(dtype).removeprefix("torch.") for dtype in dtypes)
        raise TypeError(
            f"{name} of shape {tuple(tensor.shape)} has dtype {str(tensor.dtype).removeprefix('torch.')},"
            f" expected {expected}"
        )
    fits = len(shape) == tensor.ndim and all(
        have > 0 and want in (None, have) for want, have in zip(shape, tensor.shape, strict=True)
    )
    if not fits:
        wanted = ", ".join("any" if size is None else str(size) for size in shape)
        raise ValueError(f"{name} has shape {tuple(tensor.shape)}, expected ({wanted}), none of them 0")
    if tensor.device != device:
        raise ValueError(f"{name} of shape {tuple(tensor.shape)} is on {tensor.device}, expected {device}")
    if contiguous and not tensor.is_contiguous():
        raise ValueError(f"{name} of shape {tuple(tensor.shape)} is not contiguous: call .contiguous() on it")


def check_indices(name: str, indices: torch.Tensor, count: int) -> None:
    """Check that integers [any] are from 0 to `count` - 1.

    Raises:
        IndexError: names the tensor, its shape and the first that is not. On a GPU nothing waits for the answer: there
            CUDA stops with this message (a device-side assertion), and what follows raises.
    """
    inside = indices == indices.clamp(0, count - 1)
    if not indices.is_cuda:
        if not inside.all():
            found = indices[~inside][0].item()
            raise IndexError(f"{name} of shape {tuple(indices.shape)} holds {found}, expected 0 to {count - 1}")
        return
    torch.ops.aten._assert_async.msg(
        inside.all(), f"{name} of shape {tuple(indices.shape)} holds one outside 0 to {count - 1}"
    )


@torch.library.custom_op("envknee::push", mutates_args=("ring", "stacked"))
def push(images: torch.Tensor, is_fresh: torch.Tensor, ring: torch.Tensor, newest: int, stacked: torch.Tensor) -> None:
    """Put the newest frames into a ring, and write the stacks oldest to newest.

    Args:
        images: the newest frames [n, h, w, c], of the ring's dtype; may be strided, as the RGB part of RGBA is
        is_fresh: environments [n] whose whole history becomes this frame (bool)
        ring: the newest k frames of each environment [k, n * c, h, w], written
        newest: where in the ring this frame goes; the oldest is then at `newest + 1`, modulo k
        stacked: [n, k * c, h, w], written
    """
    n, _, _, channels = images.shape
    pixels = _pixels(images)
    if pixels is not None and _are_words(ring) and _are_words(stacked):
        words = ring[0].numel() // ring.shape[1] // 4
        lanes = _lanes_for(words, QUADS, ring)
        _launch(
            _push_words,
            (n, stacked.shape[1] // channels, lanes),
            [*pixels, channels, _array(is_fresh), _words(ring, channels), newest, lanes, _words(stacked, channels)],
            images.device,
        )
        return
    kind, lanes = wp.dtype_from_torch(images.dtype), _lanes(images)
    _launch(
        _push,
        (n, images.shape[1], lanes),
        [_warp(images, kind), _warp(is_fresh, wp.bool), _warp(ring, kind), newest, lanes, _warp(stacked, kind)],
        images.device,
    )


@torch.library.custom_op("envknee::push_normalized", mutates_args=("ring", "sums"))
def push_normalized(
    images: torch.Tensor,
    is_fresh: torch.Tensor,
    ring: torch.Tensor,
    newest: int,
    sums: torch.Tensor,
    dtype: torch.dtype,
) -> torch.Tensor:
    """Put the newest frames into a ring, and return the normalized stacks: `push` and `normalized` in one, to the bit.

    Args:
        images: as for `push`, uint8
        is_fresh: as for `push`
        ring: as for `push`
        newest: as for `push`
        sums: of the ring's planes, which must be those of the k - 1 older frames [k, n * c] (int64), written
        dtype: of the result: float32, bfloat16 or float16

    Returns:
        A new tensor [n, k * c, h, w].
    """
    n, height, width, channels = images.shape
    frames, pixels = len(ring), _pixels(images)
    keeps_sums = _are_words(ring) and height * width <= STRETCH
    if pixels is None or not keeps_sums:
        stacked = images.new_empty((n, frames * channels, height, width))
        push(images, is_fresh, ring, newest, stacked)
        if keeps_sums:  # the next images may be whole words
            _plane_sums(ring.view(-1, height * width), sums.view(-1))
        return _normalized(stacked, dtype)
    out = images.new_empty((n, frames * channels, height, width), dtype=dtype)
    _launch(
        _take_words,
        (n, _block(images)),
        [
            *pixels, channels, _array(is_fresh), _words(ring, channels), newest, _block(images),
            _array(sums.view(-1, channels)),
        ],
        images.device,
    )  # fmt: skip
    lanes = _lanes_for(height * width // 4, WORDS, images)
    _launch(
        _INTO[_normalize_ring_words, dtype],
        (n, frames * channels, lanes),
        [
            _words(ring, 1), _array(sums.view(-1)), n, channels, newest, height * width * 255.0, lanes,
            _array(out.view(-1, height * width)),
        ],
        images.device,
    )  # fmt: skip
    return out


@push_normalized.register_fake
def _(
    images: torch.Tensor,
    is_fresh: torch.Tensor,
    ring: torch.Tensor,
    newest: int,
    sums: torch.Tensor,
    dtype: torch.dtype,
) -> torch.Tensor:
    n, height, width, channels = images.shape
    return images.new_empty((n, len(ring) * channels, height, width), dtype=dtype)


def plane_sums(planes: torch.Tensor, sums: torch.Tensor) -> None:
    """Write the sum of each plane of uint8 pixels [p, h * w] to sums [p] (int64): exact at any resolution.

    Raises:
        TypeError, ValueError: for a tensor of another dtype, shape or device, naming it.
    """
    check_tensor("planes", planes, (torch.uint8,), (None, None), planes.device)
    check_tensor("sums", sums, (torch.int64,), (len(planes),), planes.device)
    _plane_sums(planes, sums)


@torch.library.custom_op("envknee::plane_sums", mutates_args=("sums",))
def _plane_sums(planes: torch.Tensor, sums: torch.Tensor) -> None:
    if _are_words(planes) and planes.shape[1] <= STRETCH:
        block = _block(planes)
        _launch(_add_up_words, (len(planes), block), [_words(planes, 1), block, _array(sums)], planes.device)
        return
    sums.zero_()
    parts, lanes = -(-planes.shape[1] // STRETCH), _lanes(planes)
    _launch(
        _add_up,
        (planes.shape[0], parts, lanes),
        [_warp(planes, wp.uint8), STRETCH, lanes, _warp(sums, wp.int64)],
        planes.device,
    )


def normalized(stacked: torch.Tensor, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Return `x / 255 - mean` of uint8 images, the mean over each image's channel.

    Args:
        stacked: [n, c, h, w], uint8, contiguous
        dtype: of the result: float32 (Isaac Lab's `normalize_rgb` to the bit), bfloat16 or float16

    Returns:
        A new tensor [n, c, h, w].

    Raises:
        TypeError: for another dtype than uint8, or a result of another one than those.
        ValueError: for another rank, an empty dimension, or images that are not contiguous.
    """
    check_tensor("images", stacked, (torch.uint8,), (None, None, None, None), stacked.device)
    check_result(dtype)
    return _normalized(stacked, dtype)


@torch.library.custom_op("envknee::normalized", mutates_args=())
def _normalized(stacked: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    planes = stacked.view(-1, stacked.shape[2] * stacked.shape[3])
    if _are_words(stacked) and planes.shape[1] <= STRETCH:
        out, block = torch.empty_like(stacked, dtype=dtype), _block(stacked)
        _launch(
            _INTO[_normalize_words, dtype],
            (len(planes), block),
            [_words(stacked, 1), planes.shape[1] * 255.0, block, _array(out.view(planes.shape))],
            stacked.device,
        )
        return out
    sums = torch.empty(len(planes), dtype=torch.int64, device=stacked.device)
    _plane_sums(planes, sums)
    out, lanes = torch.empty_like(stacked, dtype=dtype), _lanes(stacked)
    _launch(
        _normalize,
        (planes.shape[0], lanes),
        [
            _warp(planes, wp.uint8),
            _warp(sums, wp.int64),
            planes.shape[1] * 255.0,
            lanes,
            _warp(out.view(planes.shape), wp.dtype_from_torch(dtype)),
        ],
        stacked.device,
    )
    return out


@_normalized.register_fake
def _(stacked: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return torch.empty_like(stacked, dtype=dtype)


@dataclass(frozen=True)
class Layout:
    """How normalized stacks [b, k * c, h, w] lie in memory, for the convolution that reads them."""

    dtype: torch.dtype = torch.float32
    """float32, bfloat16 or float16."""

    channels_last: bool = False
    """Whether the channels of a pixel are neighbours (torch.channels_last)."""

    size: tuple[int, int] | None = None
    """Height and width that images are cut or, with zeros at their ends, extended to. None: as they are."""

    fold: int = 1
    """How many rows and columns become channels, as `torch.nn.functional.pixel_unshuffle` does it: 1, 2 or 4."""


PLAIN = Layout()
"""As Isaac Lab gives observations: float32, one channel after the other."""


def gather_normalized(
    frames: torch.Tensor,
    sums: torch.Tensor,
    history: torch.Tensor,
    places: torch.Tensor,
    stacked: int,
    layout: Layout = PLAIN,
) -> torch.Tensor:
    """Return the normalized stacks of some transitions of a rollout that holds each frame once.

    Args:
        frames: [t + k - 1, n, c, h, w], uint8, contiguous: the frame of step s at s + k - 1
        sums: of each frame's channels [t + k - 1, n, c], int64, from `plane_sums`
        history: how many of the k - 1 frames before belong to the same episode [t, n], uint8; what lies further back is
            filled with the oldest that does, as Isaac Lab fills it on reset
        places: transitions [b] (int64), step * n + environment
        stacked: k
        layout: of the result

    Returns:
        A new tensor [b, k * c, h, w], oldest frame first; [b, k * c * f * f, H / f, W / f] with a layout of size H x W and
        fold f.

    Raises:
        TypeError, ValueError: for a tensor of another dtype, shape or device, naming it.
        IndexError: for a place that is not in the rollout (on a GPU: see `check_indices`).
    """
    check_tensor("frames", frames, (torch.uint8,), (None,) * 5, frames.device)
    steps, envs, channels, height, width = frames.shape
    if not 1 <= stacked <= steps:
        raise ValueError(
            f"stacked is {stacked}, expected 1 to {steps}, the steps that frames of shape {tuple(frames.shape)} hold"
        )
    check_tensor("sums", sums, (torch.int64,), (steps, envs, channels), frames.device)
    check_tensor("history", history, (torch.uint8,), (steps - stacked + 1, envs), frames.device)
    check_tensor("places", places, (torch.int64,), (None,), frames.device)
    check_result(layout.dtype)
    rows, columns = layout.size or (height, width)
    if layout.fold not in (1, 2, 4) or rows % layout.fold or columns % layout.fold:
        raise ValueError(f"{layout} does not fit stacks of {stacked} frames of shape {tuple(frames.shape)}")
    return _gather_normalized_op(
        frames, sums, history, places, stacked, layout.dtype, rows, columns, layout.fold, layout.channels_last
    )


@torch.library.custom_op("envknee::gather_normalized", mutates_args=())
def _gather_normalized_op(
    frames: torch.Tensor,
    sums: torch.Tensor,
    history: torch.Tensor,
    places: torch.Tensor,
    stacked: int,
    dtype: torch.dtype,
    rows: int,
    columns: int,
    fold: int,
    channels_last: bool,
) -> torch.Tensor:
    check_indices("places", places, history.numel())
    steps, envs, channels, height, width = frames.shape
    layers = stacked * channels
    out, lanes = _gathered(places, dtype, layers, rows, columns, fold, channels_last), _lanes(frames)
    as_they_are = (rows, columns, fold) == (height, width, 1) and not channels_last
    if as_they_are and _are_words(frames) and history.numel() < 2**31:
        lanes = _lanes_for(height * width // 4, WORDS, frames)
        _launch(
            _INTO[_gather_normalized_words, dtype],
            (len(places), layers, lanes),
            [
                _words(frames, 1), _array(sums.view(-1)), _array(history), _array(places), channels, stacked,
                height * width * 255.0, lanes, _array(out.view(-1, height * width)),
            ],
            frames.device,
        )  # fmt: skip
        return out
    _launch(
        _gather_normalized,
        (len(places), lanes, layers) if channels_last else (len(places), layers, lanes),
        [
            _warp(frames.view(steps, envs * channels, height, width), wp.uint8),
            _warp(sums.view(steps, -1), wp.int64),
            _warp(history, wp.uint8),
            _warp(places, wp.int64),
            channels,
            stacked,
            height * width * 255.0,
            lanes,
            channels_last,
            fold.bit_length() - 1,
            _warp(out, wp.dtype_from_torch(dtype)),
        ],
        frames.device,
    )
    return out


@_gather_normalized_op.register_fake
def _(
    frames: torch.Tensor,
    sums: torch.Tensor,
    history: torch.Tensor,
    places: torch.Tensor,
    stacked: int,
    dtype: torch.dtype,
    rows: int,
    columns: int,
    fold: int,
    channels_last: bool,
) -> torch.Tensor:
    return _gathered(places, dtype, stacked * frames.shape[2], rows, columns, fold, channels_last)


def gather(frames: torch.Tensor, history: torch.Tensor, places: torch.Tensor, stacked: int) -> torch.Tensor:
    """Return the stacks of some transitions as they were taken: what `gather_normalized` does, for frames of any dtype.

    Args:
        frames: [t + k - 1, n, c, h, w]: the frame of step s at s + k - 1
        history: as for `gather_normalized` [t, n], uint8
        places: transitions [b] (int64), step * n + environment
        stacked: k

    Returns:
        A new tensor [b, k * c, h, w], oldest frame first.

    Raises:
        IndexError: for a place that is not in the rollout (on a GPU: CUDA's assertion).
    """
    if frames.dtype == torch.uint8 and frames.is_contiguous() and places.dtype == torch.int64:
        return _gather_bytes(frames, history, places, stacked)
    return _gather_by_index(frames, history, places, stacked)


@torch.library.custom_op("envknee::gather_bytes", mutates_args=())
def _gather_bytes(frames: torch.Tensor, history: torch.Tensor, places: torch.Tensor, stacked: int) -> torch.Tensor:
    if not _are_words(frames) or history.numel() >= 2**31:
        return _gather_by_index(frames, history, places, stacked)
    check_indices("places", places, history.numel())
    channels, height, width = frames.shape[2:]
    out = frames.new_empty((len(places), stacked * channels, height, width))
    lanes = _lanes_for(channels * height * width // 4, WORDS, frames)
    _launch(
        _gather_words,
        (len(places), stacked, lanes),
        [_words(frames, channels), _array(history), _array(places), stacked, lanes, _words(out, channels)],
        frames.device,
    )
    return out


@_gather_bytes.register_fake
def _(frames: torch.Tensor, history: torch.Tensor, places: torch.Tensor, stacked: int) -> torch.Tensor:
    channels, height, width = frames.shape[2:]
    return frames.new_empty((len(places), stacked * channels, height, width))


def _gather_by_index(frames: torch.Tensor, history: torch.Tensor, places: torch.Tensor, stacked: int) -> torch.Tensor:
    envs = history.shape[1]
    back = torch.arange(stacked - 1, -1, -1, device=places.device)
    back = torch.minimum(back, history.view(-1)[places].unsqueeze(1))
    steps, environments = (places // envs).unsqueeze(1), (places % envs).unsqueeze(1)
    return frames[steps + stacked - 1 - back, environments].flatten(1, 2)


def _gathered(
    places: torch.Tensor, dtype: torch.dtype, layers: int, rows: int, columns: int, fold: int, channels_last: bool
) -> torch.Tensor:
    order = torch.channels_last if channels_last else torch.contiguous_format
    shape = (len(places), layers * fold * fold, rows // fold, columns // fold)
    return torch.empty(shape, dtype=dtype, device=places.device, memory_format=order)


def check_result(dtype: torch.dtype) -> None:
    """Check a dtype that normalized images are to have.

    Raises:
        TypeError: for another than float32, bfloat16 or float16.
    """
    if dtype not in (torch.float32, torch.bfloat16, torch.float16):
        raise TypeError(f"dtype is {str(dtype).removeprefix('torch.')}, expected float32, bfloat16 or float16")


def _lanes(tensor: torch.Tensor) -> int:
    return LANES if tensor.is_cuda else 1


def _block(tensor: torch.Tensor) -> int:
    return BLOCK if tensor.is_cuda else 1


def _lanes_for(words: int, at_once: int, tensor: torch.Tensor) -> int:
    """Return how many threads share a row of so many words, each taking `at_once`. On a CPU one thread goes alone."""
    return -(-words // at_once) if tensor.is_cuda else 1


def _are_words(tensor: torch.Tensor) -> bool:
    """Return whether planes [..., h, w] or [..., h * w], one after the other in memory, are whole words of four bytes."""
    plane = tensor.shape[-1] if tensor.ndim == 2 else tensor.shape[-1] * tensor.shape[-2]
    return (
        tensor.dtype == torch.uint8
        and plane % 4 == 0
        and tensor.storage_offset() % 4 == 0
        and tensor.data_ptr() % 4 == 0
    )


def _pixels(images: torch.Tensor) -> tuple[Any, int] | None:
    """Return images [n, h, w, c] as words [n, h * w * p / 4] and p, bytes from pixel to pixel: 3 or 4. None if they are no such.

    RGB that is a view of RGBA is: what lies between its pixels is read, too.
    """
    n, height, width, channels = images.shape
    env, row, pixel, channel = images.stride()
    size = height * width * pixel
    even = 16 if pixel == 4 else 4  # bytes that are read at once
    if (
        images.dtype != torch.uint8
        or pixel not in (3, 4)
        or channels > pixel
        or (row, channel) != (width * pixel, 1)
        or height * width % 4
        or env % even
        or images.storage_offset() % 4
        or images.data_ptr() % even
        or images.storage_offset() + (n - 1) * env + size > images.untyped_storage().nbytes()
    ):
        return None
    return _array(images.as_strided((n, size), (env, 1)).view(torch.int32), wp.uint32), pixel


def _words(tensor: torch.Tensor, planes: int) -> Any:
    """Return the words of a contiguous tensor of bytes [..., h, w] or [..., h * w], so many planes in a row."""
    plane = tensor.shape[-1] if tensor.ndim == 2 else tensor.shape[-1] * tensor.shape[-2]
    return _array(tensor.view(-1, planes * plane).view(torch.int32), wp.uint32)


def _array(tensor: torch.Tensor, kind: Any = None) -> Any:
    """Return what a kernel takes that is not generic: quicker to make than `_warp`'s, by some microseconds for each launch."""
    return wp.from_torch(tensor, dtype=kind, requires_grad=False, return_ctype=True)


def _warp(tensor: torch.Tensor, kind: Any) -> wp.array:
    return wp.from_torch(tensor, dtype=kind, requires_grad=False)


def _launch(kernel: Any, dim: tuple[int, ...], words: list[Any], device: torch.device) -> None:
    """Launch a kernel where PyTorch's own kernels go now: on another stream, or in a CUDA graph that is captured."""
    stream = None
    if device.type == "cuda" and torch.cuda.current_stream(device).cuda_stream:
        stream = wp.stream_from_torch(device)
    wp.launch(kernel, dim=dim, inputs=words, device=str(device), stream=stream, block_dim=BLOCK)
