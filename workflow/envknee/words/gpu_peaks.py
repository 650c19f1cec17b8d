"""The peak memory of each GPU of a command that uses several. Pure."""

from envknee.verdict.schema.study import Verdict
from envknee.words.tables import Table


def gpu_peaks_table(verdict: Verdict) -> Table:
    """Return a row for each arm and point, and a column for each GPU, in the order of CUDA_VISIBLE_DEVICES."""
    points = [(arm.arm, point) for arm in verdict.arms for point in arm.gpu_peaks]
    gpus = max((len(point.peaks_gb) for _, point in points), default=0)
    rows = [
        (
            arm, f"{point.num_envs:,}", f"{point.horizon:,}", "library" if point.batch_size is None else f"{point.batch_size:,}",
            *(f"{peak_gb:.2f}" for peak_gb in point.peaks_gb), *[""] * (gpus - len(point.peaks_gb)),
        )
        for arm, point in points
    ]  # fmt: skip
    heads = ("arm", "environments", "horizon", "batch", *(f"GPU {gpu}" for gpu in range(gpus)))
    return Table("Peak memory of each GPU, GB", heads, rows)
