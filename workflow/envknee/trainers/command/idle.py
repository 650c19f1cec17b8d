"""Which GPUs a foreign command left idle, of several that were locked for it. Pure.

Input: rows with the load and memory of each GPU. Output: places in CUDA_VISIBLE_DEVICES.
"""

import statistics
from collections.abc import Sequence

from envknee.record.schema import Row

BUSY_PERCENT = 1.0
"""NVML's share of time of a GPU that runs nothing stays below."""

CONTEXT_GB = 1.0
"""A process that only looks at a GPU keeps a CUDA context there, of 0.3 to 0.7 GB."""

TRACE_GB = 0.1
"""Where the load is unknown, a GPU with less than this has not even a context."""


def idle_gpus(rows: Sequence[Row]) -> list[int]:
    """Return the GPUs that did nothing while at least one worked; none where the rows do not tell GPUs apart."""
    timed = [row for row in rows if not row.warmup]
    used = [row.memory.gpus_used_gb for row in rows if row.memory.gpus_used_gb is not None]
    shares = [row.gpus_percent for row in timed if row.gpus_percent is not None]
    if not used:
        return []
    peaks_gb = [max(of_gpu) for of_gpu in zip(*used, strict=True)]
    if shares:
        percent = [statistics.fmean(of_gpu) for of_gpu in zip(*shares, strict=True)]
        pairs = zip(percent, peaks_gb, strict=True)
        idle = [gpu for gpu, (share, peak_gb) in enumerate(pairs) if share < BUSY_PERCENT and peak_gb < CONTEXT_GB]
    else:
        idle = [gpu for gpu, peak_gb in enumerate(peaks_gb) if peak_gb < TRACE_GB]
    return idle if len(idle) < len(peaks_gb) else []
