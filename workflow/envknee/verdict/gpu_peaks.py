"""Peak memory of each GPU, where a foreign command uses several. Pure.

In: the records of an arm. Out: `GpuPeaks` for every point with such peaks; a trial that did not fit has no peak of its own.
"""

from collections.abc import Sequence
from itertools import zip_longest

from envknee.record.schema import Record
from envknee.verdict.memory_sample import measured_peaks
from envknee.verdict.schema.memory import GpuPeaks
from envknee.verdict.series import Series


def analyse(records: Sequence[Record]) -> list[GpuPeaks]:
    """Return the largest peaks of the repeats of each point, by horizon, batch size and num_envs."""
    points: dict[tuple[Series, int], list[list[float]]] = {}
    for record in measured_peaks(records):
        if record.gpu_peaks_gb is not None:
            series = Series("", record.request.horizon, record.request.batch_size)
            points.setdefault((series, record.request.num_envs), []).append(record.gpu_peaks_gb)
    return [
        GpuPeaks(
            horizon=series.horizon,
            batch_size=series.batch_size,
            num_envs=num_envs,
            peaks_gb=[max(repeats) for repeats in zip_longest(*peaks, fillvalue=0.0)],
        )
        for (series, num_envs), peaks in sorted(points.items(), key=lambda item: _order(*item[0]))
    ]


def _order(series: Series, num_envs: int) -> tuple[int, int, int]:
    return series.horizon, series.batch_size or 0, num_envs
