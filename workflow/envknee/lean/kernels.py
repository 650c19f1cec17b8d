"""Warp kernels for stacks of camera frames, and the functions that check what is given to them.

One source for CPU and CUDA. Channels first, so that neighbouring threads read and write neighbouring columns. The module imports
no other of the project: an image is built with it, and its kernels (containers/step_once.py).

The arithmetic of normalization is that of Isaac Lab 3.0.0 (isaaclab/utils/images.py, `_normalize_uint8_kernel` and
`_uint8_spatial_mean`): `float32(x) / 255 - float32(sum) / float32(height * width * 255)`. There one thread adds up whole rows
of a plane; here 32 neighbouring threads share them, so that a warp reads neighbouring bytes.
"""

# What Warp reads as a kernel, Python's type checker cannot: wp.tid() gives as many numbers as are asked for, and operators of
# Warp's numbers exist in kernels only.
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
    the k - 1 frames before it belong to the same episode. out [b, l * f * f, H / f, W / f] has l >= k * c layers, those
    beyond k * c zero, and each layer of H x W pixels folded by f = 2^bits; what of H x W is not in h x w is zero.

    dim: b, l, lanes, or with channels last b, lanes, l: neighbouring threads write neighbouring numbers.
    """
    row, layer, lane = wp.tid()
    if channels_last:
        turned = layer
        layer = lane
        lane = turned
    fold = wp.int32(1) << bits
    envs = history.shape[1]
    step = wp.int32(places[row] / wp.int64(envs))
    env = wp.int32(places[row] % wp.int64(envs))
    frame = wp.int32(0)
    plane = wp.int32(0)
    mean = wp.float32(0.0)
    height = wp.int32(0)
    if layer < stacked * channels:
        back = wp.min(stacked - 1 - layer // channels, wp.int32(history[step, env]))
        frame = step + stacked - 1 - back
        plane = env * channels + layer % channels
        mean = wp.float32(sums[frame, plane]) / scale
        height = frames.shape[2]
    for y in range(out.shape[2] << bits):
        for x in range(lane, out.shape[3] << bits, lanes):
            value = wp.float32(0.0)
            if y < height and x < frames.shape[3]:
                value = wp.float32(frames[frame, plane, y, x]) / 255.0 - mean
            place = (layer * fold + (y & (fold - 1))) * fold + (x & (fold - 1))
            out[row, place, y >> bits, x >> bits] = out.dtype(value)


# All that is ever launched, so that it is compiled at once: each dtype that came later would compile the module again.
for _kind in (wp.uint8, wp.float32):
    _four = wp.array4d(dtype=_kind)
    wp.overload(_push, {"images": _four, "ring": _four, "stacked": _four})
for _kind in (wp.float32, wp.bfloat16, wp.float16):
    wp.overload(_normalize, {"out": wp.array2d(dtype=_kind)})
    wp.overload(_gather_normalized, {"out": wp.array4d(dtype=_kind)})


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
    outside = (indices < 0) | (indices >= count)
    if not indices.is_cuda:
        if outside.any():
            found = indices[outside][0].item()
            raise IndexError(f"{name} of shape {tuple(indices.shape)} holds {found}, expected 0 to {count - 1}")
        return
    torch.ops.aten._assert_async.msg(
        ~outside.any(), f"{name} of shape {tuple(indices.shape)} holds one outside 0 to {count - 1}"
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
    kind, lanes = wp.dtype_from_torch(images.dtype), _lanes(images)
    _launch(
        _push,
        (images.shape[0], images.shape[1], lanes),
        [_warp(images, kind), _warp(is_fresh, wp.bool), _warp(ring, kind), newest, lanes, _warp(stacked, kind)],
        images.device,
    )


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
    _check_result(dtype)
    return _normalized(stacked, dtype)


@torch.library.custom_op("envknee::normalized", mutates_args=())
def _normalized(stacked: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    planes = stacked.view(-1, stacked.shape[2] * stacked.shape[3])
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

    channels: int | None = None
    """Zeros follow the k * c channels up to so many. None: no more than those."""

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
        A new tensor [b, k * c, h, w], oldest frame first; [b, l * f * f, H / f, W / f] with a layout of l channels, size
        H x W and fold f.

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
    _check_result(layout.dtype)
    layers = stacked * channels if layout.channels is None else layout.channels
    rows, columns = layout.size or (height, width)
    if layers < stacked * channels or layout.fold not in (1, 2, 4) or rows % layout.fold or columns % layout.fold:
        raise ValueError(f"{layout} does not fit stacks of {stacked} frames of shape {tuple(frames.shape)}")
    return _gather_normalized_op(
        frames, sums, history, places, stacked, layout.dtype, layers, rows, columns, layout.fold, layout.channels_last
    )


@torch.library.custom_op("envknee::gather_normalized", mutates_args=())
def _gather_normalized_op(
    frames: torch.Tensor,
    sums: torch.Tensor,
    history: torch.Tensor,
    places: torch.Tensor,
    stacked: int,
    dtype: torch.dtype,
    layers: int,
    rows: int,
    columns: int,
    fold: int,
    channels_last: bool,
) -> torch.Tensor:
    check_indices("places", places, history.numel())
    steps, envs, channels, height, width = frames.shape
    out, lanes = _gathered(places, dtype, layers, rows, columns, fold, channels_last), _lanes(frames)
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
    layers: int,
    rows: int,
    columns: int,
    fold: int,
    channels_last: bool,
) -> torch.Tensor:
    return _gathered(places, dtype, layers, rows, columns, fold, channels_last)


def gather(frames: torch.Tensor, history: torch.Tensor, places: torch.Tensor, stacked: int) -> torch.Tensor:
    """Return the stacks of some transitions as they were taken: what `gather_normalized` does, for frames of any dtype.

    Args:
        frames: [t + k - 1, n, c, h, w]: the frame of step s at s + k - 1
        history: as for `gather_normalized` [t, n], uint8
        places: transitions [b] (int64), step * n + environment
        stacked: k

    Returns:
        A new tensor [b, k * c, h, w], oldest frame first.
    """
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


def _check_result(dtype: torch.dtype) -> None:
    if dtype not in (torch.float32, torch.bfloat16, torch.float16):
        raise TypeError(f"dtype is {str(dtype).removeprefix('torch.')}, expected float32, bfloat16 or float16")


def _lanes(tensor: torch.Tensor) -> int:
    return LANES if tensor.is_cuda else 1


def _warp(tensor: torch.Tensor, kind: Any) -> wp.array:
    return wp.from_torch(tensor, dtype=kind, requires_grad=False)


def _launch(kernel: Any, dim: tuple[int, ...], words: list[Any], device: torch.device) -> None:
    """Launch a kernel where PyTorch's own kernels go now: on another stream, or in a CUDA graph that is captured."""
    stream = None
    if device.type == "cuda" and torch.cuda.current_stream(device).cuda_stream:
        stream = wp.stream_from_torch(device)
    wp.launch(kernel, dim=dim, inputs=words, device=str(device), stream=stream)
