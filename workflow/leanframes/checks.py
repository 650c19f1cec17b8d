"""Checks the arguments of kernels before they run: errors name the tensor and its shape."""

import torch


def check_tensor(
    name: str,
    tensor: torch.Tensor,
    dtypes: tuple[torch.dtype, ...],
    shape: tuple[int | None, ...],
    device: torch.device,
    contiguous: bool = True,
) -> None:
    """Check a tensor's dtype, shape (None: any positive size), device and contiguity.

    Raises:
        TypeError: for a wrong dtype, naming the tensor.
        ValueError: for a wrong rank, size or device, or a tensor that is not contiguous, naming tensor and shape.
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
    """Check that integers of any shape are from 0 to `count` - 1.

    Raises:
        IndexError: on a CPU, naming the tensor, its shape and the first wrong index. On a GPU nothing waits for the check: CUDA stops
            with a device-side assertion, and later calls raise.
    """
    inside = indices == indices.clamp(0, count - 1)
    if not indices.is_cuda:
        if not inside.all():
            outside = indices[~inside][0].item()
            raise IndexError(f"{name} of shape {tuple(indices.shape)} holds {outside}, expected 0 to {count - 1}")
        return
    torch.ops.aten._assert_async.msg(
        inside.all(), f"{name} of shape {tuple(indices.shape)} holds an index outside 0 to {count - 1}"
    )


def check_result(dtype: torch.dtype) -> None:
    """Check the dtype of normalized images.

    Raises:
        TypeError: unless it is float32, bfloat16 or float16.
    """
    if dtype not in (torch.float32, torch.bfloat16, torch.float16):
        raise TypeError(f"dtype is {str(dtype).removeprefix('torch.')}, expected float32, bfloat16 or float16")
