"""Recognizes that memory ran out by the exceptions of the libraries that a learner calls."""

import torch

TEXTS = ("can't allocate memory", "failed to allocate", "out of memory", "cudaerrormemoryallocation", "alloc_failed")
"""Lower-case parts of a RuntimeError about memory: from PyTorch's CPU allocator, Warp 1.17 ("Failed to allocate N bytes on device"),
CUDA, cuBLAS and cuDNN (CUBLAS_STATUS_ALLOC_FAILED)."""


def is_out_of_memory(error: BaseException) -> bool:
    """Tell whether an exception means that memory of the device or the host ran out."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(text in str(error).lower() for text in TEXTS)
