"""Warp kernels for stacks of camera frames, and the functions that check what is given to them.

One source for CPU and CUDA. Channels first, so that neighbouring threads read and write neighbouring columns.

The arithmetic of normalization is that of Isaac Lab 3.0.0 (isaaclab/utils/images.py, `_normalize_uint8_kernel` and
`_uint8_spatial_mean`): `float32(x) / 255 - float32(sum) / float32(height * width * 255)`. There one thread adds up whole rows
of a plane; here 32 neighbouring threads share them, so that a warp reads neighbouring bytes.
"""

# What Warp reads as a kernel, Python's type checker cannot: wp.tid() gives as many numbers as are asked for, and operators of
# Warp's numbers exist in kernels only.
# pyright: reportAssignmentType=false, reportGeneralTypeIssues=false, reportOperatorIssue=false, reportCallIssue=false
# pyright: reportArgumentType=false, reportIndexIssue=false, reportAttributeAccessIssue=false, reportInvalidTypeForm=false

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
    frames: wp.array3d(dtype=wp.uint8),
    sums: wp.array2d(dtype=wp.int64),
    history: wp.array2d(dtype=wp.uint8),
    places: wp.array(dtype=wp.int64),
    channels: wp.int32,
    scale: wp.float32,
    lanes: wp.int32,
    out: wp.array3d(dtype=Any),
):
    """Write the normalized stacks [b, k * c, h * w] of transitions at `places` (step * n + env). dim: b, k * c, lanes.

    frames [t + k - 1, n * c, h * w] hold each frame once, the one of step t at t + k - 1; history [t, n] tells how many of
    the k - 1 frames before it belong to the same episode.
    """
    row, layer, lane = wp.tid()
    envs = history.shape[1]
    step = wp.int32(places[row] / wp.int64(envs))
    env = wp.int32(places[row] % wp.int64(envs))
    stacked = out.shape[1] // channels
    back = wp.min(stacked - 1 - layer // channels, wp.int32(history[step, env]))
    frame = step + stacked - 1 - back
    plane = env * channels + layer % channels
    mean = wp.float32(sums[frame, plane]) / scale
    for pixel in range(lane, frames.shape[2], lanes):
        out[row, layer, pixel] = out.dtype(wp.float32(frames[frame, plane, pixel]) / 255.0 - mean)


def check_tensor(
    name: str,
    tensor: torch.Tensor,
    dtypes: tuple[torch.dtype, ...],
    shape: tuple[int | None, ...],
    device: torch.device,
) -> None:
    """Check a tensor against what a kernel takes; None stands for any positive size.

    Raises:
        TypeError: for a wrong dtype, naming the tensor.
        ValueError: for a wrong rank, size or device, naming tensor and shape.
    """
    if tensor.dtype not in dtypes:
        expected = " or ".join(str(dtype).removeprefix("torch.") for dtype in dtypes)
        raise TypeError(f"{name} has dtype {str(tensor.dtype).removeprefix('torch.')}, expected {expected}")
    fits = len(shape) == tensor.ndim and all(
        have > 0 and want in (None, have) for want, have in zip(shape, tensor.shape, strict=True)
    )
    if not fits:
        wanted = ", ".join("any" if size is None else str(size) for size in shape)
        raise ValueError(f"{name} has shape {tuple(tensor.shape)}, expected ({wanted}), none of them 0")
    if tensor.device != device:
        raise ValueError(f"{name} is on {tensor.device}, expected {device}")


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
    wp.launch(
        _push,
        dim=(images.shape[0], images.shape[1], lanes),
        inputs=[_warp(images, kind), _warp(is_fresh, wp.bool), _warp(ring, kind), newest, lanes],
        outputs=[_warp(stacked, kind)],
        device=str(images.device),
    )


def plane_sums(planes: torch.Tensor, sums: torch.Tensor) -> None:
    """Write the sum of each plane of uint8 pixels [p, h * w] to sums [p] (int64): exact at any resolution."""
    sums.zero_()
    parts, lanes = -(-planes.shape[1] // STRETCH), _lanes(planes)
    wp.launch(
        _add_up,
        dim=(planes.shape[0], parts, lanes),
        inputs=[_warp(planes, wp.uint8), STRETCH, lanes],
        outputs=[_warp(sums, wp.int64)],
        device=str(planes.device),
    )


def normalized(stacked: torch.Tensor, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Return `x / 255 - mean` of uint8 images, the mean over each image's channel.

    Args:
        stacked: [n, c, h, w], uint8, contiguous
        dtype: of the result: float32 (Isaac Lab's `normalize_rgb` to the bit), bfloat16 or float16

    Returns:
        A new tensor [n, c, h, w].

    Raises:
        TypeError: for another dtype than uint8.
        ValueError: for another rank, an empty dimension, or images that are not contiguous.
    """
    check_tensor("images", stacked, (torch.uint8,), (None, None, None, None), stacked.device)
    if not stacked.is_contiguous():
        raise ValueError(f"images of shape {tuple(stacked.shape)} are not contiguous: call .contiguous() on them")
    return _normalized(stacked, dtype)


@torch.library.custom_op("envknee::normalized", mutates_args=())
def _normalized(stacked: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    planes = stacked.view(-1, stacked.shape[2] * stacked.shape[3])
    sums = torch.empty(len(planes), dtype=torch.int64, device=stacked.device)
    plane_sums(planes, sums)
    out, lanes = torch.empty_like(stacked, dtype=dtype), _lanes(stacked)
    wp.launch(
        _normalize,
        dim=(planes.shape[0], lanes),
        inputs=[_warp(planes, wp.uint8), _warp(sums, wp.int64), planes.shape[1] * 255.0, lanes],
        outputs=[_warp(out.view(planes.shape), wp.dtype_from_torch(dtype))],
        device=str(stacked.device),
    )
    return out


@_normalized.register_fake
def _(stacked: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return torch.empty_like(stacked, dtype=dtype)


def gather_normalized(
    frames: torch.Tensor,
    sums: torch.Tensor,
    history: torch.Tensor,
    places: torch.Tensor,
    stacked: int,
    dtype: torch.dtype = torch.float32,
) -> torch.Tensor:
    """Return the normalized stacks of some transitions of a rollout that holds each frame once.

    Args:
        frames: [t + k - 1, n, c, h, w], uint8, contiguous: the frame of step s at s + k - 1
        sums: of each frame's channels [t + k - 1, n, c], int64, from `plane_sums`
        history: how many of the k - 1 frames before belong to the same episode [t, n], uint8; what lies further back is
            filled with the oldest that does, as Isaac Lab fills it on reset
        places: transitions [b] (int64), step * n + environment; must lie in the rollout
        stacked: k
        dtype: of the result: float32, bfloat16 or float16

    Returns:
        A new tensor [b, k * c, h, w], oldest frame first.

    Raises:
        TypeError, ValueError: for a tensor of another dtype, shape or device, naming it.
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
    if not frames.is_contiguous():
        raise ValueError(f"frames of shape {tuple(frames.shape)} are not contiguous")
    out = torch.empty(len(places), stacked * channels, height, width, dtype=dtype, device=frames.device)
    pixels, lanes = height * width, _lanes(frames)
    wp.launch(
        _gather_normalized,
        dim=(len(places), stacked * channels, lanes),
        inputs=[
            _warp(frames.view(steps, envs * channels, pixels), wp.uint8),
            _warp(sums.view(steps, -1), wp.int64),
            _warp(history, wp.uint8),
            _warp(places, wp.int64),
            channels,
            pixels * 255.0,
            lanes,
        ],
        outputs=[_warp(out.view(len(places), -1, pixels), wp.dtype_from_torch(dtype))],
        device=str(frames.device),
    )
    return out


def _lanes(tensor: torch.Tensor) -> int:
    return LANES if tensor.is_cuda else 1


def _warp(tensor: torch.Tensor, kind: Any) -> wp.array:
    return wp.from_torch(tensor, dtype=kind, requires_grad=False)
