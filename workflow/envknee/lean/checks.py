"""What a kernel is given, checked before it runs: errors name the tensor and its shape."""

import torch


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
            outside = indices[~inside][0].item()
            raise IndexError(f"{name} of shape {tuple(indices.shape)} holds {outside}, expected 0 to {count - 1}")
        return
    torch.ops.aten._assert_async.msg(
        inside.all(), f"{name} of shape {tuple(indices.shape)} holds one outside 0 to {count - 1}"
    )


def check_result(dtype: torch.dtype) -> None:
    """Check a dtype that normalized images are to have.

    Raises:
        TypeError: for another than float32, bfloat16 or float16.
    """
    if dtype not in (torch.float32, torch.bfloat16, torch.float16):
        raise TypeError(f"dtype is {str(dtype).removeprefix('torch.')}, expected float32, bfloat16 or float16")
