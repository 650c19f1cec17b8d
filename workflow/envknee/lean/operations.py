"""Puts the newest camera frames into a ring, stacks, sums and normalizes them.

Operations run on PyTorch's current stream, in CUDA graphs, and inside `torch.compile`.
"""

# Python's type checker does not know the operators of Warp's arrays.
# pyright: reportArgumentType=false

import torch
import warp as wp

from envknee.lean import checks, kernels, launch


@launch.operation("push", mutates=("ring", "stacked"))
def push(images: torch.Tensor, is_fresh: torch.Tensor, ring: torch.Tensor, newest: int, stacked: torch.Tensor) -> None:
    """Put the newest frames into a ring, and write the stacks oldest to newest.

    Args:
        images: the newest frames [n, h, w, c], of the ring's dtype; may be strided, such as RGB of RGBA
        is_fresh: environments [n] whose whole history becomes this frame (bool)
        ring: the newest k frames of each environment [k, n * c, h, w], updated
        newest: slot of this frame in the ring; afterwards the oldest frame is in slot `(newest + 1) % k`
        stacked: output [n, k * c, h, w]
    """
    n, _, _, channels = images.shape
    pixels = launch.words_of_images(images)
    if pixels is not None and launch.are_words(ring) and launch.are_words(stacked):
        words = ring[0].numel() // ring.shape[1] // 4
        lanes = launch.lanes_for(words, kernels.QUADS, ring)
        launch.run(
            kernels.push_words,
            (n, stacked.shape[1] // channels, lanes),
            [
                *pixels,
                channels,
                launch.array(is_fresh),
                launch.words_of(ring, channels),
                newest,
                lanes,
                launch.words_of(stacked, channels),
            ],
            images.device,
        )
        return
    kind, lanes = wp.dtype_from_torch(images.dtype), launch.lanes_of(images)
    launch.run(
        kernels.push,
        (n, images.shape[1], lanes),
        [
            launch.typed(images, kind),
            launch.typed(is_fresh, wp.bool),
            launch.typed(ring, kind),
            newest,
            lanes,
            launch.typed(stacked, kind),
        ],
        images.device,
    )


@launch.operation("push_normalized", mutates=("ring", "sums"))
def push_normalized(
    images: torch.Tensor,
    is_fresh: torch.Tensor,
    ring: torch.Tensor,
    newest: int,
    sums: torch.Tensor,
    dtype: torch.dtype,
) -> torch.Tensor:
    """Put the newest frames into a ring, and return the normalized stacks: bit-identical to `push` and `normalized`.

    Args:
        images: as for `push`, uint8
        is_fresh: as for `push`
        ring: as for `push`
        newest: as for `push`
        sums: pixel sums of the ring's planes [k, n * c] (int64), correct for the k - 1 older frames on entry; updated
        dtype: of the result: float32, bfloat16 or float16

    Returns:
        A new tensor [n, k * c, h, w].
    """
    n, height, width, channels = images.shape
    frames, pixels = len(ring), launch.words_of_images(images)
    keeps_sums = launch.are_words(ring) and height * width <= kernels.STRETCH
    if pixels is None or not keeps_sums:
        stacked = images.new_empty((n, frames * channels, height, width))
        push(images, is_fresh, ring, newest, stacked)
        if keeps_sums:  # the next call may need them
            _plane_sums(ring.view(-1, height * width), sums.view(-1))
        return _normalized(stacked, dtype)
    out = images.new_empty((n, frames * channels, height, width), dtype=dtype)
    launch.run(
        kernels.take_words,
        (n, launch.block_of(images)),
        [
            *pixels, channels, launch.array(is_fresh), launch.words_of(ring, channels), newest, launch.block_of(images),
            launch.array(sums.view(-1, channels)),
        ],
        images.device,
    )  # fmt: skip
    lanes = launch.lanes_for(height * width // 4, kernels.WORDS, images)
    launch.run(
        kernels.INTO[kernels.normalize_ring_words, wp.dtype_from_torch(dtype)],
        (n, frames * channels, lanes),
        [
            launch.words_of(ring, 1), launch.array(sums.view(-1)), n, channels, newest, height * width * 255.0, lanes,
            launch.array(out.view(-1, height * width)),
        ],
        images.device,
    )  # fmt: skip
    return out


push_normalized.register_fake(
    lambda images, is_fresh, ring, newest, sums, dtype: images.new_empty(
        (len(images), len(ring) * images.shape[3], *images.shape[1:3]), dtype=dtype
    )
)


@launch.operation("copy_newest", mutates=("newest", "sums"))
def copy_newest(stacked: torch.Tensor, newest: torch.Tensor, sums: torch.Tensor) -> None:
    """Copy the newest frame of uint8 stacks, and write its planes' sums, as `plane_sums` does.

    Args:
        stacked: [n, k * c, h, w]
        newest: output [n, c, h, w], contiguous
        sums: output [n, c], int64
    """
    layers, channels = stacked.shape[1], newest.shape[1]
    is_wordwise = stacked.is_contiguous() and launch.are_words(stacked) and launch.are_words(newest)
    if not is_wordwise or newest[0, 0].numel() > kernels.STRETCH:
        newest.copy_(stacked[:, -channels:])
        _plane_sums(newest.flatten(0, 1).flatten(1), sums.view(-1))
        return
    block = launch.block_of(stacked)
    launch.run(
        kernels.copy_words,
        (newest.shape[0] * channels, block),
        [launch.words_of(stacked, 1), layers, channels, block, launch.words_of(newest, 1), launch.array(sums.view(-1))],
        stacked.device,
    )


def plane_sums(planes: torch.Tensor, sums: torch.Tensor) -> None:
    """Write the exact sum of each plane of uint8 pixels [p, h * w] to sums [p] (int64).

    Raises:
        TypeError, ValueError: for a tensor of another dtype, shape or device, naming it.
    """
    checks.check_tensor("planes", planes, (torch.uint8,), (None, None), planes.device)
    checks.check_tensor("sums", sums, (torch.int64,), (len(planes),), planes.device)
    _plane_sums(planes, sums)


@launch.operation("plane_sums", mutates=("sums",))
def _plane_sums(planes: torch.Tensor, sums: torch.Tensor) -> None:
    if launch.are_words(planes) and planes.shape[1] <= kernels.STRETCH:
        block = launch.block_of(planes)
        launch.run(
            kernels.add_up_words,
            (len(planes), block),
            [launch.words_of(planes, 1), block, launch.array(sums)],
            planes.device,
        )
        return
    sums.zero_()
    parts, lanes = -(-planes.shape[1] // kernels.STRETCH), launch.lanes_of(planes)
    launch.run(
        kernels.add_up,
        (planes.shape[0], parts, lanes),
        [launch.typed(planes, wp.uint8), kernels.STRETCH, lanes, launch.typed(sums, wp.int64)],
        planes.device,
    )


def normalized(stacked: torch.Tensor, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Return `x / 255 - mean` of uint8 images, with the mean of each channel of each image.

    Args:
        stacked: [n, c, h, w], uint8, contiguous
        dtype: of the result: float32 (bit-identical to Isaac Lab's `normalize_rgb`), bfloat16 or float16

    Returns:
        A new tensor [n, c, h, w].

    Raises:
        TypeError: for images that are not uint8, or another `dtype`.
        ValueError: for another rank, an empty dimension, or images that are not contiguous.
    """
    checks.check_tensor("images", stacked, (torch.uint8,), (None, None, None, None), stacked.device)
    checks.check_result(dtype)
    return _normalized(stacked, dtype)


@launch.operation("normalized")
def _normalized(stacked: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    planes = stacked.view(-1, stacked.shape[2] * stacked.shape[3])
    if launch.are_words(stacked) and planes.shape[1] <= kernels.STRETCH:
        out, block = torch.empty_like(stacked, dtype=dtype), launch.block_of(stacked)
        launch.run(
            kernels.INTO[kernels.normalize_words, wp.dtype_from_torch(dtype)],
            (len(planes), block),
            [launch.words_of(stacked, 1), planes.shape[1] * 255.0, block, launch.array(out.view(planes.shape))],
            stacked.device,
        )
        return out
    sums = torch.empty(len(planes), dtype=torch.int64, device=stacked.device)
    _plane_sums(planes, sums)
    out, lanes = torch.empty_like(stacked, dtype=dtype), launch.lanes_of(stacked)
    launch.run(
        kernels.normalize,
        (planes.shape[0], lanes),
        [
            launch.typed(planes, wp.uint8),
            launch.typed(sums, wp.int64),
            planes.shape[1] * 255.0,
            lanes,
            launch.typed(out.view(planes.shape), wp.dtype_from_torch(dtype)),
        ],
        stacked.device,
    )
    return out


_normalized.register_fake(lambda stacked, dtype: torch.empty_like(stacked, dtype=dtype))
