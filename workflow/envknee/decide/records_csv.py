"""records.csv: a line per trial."""

import csv
import io
from collections.abc import Sequence
from typing import Any

from envknee.record.schema import PHASES, Record, Spread
from envknee.study.errors import printable


def records_csv(records: Sequence[Record]) -> str:
    """Return one line per trial, by number. Column names hold the units; an empty cell was not measured."""
    rows = [_csv_row(record) for record in sorted(records, key=lambda record: record.request.number)]
    columns = [*CSV_COLUMNS, *sorted({name for record in records for name in record.metrics})]
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    for cells in (columns, *([row.get(column) for column in columns] for row in rows)):
        writer.writerow(map(_no_formula, cells))
    return stream.getvalue()


def _no_formula(cell: Any) -> Any:
    """Return a cell that no spreadsheet takes for a formula, and no terminal for a command: other people's texts may hold either."""
    if not isinstance(cell, str):
        return cell
    text = printable(cell, kept="\n\t")
    is_formula = text.startswith(("=", "+", "-", "@", "\t")) or cell.startswith("\r")
    return f"'{text}" if is_formula else text


CSV_COLUMNS: tuple[str, ...] = (
    "number", "study", "arm", "kind", "repeat", "num_envs", "horizon", "batch_size", "num_mini_batches", "seed", "sampler",
    "world_size", "num_envs_total", "task_id", "trainer", "status", "reason", "host", "device", "device_memory_gb", "git_commit",
    "fps_total", "fps_total_lower_quartile", "fps_total_upper_quartile", "fps_env_step_inference", "fps_env_step",
    "slowest_rank_fps_env_step_inference", "fastest_rank_fps_env_step_inference", "timed_iterations", "collect_s", "learn_s", "iteration_s",
    *(f"{phase}_s" for phase in PHASES), "memory_peak_gb", "rollout_gb", "frames", "train_s", "setup_s", "total_s",
    "target_reward", "best_reward", "final_reward", "seconds_to_target", "gpu_seconds_to_target", "frames_to_target",
    "gpu_hours", "energy_j", "job_energy_j", "queue_wait_s",
    "lost_attempts", "lost_gpu_hours",
)  # fmt: skip


def _csv_row(record: Record) -> dict[str, Any]:
    """Return by name what one trial tells: fields of request, outcome and record, and medians of timed figures."""
    total = record.fps_total
    ranks = [rank.fps_env_step_inference.median for rank in record.ranks or []]
    spreads = {name: value for name, value in record if isinstance(value, Spread)}
    special: dict[str, Any] = {
        "batch_size": "library" if record.request.batch_size is None else record.request.batch_size,
        "fps_total_lower_quartile": total.lower_quartile if total else None,
        "fps_total_upper_quartile": total.upper_quartile if total else None,
        "slowest_rank_fps_env_step_inference": min(ranks, default=None),
        "fastest_rank_fps_env_step_inference": max(ranks, default=None),
        "timed_iterations": total.iterations if total else None,
        **{f"{phase}_s": spread.median for phase, spread in (record.phases_s or {}).items()},
        **{name: spread.median for name, spread in (spreads | record.metrics).items()},
    }
    if environment := record.outcome.environment:
        special |= {"host": environment.host, "git_commit": environment.git_commit}
        special |= {"device": environment.device.name, "device_memory_gb": environment.device.memory_gb}
    plain = record.model_dump(exclude={"request", "outcome"})
    return {**record.request.model_dump(), **record.outcome.model_dump(), **plain, **special}
