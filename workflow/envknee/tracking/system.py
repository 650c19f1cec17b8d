"""MLflow's system metrics of a trial, for its own processes and devices.

Input: rows and the environment. Output: numbers for MLflow's page "System metrics". MLflow's own thread would read every GPU of the host,
take time from the trial, and have its own steps.

Names of GPU figures are MLflow's (mlflow.system_metrics.metrics.gpu_monitor of 3.17). GPU n belongs to rank n.
"""

from collections.abc import Sequence

from envknee.record.metric import metrics_of
from envknee.record.schema import Device, Load, RankRow, Row

PREFIX = "system/"
MB_PER_GB = 1000
"""MLflow's megabyte is 1e6 bytes, as our GB is 1e9 bytes."""


def system_metrics(row: Row, device: Device) -> dict[str, float | None]:
    """Return the resources of an iteration; None if not measured. A process's CPU load is 100 for each busy core."""
    ranks: Sequence[Row | RankRow] = row.ranks or [row]
    used: dict[str, float | None] = {"process_memory_megabytes": sum(rank.memory.rss_gb for rank in ranks) * MB_PER_GB}
    for name, metric in metrics_of(Load).items():
        values = [getattr(rank, name) for rank in ranks]
        known = [value for value in values if value is not None]
        if metric.system is None:
            continue
        if "{gpu}" not in metric.system:
            used[metric.system] = sum(known) if known else None
        elif device.type == "cuda":
            used |= {metric.system.format(gpu=gpu): value for gpu, value in enumerate(values)}
    # A foreign command is one rank, which may use several GPUs.
    used_by_gpu = row.memory.gpus_used_gb or [rank.memory.device_used_gb for rank in ranks]
    for gpu, used_gb in enumerate(used_by_gpu if device.type == "cuda" else []):
        used[f"gpu_{gpu}_memory_usage_megabytes"] = None if used_gb is None else used_gb * MB_PER_GB
        used[f"gpu_{gpu}_memory_usage_percentage"] = None if used_gb is None else 100 * used_gb / device.memory_gb
    return {f"{PREFIX}{name}": value for name, value in used.items()}
