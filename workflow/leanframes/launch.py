"""Launches Warp's kernels on PyTorch's tensors: on PyTorch's stream, visible to `torch.compile`, with threads to suit the device.

Without Warp no tensor is for its kernels (`are_words`, `words_of_images`), and nothing here launches one.
"""

import importlib.util
from collections.abc import Callable
from functools import wraps
from typing import Any

import torch

HAS_WARP = importlib.util.find_spec("warp") is not None

wp: Any = None
kernels: Any = None
"""Warp, and the module of its kernels here; None without Warp."""

if HAS_WARP:
    import warp as wp

    from leanframes import kernels

    wp.init()  # needed before Warp takes tensors; further calls do nothing


def operation(name: str, mutates: tuple[str, ...]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a function that writes its results a custom operator of PyTorch inside `torch.compile`, which cannot trace it.

    Outside it is called directly: PyTorch's dispatcher takes a CPU longer than a launch, and with few environments a GPU waits for both.
    Operations have no gradient.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        custom = torch.library.custom_op(f"leanframes::{name}", function, mutates_args=mutates)

        @wraps(function)
        def call(*arguments: Any) -> None:
            (custom if torch.compiler.is_compiling() else function)(*arguments)

        return call

    return decorate


def run(kernel: Any, dim: tuple[int, ...], arguments: list[Any], device: torch.device) -> None:
    """Launch a kernel on PyTorch's current stream, so that CUDA graphs capture it too."""
    wp.launch(kernel, dim=dim, inputs=arguments, device=str(device), stream=_stream_of(device), block_dim=kernels.BLOCK)


Launch = tuple[Any, tuple[int, ...], list[Any]]
"""A kernel, its threads, and its arguments; arrays among them come from `array`."""

_prepared: dict[tuple, Any] = {}
"""Warp's commands by all that a launch depends on besides addresses: shapes, strides, and how addresses are aligned."""


def repeat(key: tuple, prepare: Callable[[], Launch | None], tensors: dict[int, torch.Tensor]) -> bool:
    """Make a launch that is prepared once for each `key`; return False if `prepare` returned None: the kernel does not fit.

    Warp checks and packs the arguments once, which takes a CPU longer than the launch: with few environments a GPU waits for it. Isaac
    Lab 3.0.0 repeats its own launches the same way (isaaclab/utils/warp/launch_cache.py).

    Args:
        key: kernel, device, and all else that the launch depends on besides the addresses of `tensors`
        prepare: called at a key's first launch
        tensors: all arguments that are tensors, by their index
    """
    device = next(iter(tensors.values())).device
    if key not in _prepared:
        launch = prepare()
        _prepared[key] = None if launch is None else _command(*launch, device)
    command = _prepared[key]
    if command is None:
        return False
    for index, tensor in tensors.items():
        command.params[index + 1].data = tensor.data_ptr()  # the threads come first
    command.launch(_stream_of(device))
    return True


def _command(kernel: Any, dim: tuple[int, ...], arguments: list[Any], device: torch.device) -> Any:
    """Return Warp's command for a launch, which holds no tensor."""
    command: Any = wp.launch(
        kernel, dim=dim, inputs=arguments, device=str(device), block_dim=kernels.BLOCK, record_cmd=True
    )
    command.fwd_args = None  # needed by captures of Warp's on a CPU alone
    for argument in command.params[1:]:
        if hasattr(argument, "_ref"):
            argument._ref = None
    return command


def _stream_of(device: torch.device) -> Any:
    """Return PyTorch's current stream as Warp's; None for the default stream, which Warp's own waits for."""
    if device.type == "cuda" and torch.cuda.current_stream(device).cuda_stream:
        return wp.stream_from_torch(device)
    return None


def block_of(tensor: torch.Tensor) -> int:
    """Return the number of threads, of one block, that share a plane."""
    return kernels.BLOCK if tensor.is_cuda else 1


def lanes_for(words: int, at_once: int, tensor: torch.Tensor) -> int:
    """Return the number of threads that share a row of `words` words, `at_once` each; on a CPU one thread takes them all."""
    return -(-words // at_once) if tensor.is_cuda else 1


def are_words(tensor: torch.Tensor) -> bool:
    """Return whether Warp's kernels take planes [..., h, w] or [..., h * w]: uint8, of whole and aligned words of four bytes."""
    plane = tensor.shape[-1] if tensor.ndim == 2 else tensor.shape[-1] * tensor.shape[-2]
    return (
        HAS_WARP
        and tensor.dtype == torch.uint8
        and plane % 4 == 0
        and tensor.storage_offset() % 4 == 0
        and tensor.data_ptr() % 4 == 0
    )


def words_of_images(images: torch.Tensor) -> tuple[Any, int] | None:
    """Return uint8 images [n, h, w, c] as words, and the bytes per pixel (3 or 4). None if Warp's kernels do not take them.

    RGB may be a view of RGBA: kernels then read the bytes between and after its pixels, too. Isaac Lab's camera returns a view that ends
    with the last pixel's blue, but the byte after it is in the same aligned word, so its memory exists.

    The words have shape [n, 1]: kernels use only their address and the stride between images.
    """
    n, height, width, channels = images.shape
    env, row, pixel, channel = images.stride()
    access = 16 if pixel == 4 else 4  # bytes of one load
    if (
        not HAS_WARP
        or images.dtype != torch.uint8
        or pixel not in (3, 4)
        or channels > pixel
        or (row, channel) != (width * pixel, 1)
        or height * width % 4
        or env % access
        or images.storage_offset() % 4
        or images.data_ptr() % access
    ):
        return None
    return array(images.as_strided((n, 4), (env, 1)).view(torch.int32), wp.uint32), pixel


def words_of(tensor: torch.Tensor, planes: int) -> Any:
    """Return the words of a contiguous uint8 tensor [..., h, w] or [..., h * w], with `planes` planes in each row."""
    plane = tensor.shape[-1] if tensor.ndim == 2 else tensor.shape[-1] * tensor.shape[-2]
    return array(tensor.view(-1, planes * plane).view(torch.int32), wp.uint32)


def kind_of(tensor: torch.Tensor) -> Any:
    """Return Warp's name of a tensor's dtype."""
    return wp.dtype_from_torch(tensor.dtype)


def array(tensor: torch.Tensor, kind: Any = None) -> Any:
    """Return a tensor as the argument of a kernel, without Warp's own array around it: some microseconds faster."""
    return wp.from_torch(tensor, dtype=kind, requires_grad=False, return_ctype=True)
