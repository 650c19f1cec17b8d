"""`expandable_segments`: PyTorch's allocator grows segments instead of adding some."""

from pydantic import Field

from envknee.study.remedies import Remedy

REMEDY = Remedy(
    type=bool,
    field=Field(
        default=False,
        description="PyTorch's allocator extends segments instead of adding new ones (PYTORCH_CUDA_ALLOC_CONF).",
    ),
    environment=lambda _: {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
)
