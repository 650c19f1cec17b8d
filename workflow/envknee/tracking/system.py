"""Rows of a trial → MLflow's system metrics, of this trial's own processes and devices.

Input: rows and the environment. Output: numbers under names that MLflow's page "System metrics" shows. MLflow's own
thread would read every GPU of the host, take time from the trial, and count in steps of its own.

Names of a GPU's figures are MLflow's (mlflow.system_metrics.metrics.gpu_monitor of 3.17); GPU n is the one of rank n.
"""

from envknee.record import Device, MemoryUse, Row

PREFIX = "system/"
MB_PER_GB = 1000
"""MLflow's megabytes are millions of bytes, as GB here are billions."""


def system_metrics(row: Row, device: Device) -> dict[str, float | None]:
    """Return what an iteration used; None where it was not measured. A process's CPU load is 100 for each busy core."""
    used = {"process_cpu_percentage": row.cpu_percent, "process_memory_megabytes": row.memory.rss_gb * MB_PER_GB}
    if row.ranks:
        used = {
            "process_cpu_percentage": sum(rank.cpu_percent or 0.0 for rank in row.ranks),
            "process_memory_megabytes": sum(rank.memory.rss_gb for rank in row.ranks) * MB_PER_GB,
        }
    if device.type == "cuda":
        gpus = [(rank.gpu_percent, rank.gpu_power_w, rank.memory) for rank in row.ranks or []]
        for index, gpu in enumerate(gpus or [(row.gpu_percent, row.gpu_power_w, row.memory)]):
            used |= {f"gpu_{index}_{name}": value for name, value in _gpu(*gpu, device.memory_gb).items()}
    return {f"{PREFIX}{name}": value for name, value in used.items()}


def _gpu(
    busy_percent: float | None, power_w: float | None, memory: MemoryUse, total_gb: float
) -> dict[str, float | None]:
    used_gb = memory.device_used_gb
    return {
        "utilization_percentage": busy_percent,
        "power_usage_watts": power_w,
        "memory_usage_megabytes": None if used_gb is None else used_gb * MB_PER_GB,
        "memory_usage_percentage": None if used_gb is None else 100 * used_gb / total_gb,
    }
