"""Warp's kernels on PyTorch's tensors: launched on PyTorch's stream, seen by `torch.compile`, with as many threads as the device likes."""

# Operators of Warp's arrays are not known to Python's type checker.
# pyright: reportArgumentType=false

from collections.abc import Callable
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


def run(kernel: Any, dim: tuple[int, ...], words: list[Any], device: torch.device) -> None:
    """Launch a kernel where PyTorch's own kernels go now: on another stream, or in a CUDA graph that is captured."""
    stream = None
    if device.type == "cuda" and torch.cuda.current_stream(device).cuda_stream:
        stream = wp.stream_from_torch(device)
    wp.launch(kernel, dim=dim, inputs=words, device=str(device), stream=stream, block_dim=kernels.BLOCK)


def lanes_of(tensor: torch.Tensor) -> int:
    """Return how many threads share a row of bytes."""
    return kernels.LANES if tensor.is_cuda else 1


def block_of(tensor: torch.Tensor) -> int:
    """Return how many threads share a plane, in one block."""
    return kernels.BLOCK if tensor.is_cuda else 1


def lanes_for(words: int, at_once: int, tensor: torch.Tensor) -> int:
    """Return how many threads share a row of so many words, each taking `at_once`. On a CPU one thread goes alone."""
    return -(-words // at_once) if tensor.is_cuda else 1


def are_words(tensor: torch.Tensor) -> bool:
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
    return array(images.as_strided((n, 4), (env, 1)).view(torch.int32), wp.uint32), pixel


def words_of(tensor: torch.Tensor, planes: int) -> Any:
    """Return the words of a contiguous tensor of bytes [..., h, w] or [..., h * w], so many planes in a row."""
    plane = tensor.shape[-1] if tensor.ndim == 2 else tensor.shape[-1] * tensor.shape[-2]
    return array(tensor.view(-1, planes * plane).view(torch.int32), wp.uint32)


def array(tensor: torch.Tensor, kind: Any = None) -> Any:
    """Return what a kernel takes that is not generic: quicker to make than `typed`'s, by some microseconds for each launch."""
    return wp.from_torch(tensor, dtype=kind, requires_grad=False, return_ctype=True)


def typed(tensor: torch.Tensor, kind: Any) -> wp.array:
    """Return what a generic kernel takes."""
    return wp.from_torch(tensor, dtype=kind, requires_grad=False)
