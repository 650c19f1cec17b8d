"""docs/lean.md: three alternating arms on one GPU."""

from statistics import median

from benchmarks.pages.cells import table, times
from benchmarks.pages.findings import SAME_GPU
from benchmarks.pages.published import fps_ratio, median_fps, records_of


def median_gb(arm: str, num_envs: int) -> float:
    """Return the median over an arm's trials of their peak memory at a size."""
    own = [
        record for record in records_of(SAME_GPU) if (record.request.arm, record.request.num_envs) == (arm, num_envs)
    ]
    return median(record.memory_peak_gb for record in own if record.memory_peak_gb is not None)


def three_arms() -> str:
    """Return FPS, ratio and memory by size and arm."""
    rows = []
    for size in (1024, 4096):
        for arm in ("stock", "lean", "lean-warp"):
            ratio = "1" if arm == "stock" else times(fps_ratio(SAME_GPU, arm, size)).replace(" times", "")
            fps = f"{median_fps(SAME_GPU, arm, size):,.0f}"
            rows.append((f"{size:,}", arm, fps, ratio, f"{median_gb(arm, size):.2f}"))
    return table(("environments", "arm", "FPS", "ratio", "GB"), rows)


BLOCKS = {"lean-three-arms": three_arms}
