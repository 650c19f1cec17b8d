"""What PyTorch calls on stacks of camera frames: checks of what is given, operations, and their launches of Warp's kernels.

Operations run on the stream and in the CUDA graph of PyTorch's own kernels, and inside `torch.compile`, too.
"""

# Operators of Warp's arrays are not known to Python's type checker.
# pyright: reportArgumentType=false

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any

import torch
import warp as wp

from envknee.lean import kernels

wp.init()  # tensors can only be handed to it afterwards; again does nothing


def operation(name: str, mutates: tuple[str, ...] = ()) -> Callable[[Callable[..., Any]], Any]:
    """Make of a function a custom operation of PyTorch's inside `torch.compile`, which else could not see through it.

    Elsewhere it is called as it is: on its way through PyTorch's dispatcher a call takes a CPU longer than a launch, and a GPU
    with few environments waits for both. Nothing here has a gradient.
    """

    def made_of(function: Callable[..., Any]) -> Any:
        custom = torch.library.custom_op(f"envknee::{name}", function, mutates_args=mutates)

        @wraps(function)
        def called(*words: Any) -> Any:
            return custom(*words) if torch.compiler.is_compiling() else function(*words)

        called.register_fake = custom.register_fake  # type: ignore[attr-defined]
        return called

    return made_of


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


@operation("push", mutates=("ring", "stacked"))
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
    pixels = words_of_images(images)
    if pixels is not None and _are_words(ring) and _are_words(stacked):
        words = ring[0].numel() // ring.shape[1] // 4
        lanes = _lanes_for(words, kernels.QUADS, ring)
        _launch(
            kernels.push_words,
            (n, stacked.shape[1] // channels, lanes),
            [*pixels, channels, _array(is_fresh), _words(ring, channels), newest, lanes, _words(stacked, channels)],
            images.device,
        )
        return
    kind, lanes = wp.dtype_from_torch(images.dtype), _lanes(images)
    _launch(
        kernels.push,
        (n, images.shape[1], lanes),
        [_warp(images, kind), _warp(is_fresh, wp.bool), _warp(ring, kind), newest, lanes, _warp(stacked, kind)],
        images.device,
    )


@operation("push_normalized", mutates=("ring", "sums"))
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
    frames, pixels = len(ring), words_of_images(images)
    keeps_sums = _are_words(ring) and height * width <= kernels.STRETCH
    if pixels is None or not keeps_sums:
        stacked = images.new_empty((n, frames * channels, height, width))
        push(images, is_fresh, ring, newest, stacked)
        if keeps_sums:  # the next images may be whole words
            _plane_sums(ring.view(-1, height * width), sums.view(-1))
        return _normalized(stacked, dtype)
    out = images.new_empty((n, frames * channels, height, width), dtype=dtype)
    _launch(
        kernels.take_words,
        (n, _block(images)),
        [
            *pixels, channels, _array(is_fresh), _words(ring, channels), newest, _block(images),
            _array(sums.view(-1, channels)),
        ],
        images.device,
    )  # fmt: skip
    lanes = _lanes_for(height * width // 4, kernels.WORDS, images)
    _launch(
        kernels.INTO[kernels.normalize_ring_words, wp.dtype_from_torch(dtype)],
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


@operation("plane_sums", mutates=("sums",))
def _plane_sums(planes: torch.Tensor, sums: torch.Tensor) -> None:
    if _are_words(planes) and planes.shape[1] <= kernels.STRETCH:
        block = _block(planes)
        _launch(kernels.add_up_words, (len(planes), block), [_words(planes, 1), block, _array(sums)], planes.device)
        return
    sums.zero_()
    parts, lanes = -(-planes.shape[1] // kernels.STRETCH), _lanes(planes)
    _launch(
        kernels.add_up,
        (planes.shape[0], parts, lanes),
        [_warp(planes, wp.uint8), kernels.STRETCH, lanes, _warp(sums, wp.int64)],
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


@operation("normalized")
def _normalized(stacked: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    planes = stacked.view(-1, stacked.shape[2] * stacked.shape[3])
    if _are_words(stacked) and planes.shape[1] <= kernels.STRETCH:
        out, block = torch.empty_like(stacked, dtype=dtype), _block(stacked)
        _launch(
            kernels.INTO[kernels.normalize_words, wp.dtype_from_torch(dtype)],
            (len(planes), block),
            [_words(stacked, 1), planes.shape[1] * 255.0, block, _array(out.view(planes.shape))],
            stacked.device,
        )
        return out
    sums = torch.empty(len(planes), dtype=torch.int64, device=stacked.device)
    _plane_sums(planes, sums)
    out, lanes = torch.empty_like(stacked, dtype=dtype), _lanes(stacked)
    _launch(
        kernels.normalize,
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


@operation("gather_normalized")
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
        lanes = _lanes_for(height * width // 4, kernels.WORDS, frames)
        _launch(
            kernels.INTO[kernels.gather_normalized_words, wp.dtype_from_torch(dtype)],
            (len(places), layers, lanes),
            [
                _words(frames, 1), _array(sums.view(-1)), _array(history), _array(places), channels, stacked,
                height * width * 255.0, lanes, _array(out.view(-1, height * width)),
            ],
            frames.device,
        )  # fmt: skip
        return out
    _launch(
        kernels.gather_normalized,
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


@operation("gather_bytes")
def _gather_bytes(frames: torch.Tensor, history: torch.Tensor, places: torch.Tensor, stacked: int) -> torch.Tensor:
    if not _are_words(frames) or history.numel() >= 2**31:
        return _gather_by_index(frames, history, places, stacked)
    check_indices("places", places, history.numel())
    channels, height, width = frames.shape[2:]
    out = frames.new_empty((len(places), stacked * channels, height, width))
    lanes = _lanes_for(channels * height * width // 4, kernels.WORDS, frames)
    _launch(
        kernels.gather_words,
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
    return frames.flatten(0, 1)[frames_of(history, places, stacked)].flatten(1, 2)


def frames_of(history: torch.Tensor, places: torch.Tensor, stacked: int) -> torch.Tensor:
    """Return which frames the stacks of some transitions consist of, oldest first: [b, k] of [(t + k - 1) * n].

    Args:
        history: as for `gather_normalized` [t, n], uint8
        places: transitions [b] (int64), step * n + environment
        stacked: k
    """
    back = torch.arange(stacked - 1, -1, -1, device=places.device)
    back = torch.minimum(back, history.view(-1)[places].unsqueeze(1))
    return places.unsqueeze(1) + (stacked - 1 - back) * history.shape[1]


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
    return kernels.LANES if tensor.is_cuda else 1


def _block(tensor: torch.Tensor) -> int:
    return kernels.BLOCK if tensor.is_cuda else 1


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


def words_of_images(images: torch.Tensor) -> tuple[Any, int] | None:
    """Return images [n, h, w, c] as words and p, bytes from pixel to pixel: 3 or 4. None if they are no such.

    RGB that is a view of RGBA is: what lies between its pixels is read, too, and so is what follows the last one. That may be
    beyond what PyTorch knows of, for Isaac Lab's camera gives a view that ends with the last pixel's blue; but it lies in the
    same aligned words, so that the memory is there.

    Kernels take from the words where they begin and how far apart the images are; their shape is that of a corner [n, 1].
    """
    n, height, width, channels = images.shape
    env, row, pixel, channel = images.stride()
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
    ):
        return None
    return _array(images.as_strided((n, 4), (env, 1)).view(torch.int32), wp.uint32), pixel


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
    wp.launch(kernel, dim=dim, inputs=words, device=str(device), stream=stream, block_dim=kernels.BLOCK)
