"""Stacks, sums and normalizes camera frames.

Operations run on PyTorch's current stream, in CUDA graphs, and inside `torch.compile`.
"""

import torch

from leanframes import checks, launch
from leanframes.launch import kernels


@launch.operation("push", mutates=("stacked",))
def push(images: torch.Tensor, is_fresh: torch.Tensor, older: torch.Tensor, stacked: torch.Tensor) -> None:
    """Write the stacks of the newest frames, oldest frame first.

    Args:
        images: the newest frames [n, h, w, c], of the stacks' dtype; may be strided, such as RGB of RGBA
        is_fresh: environments [n] whose whole history becomes this frame (bool)
        older: the stacks before these frames [n, k * c, h, w], contiguous
        stacked: output [n, k * c, h, w], contiguous
    """
    n, _, _, channels = images.shape
    key = (
        "push", images.device, images.shape, images.stride(), images.dtype, stacked.shape, images.data_ptr() % 16,
        (older.data_ptr() | stacked.data_ptr()) % 4,
    )  # fmt: skip

    def prepare() -> launch.Launch | None:
        pixels = launch.words_of_images(images)
        if pixels is None or not launch.are_words(older) or not launch.are_words(stacked):
            return None
        frames = stacked.shape[1] // channels
        lanes = launch.lanes_for(stacked[0].numel() // frames // channels // 4, kernels.QUADS, stacked)
        arguments = [
            *pixels, channels, launch.array(is_fresh), launch.words_of(older, channels), lanes,
            launch.words_of(stacked, channels),
        ]  # fmt: skip
        return kernels.push_words, (n, frames, lanes), arguments

    if not launch.repeat(key, prepare, {0: images, 3: is_fresh, 4: older, 6: stacked}):
        newest = images.movedim(-1, 1)
        before, after = (stacks.unflatten(1, (-1, channels)) for stacks in (older, stacked))
        after[:, :-1] = torch.where(is_fresh.view(-1, 1, 1, 1, 1), newest.unsqueeze(1), before[:, 1:])
        after[:, -1] = newest


@launch.operation("copy_newest", mutates=("newest", "sums"))
def copy_newest(stacked: torch.Tensor, newest: torch.Tensor, sums: torch.Tensor) -> None:
    """Copy the newest frame of uint8 stacks, and write its planes' sums, as `plane_sums` does.

    Args:
        stacked: [n, k * c, h, w]
        newest: output [n, c, h, w], contiguous
        sums: output [n, c], int64
    """
    layers, channels = stacked.shape[1], newest.shape[1]
    key = (
        "copy_newest", stacked.device, stacked.shape, stacked.stride(), newest.shape, newest.stride(),
        (stacked.data_ptr() | newest.data_ptr()) % 4,
    )  # fmt: skip

    def prepare() -> launch.Launch | None:
        is_wordwise = stacked.is_contiguous() and launch.are_words(stacked) and launch.are_words(newest)
        if not is_wordwise or newest[0, 0].numel() > kernels.STRETCH:
            return None
        block = launch.block_of(stacked)
        arguments = [
            launch.words_of(stacked, 1), layers, channels, block, launch.words_of(newest, 1), launch.array(sums.view(-1))
        ]  # fmt: skip
        return kernels.copy_words, (newest.shape[0] * channels, block), arguments

    if not launch.repeat(key, prepare, {0: stacked, 4: newest, 5: sums}):
        newest.copy_(stacked[:, -channels:])
        plane_sums(newest.flatten(0, 1).flatten(1), sums.view(-1))


@launch.operation("plane_sums", mutates=("sums",))
def plane_sums(planes: torch.Tensor, sums: torch.Tensor) -> None:
    """Write the exact sum of each plane of uint8 pixels [p, h * w] to sums [p] (int64).

    Raises:
        TypeError, ValueError: for a tensor of another dtype, shape or device, naming it.
    """
    checks.check_tensor("planes", planes, (torch.uint8,), (None, None), planes.device)
    checks.check_tensor("sums", sums, (torch.int64,), (len(planes),), planes.device)
    if launch.are_words(planes) and planes.shape[1] <= kernels.STRETCH:
        block = launch.block_of(planes)
        launch.run(
            kernels.add_up_words,
            (len(planes), block),
            [launch.words_of(planes, 1), block, launch.array(sums)],
            planes.device,
        )
        return
    torch.sum(planes, dim=1, dtype=torch.int64, out=sums)


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
    out = torch.empty_like(stacked, dtype=dtype)
    _normalize(stacked, out)
    return out


@launch.operation("normalize", mutates=("out",))
def _normalize(stacked: torch.Tensor, out: torch.Tensor) -> None:
    planes = stacked.view(-1, stacked.shape[2] * stacked.shape[3])
    if launch.are_words(stacked) and planes.shape[1] <= kernels.STRETCH:
        block = launch.block_of(stacked)
        launch.run(
            kernels.INTO[kernels.normalize_words, launch.kind_of(out)],
            (len(planes), block),
            [launch.words_of(stacked, 1), planes.shape[1] * 255.0, block, launch.array(out.view(planes.shape))],
            stacked.device,
        )
        return
    sums = torch.empty(stacked.shape[:2], dtype=torch.int64, device=stacked.device)
    plane_sums(planes, sums.view(-1))
    normalize_by(stacked, sums, out)


def normalize_by(images: torch.Tensor, sums: torch.Tensor, out: torch.Tensor) -> None:
    """Write `x / 255 - mean` of uint8 images [n, c, h, w] with sums of pixels [n, c], by PyTorch: the same bits as by Warp's kernels."""
    # Tensors on the device: PyTorch would multiply by the reciprocal of a number.
    most, scale = (
        torch.full((), value, dtype=torch.float32, device=images.device)
        for value in (255.0, images[0, 0].numel() * 255.0)
    )
    means = sums.float() / scale
    out.copy_(images.float() / most - means[..., None, None])
