"""A study for the tools around `isaaclab benchmark`: training.json beside each trial's record, a `TrainingBundle` of schema 1.4.

Input: records and rows. Output: trials/<number>/training.json, made anew each time by Isaac Lab's own builders. They import PyTorch and
take seconds to load, so this is a command and no part of a trial.

    envknee bundle results/<study>

Upstream: isaaclab.benchmark of Isaac Lab 3.0.0. As there, all iterations count, the cold first one too, and a GB is 2**30 bytes.
envknee's own medians, without warm-up, are in record.json beside it. `extra` has the trial's point and end, and names the differences:

measurement_scope  with several ranks, upstream reports rank 0; here a row has the slowest rank's seconds and the largest memory
not_measured       fields that the schema requires and the trial does not have: a 0 there is no measurement
"""

import argparse
import dataclasses
import functools
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from envknee.decide.read import load_measured
from envknee.record.read import read_rows
from envknee.record.schema import Device, Environment, Record, Row
from envknee.record.status import CRASHED
from envknee.study.errors import UserError
from envknee.study.paths import StudyFolder, TrialFolder

if TYPE_CHECKING:
    from isaaclab.benchmark import schema

EMA_ALPHA = 0.1
"""Weight of the newest value in a smoothed curve: the default of `isaaclab benchmark training --ema_alpha`."""

GIB_PER_GB = 1e9 / 2**30
"""envknee's GB are 1e9 bytes; the schema's are 2**30 (isaaclab/benchmark/recorders)."""

OTHER_NAMES = {"warp": "warp-lang", "mjwarp": "mujoco-warp", "rsl_rl": "rsl-rl-lib", "sb3": "stable-baselines3"}
"""Packages whose names in `Versions` differ from PyPI's."""


def bundle(record: Record, rows: Sequence[Row]) -> "schema.TrainingBundle | None":
    """Return a trial as Isaac Lab's own benchmark would; None without rows, or for a foreign command.

    `rows` are all its iterations in order, warm-up included.
    """
    from isaaclab.benchmark import builders, capture, schema
    from isaaclab.benchmark.distributed import DistributedContext

    if not rows or record.request.command is not None:  # a foreign command does not log what a bundle needs
        return None
    request, outcome = record.request, record.outcome
    assert outcome.environment is not None, "a trial with rows has an environment"
    ranks = DistributedContext(
        enabled=record.world_size > 1, world_size=record.world_size, local_world_size=request.ranks_per_node
    )
    num_envs, steps = ranks.global_work(request.num_envs, request.horizon)
    series, startup_s = _series(rows), outcome.startup_s
    times_s = [
        collect_s + learn_s for collect_s, learn_s in zip(_told(rows, "collect_s"), _told(rows, "learn_s"), strict=True)
    ]
    config = _config(request.task_id, str(request.overrides.get("presets") or "") or None)
    start = datetime.fromtimestamp(outcome.started_unix_s, UTC)
    end = start + timedelta(seconds=outcome.total_s)
    stamp = f"{end:%Y%m%dT%H%M%S}-{request.study}-{request.number:04d}"  # trials side by side end in the same second
    extra: dict[str, float | int | str | bool | None] = {
        **request.model_dump(include={"study", "arm", "kind", "repeat", "horizon", "batch_size", "target_reward"}),
        **outcome.model_dump(include={"status", "reason"}),
        **{name: getattr(record, name) for name in ("num_mini_batches", "seconds_to_target", "frames_to_target")},
        "trial": request.number,
        "not_measured": ", ".join(_not_measured(record, outcome.environment, series)) or None,
    }
    if ranks.enabled:
        extra |= ranks.bundle_metadata(workload_scope="global", num_envs_per_rank=request.num_envs)
        extra |= {"measurement_scope": "slowest_rank", "gpu_measurement_scope": "fullest_gpu"}
    return builders.build_training_bundle(
        run=builders.build_run_identity(
            run_id=capture.synth_run_id(request.trainer, config.physics_backend, request.task_id, request.seed, stamp),
            framework=request.trainer if request.trainer in get_args(schema.Framework) else None,
            config=config,
            task=request.task_id,
            seed=request.seed,
            start_utc=start.isoformat(),
            end_utc=end.isoformat(),
            status=run_status(record),
            num_envs=num_envs,
            # A learning trial has a budget of seconds, not of iterations.
            max_iterations=None if request.iterations is None else request.warmup_iterations + request.iterations,
        ),
        versions=_versions(outcome.environment),
        hardware=_hardware(outcome.environment, record.rank_devices),
        runtime=builders.build_runtime(
            startup_time_s=schema.StartupTime(
                app_launch=0.0,  # Newton needs no Isaac Sim
                env_creation=startup_s.environment if startup_s else 0.0,
                first_step=times_s[0],  # the whole first iteration, as in benchmark_train_rsl_rl.py
                python_imports=startup_s.imports if startup_s else None,
                task_config=startup_s.configuration if startup_s else None,
            ),
            iteration_times_s=times_s,
            collection_fps=_told(rows, "fps_env_step_inference"),
            total_fps=_told(rows, "fps_total"),
            steps_per_iteration=steps,
        ),
        resources=_resources(series, rows, record.rank_devices),
        learning=builders.build_learning(
            reward_series=series["learning.reward"],
            ep_length_series=series["learning.ep_length"],
            ema_alpha=EMA_ALPHA,
        ),
        extra={name: value for name, value in extra.items() if value is not None},
    )


def _told(rows: Sequence[Row], figure: str) -> list[float]:
    """Return a figure that every row of envknee's own trainers has."""
    values = [getattr(row, figure) for row in rows]
    assert None not in values, f"every row of envknee's own trainers has {figure}"
    return values


def write(trial: TrialFolder, record: Record) -> bool:
    """Write training.json of a trial, or remove it if the trial has none; return whether it has one.

    Raises:
        UserError: when a line of metrics.jsonl is truncated or does not fit.
    """
    from isaaclab.benchmark.serialize import write_bundle_file

    built = bundle(record, read_rows(trial))
    if built is None:
        trial.bundle.unlink(missing_ok=True)  # of an earlier measurement
        return False
    write_bundle_file(built, str(trial.bundle))
    return True


def run_status(record: Record) -> Literal["completed", "interrupted", "crashed"]:
    """Return how a trial with rows ended, in the schema's words.

    completed    it ran all its iterations, reached the target, or spent its budget of training
    interrupted  the launcher stopped it at limit_s
    crashed      memory ran out, or training broke (nan, diverged)

    Both timeouts have one status in an `Outcome`. The meter ends a trial at the first row past the budget, so a trial without such a
    row was stopped by its launcher.
    """
    if record.outcome.status in CRASHED:
        return "crashed"
    budget_s = record.request.budget_s
    budget_was_spent = budget_s is not None and record.train_s >= budget_s
    return "interrupted" if record.outcome.status == "timeout" and not budget_was_spent else "completed"


@functools.cache
def _config(task_id: str, presets: str | None) -> "schema.RunConfig":
    """Return physics, renderer and presets of the registered task."""
    from isaaclab.benchmark import capture

    from envknee import tasks

    env_cfg, _ = tasks.resolve(task_id, None, presets)
    names = [name.strip() for name in (presets or "").split(",") if name.strip()]  # as in isaaclab_tasks/utils/hydra.py
    return dataclasses.replace(capture.run_config_from_env_cfg(env_cfg), presets=names)


def _versions(environment: Environment) -> "schema.Versions":
    """Return the trial's versions; None for unknown ones, or "unknown" if the schema requires a word."""
    from isaaclab.benchmark import schema

    names = [field.name for field in dataclasses.fields(schema.Versions) if not field.name.startswith("git_")]
    versions: dict[str, Any] = {
        name: environment.packages.get(OTHER_NAMES.get(name, name.replace("_", "-"))) for name in names
    }
    return schema.Versions(
        **versions | {name: versions[name] or "unknown" for name in ("isaaclab", "torch")},
        git_commit=environment.git_commit,
        git_branch=environment.git_branch,
        git_dirty=bool(environment.git_dirty),
    )


def _hardware(environment: Environment, devices: Sequence[Device]) -> "schema.Hardware":
    """Return the trial's devices, and the part of its host that it could use."""
    from isaaclab.benchmark import schema

    return schema.Hardware(
        hostname=environment.host,
        gpu_devices=[
            # "Unknown" as in record_gpu_info.py
            schema.GpuDeviceInfo(device.name, device.memory_gb * GIB_PER_GB, device.compute_capability or "Unknown")
            for device in devices
            if device.type == "cuda"
        ],
        cpu_name=environment.cpu_model,
        cpu_count=environment.cpu_cores,
        ram_gb=(_host_memory_gb(environment) or 0.0) * GIB_PER_GB,
    )


def _host_memory_gb(environment: Environment) -> float | None:
    """Return the host's memory in GB (1e9 bytes); None for older trials on a GPU, which did not record it."""
    if environment.host_memory_gb is None and environment.device.type == "cpu":
        return environment.device.memory_gb
    return environment.host_memory_gb


def _series(rows: Sequence[Row]) -> dict[str, list[float]]:
    """Return the measurements of each iteration, with memory in GiB, by the field that aggregates them.

    Isaac Lab's recorders sample once a second (benchmark_monitor.py), envknee once an iteration. RSL-RL's reward is the mean of the last
    100 episodes; here it is the mean of the episodes that ended in an iteration. Iterations without one are left out.
    """
    measured: dict[str, list[float | None]] = {
        "resources.gpu_util_pct": [row.gpu_percent for row in rows],
        "resources.gpu_mem_gb": [_gib(row.memory.device_used_gb) for row in rows],
        "resources.cpu_util_pct": [row.cpu_percent for row in rows],
        "resources.ram_gb": [_gib(row.memory.rss_gb) for row in rows],
        "learning.reward": [row.reward_mean for row in rows],
        "learning.ep_length": [row.episode_length_mean for row in rows],
    }
    return {field: [value for value in values if value is not None] for field, values in measured.items()}


def _resources(series: dict[str, list[float]], rows: Sequence[Row], devices: Sequence[Device]) -> "schema.Resources":
    """Return the resources of the run, and of each GPU by its rank. With several GPUs, their loads are not measured."""
    from isaaclab.benchmark import schema
    from isaaclab.benchmark.metrics import mean_std, mean_std_peak

    gpu_util_pct, gpu_mem_gb = series["resources.gpu_util_pct"], series["resources.gpu_mem_gb"]
    gpus = [rank for rank, device in enumerate(devices) if device.type == "cuda"]
    used = dict.fromkeys(gpus, (gpu_util_pct, gpu_mem_gb))
    if len(gpus) > 1:
        parts = [(part.rank, _gib(part.memory.device_used_gb)) for row in rows for part in row.ranks or []]
        used = {gpu: ([], [gb for rank, gb in parts if rank == gpu and gb is not None]) for gpu in gpus}
    return schema.Resources(
        gpu_util_pct=mean_std(gpu_util_pct),
        gpu_mem_gb=mean_std_peak(gpu_mem_gb),
        cpu_util_pct=mean_std(series["resources.cpu_util_pct"]),
        ram_gb=mean_std_peak(series["resources.ram_gb"]),
        devices={str(gpu): schema.GpuResources(mean_std(load), mean_std_peak(gb)) for gpu, (load, gb) in used.items()},
    )


def _not_measured(record: Record, environment: Environment, series: dict[str, list[float]]) -> list[str]:
    """Return the fields that hold a 0, a False or a word only because the schema requires a value."""
    device = environment.device
    facts = {
        "versions.git_dirty": environment.git_dirty,
        "hardware.gpu_devices.compute_cap": device.compute_capability if device.type == "cuda" else "",
        "hardware.ram_gb": _host_memory_gb(environment),
        "runtime.startup_time_s.env_creation": record.outcome.startup_s,
        "resources.devices.util_pct": None if record.world_size > 1 and device.type == "cuda" else "",
    }
    missing = [field for field, fact in facts.items() if fact is None]
    return missing + [field for field, values in series.items() if not values]


def _gib(gb: float | None) -> float | None:
    return None if gb is None else gb * GIB_PER_GB


def main() -> None:
    """Write each finished trial of a study as Isaac Lab's own benchmark would: trials/<number>/training.json."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("results", type=Path, help="the folder of the study, such as results/cartpole-cpu")
    folder = StudyFolder(parser.parse_args().results)
    if folder.archive.exists():
        raise UserError(
            f"{folder.root} holds its trials in {folder.archive.name}, and training.json is written beside a trial's files."
            f" Run `envknee archive --unpack {folder.archive}`, then this command with the folder that it names"
        )
    _, records = load_measured(folder)
    try:
        written = sum(write(folder.trial(record.request.number), record) for record in records)
    except ModuleNotFoundError as error:
        raise UserError(
            f"training.json is built by Isaac Lab, and {error.name} is not installed. Run `make setup`."
        ) from error
    print(f"{folder.trials}: bundles of {written} trials written; {len(records) - written} measured no iteration")
