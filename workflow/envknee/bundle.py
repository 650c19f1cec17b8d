"""A trial as Isaac Lab's own benchmark would have written it: a `TrainingBundle` of isaaclab.benchmark, schema 1.4.

Input: a trial's record and rows. Output: trials/<number>/training.json beside them, a pure function of those, which the
tools around `isaaclab benchmark` read.

    python -m envknee.bundle results/<study>      write the bundles of all finished trials again

Upstream: isaaclab 3.0.0. Fields are those of isaaclab/benchmark/schema.py; what goes into them is what
entrypoints/backends/rsl_rl/benchmark_train_rsl_rl.py puts there through builders.py, metrics.py and capture.py. So all
iterations count, the cold first one too, and a GB is 2**30 bytes, as in recorders/. envknee's own medians,
which leave warm-up out, are in `extra`.

Where several ranks train together, environments, steps and FPS are those of all, as in the upstream bundle
(isaaclab/benchmark/distributed.py). Upstream takes the rest from rank 0; a row of envknee has the slowest rank's seconds
and the fullest rank's memory, which `extra.measurement_scope` and `extra.gpu_measurement_scope` say.

Some fields must be numbers where a trial has none. isaaclab.benchmark writes 0 there (`capture._find_value`,
`metrics.mean_std`, `builders._build_learning_curve`), and so does this module; `extra.not_measured` names such fields, so
that nobody takes the 0 for a measurement.
"""

import argparse
import statistics
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from envknee import space
from envknee.errors import UserError, run_command
from envknee.files import StudyFolder, TrialFolder, canonical_json, write_atomically
from envknee.record import Device, Environment, Record, Request, Row, Spread, load_records, read_rows

SCHEMA_VERSION = "1.4"
"""isaaclab.benchmark.schema.SCHEMA_VERSION of isaaclab 3.0.0."""

EMA_ALPHA = 0.1
"""Weight of the newest value in a smoothed curve: the default of `isaaclab benchmark training --ema_alpha`."""

GIB_PER_GB = 1e9 / 2**30
"""envknee's GB are 1e9 bytes; what the schema calls GB is bytes / 1024**3 (isaaclab/benchmark/recorders)."""

FRAMEWORKS = ("rsl_rl", "rl_games", "skrl", "sb3")
"""Legal values of `RunIdentity.framework`."""

PHYSICS_PRESETS = {
    "newton_mjwarp": "newton_mjwarp", "newton": "newton_mjwarp", "newton_kamino": "newton_kamino",
    "kamino": "newton_kamino", "ovphysx": "ovphysx", "isaacsim_physx": "physx", "physx": "ovphysx",
}  # fmt: skip
"""Names in `presets` that choose the physics → `RunConfig.physics_backend`. `newton` and `kamino` are Isaac Lab's older
names (isaaclab_tasks/utils/preset_target.py); `physx` alone takes OvPhysX where Isaac Sim does not run, as
here (isaaclab/physics/physics_manager_cfg.py)."""

RENDERER_PRESETS = {
    "newton_renderer": "newton", "ovrtx": "ovrtx", "ovrtx_renderer": "ovrtx", "isaacsim_rtx": "isaacsim_rtx",
    "isaacsim_rtx_renderer": "isaacsim_rtx", "rtx": "ovrtx",
}  # fmt: skip
"""Names in `presets` that choose the renderer → `RunConfig.rendering_backend`. `rtx` alone is OVRTX without Isaac Sim
(isaaclab/app/sim_launcher.py)."""

PACKAGES = {
    "isaaclab": "isaaclab", "isaacsim": "isaacsim", "newton": "newton", "warp": "warp-lang", "mjwarp": "mujoco-warp",
    "torch": "torch", "rsl_rl": "rsl-rl-lib", "rl_games": "rl-games", "skrl": "skrl", "sb3": "stable-baselines3",
    "numpy": "numpy", "isaaclab_newton": "isaaclab_newton", "isaaclab_physx": "isaaclab_physx",
    "isaaclab_ov": "isaaclab_ov", "isaaclab_tasks": "isaaclab_tasks", "isaaclab_rl": "isaaclab_rl", "ovrtx": "ovrtx",
    "ovphysx": "ovphysx", "mujoco": "mujoco", "cuda_bindings": "cuda-bindings", "usd_core": "usd-core",
    "usd_exchange": "usd-exchange",
}  # fmt: skip
"""Field of `Versions` → the package in `Environment.packages` whose version it holds (recorders/record_version_info.py)."""

Scalar = float | int | str | bool


def bundle(record: Record, rows: Sequence[Row]) -> dict[str, Any] | None:
    """Return a trial as a `TrainingBundle` of nested plain dictionaries, with exactly the fields of the schema.

    None for a trial without rows (refused, or out of memory before its first iteration ended): there is nothing to
    aggregate, and a bundle of zeros would look like a measurement.

    Args:
        record: the trial's result
        rows: all its iterations in order, warm-up included
    """
    if not rows:
        return None
    outcome = record.outcome
    assert outcome.environment is not None, "a trial with rows has run somewhere"
    series = _series(rows)
    return {
        "schema_version": SCHEMA_VERSION,
        "run": _run(record, rows),
        "versions": _versions(outcome.environment),
        "hardware": _hardware(outcome.environment, record.rank_devices),
        "runtime": _runtime(record, rows),
        "resources": _resources(series, rows, record.rank_devices),
        "learning": {
            "ema_alpha": EMA_ALPHA,
            "reward": _curve(series["learning.reward"]),
            "ep_length": _curve(series["learning.ep_length"]),
            "success_rate": None,
        },
        # A trial is measured for its time and reward: no success rate, checkpoint or video is kept.
        "success_rate": None,
        "checkpoint_path": None,
        "video_path": None,
        "extra": _extra(record, rows, series),
    }


def write(trial: TrialFolder, record: Record) -> bool:
    """Bring training.json of a trial in line with its record, and return whether it has one.

    Raises:
        UserError: when a line of metrics.jsonl is truncated or does not fit.
    """
    found = bundle(record, read_rows(trial))
    if found is None:
        trial.bundle.unlink(missing_ok=True)  # of an earlier measurement
        return False
    write_atomically(trial.bundle, canonical_json(found))
    return True


def run_status(record: Record) -> Literal["completed", "interrupted", "crashed"]:
    """Return how a trial that has rows ended, in the schema's words.

    completed    it did what was asked: all its iterations, the target, or its whole budget of training
    interrupted  it was stopped from outside, at limit_s
    crashed      memory ran out, or training broke (nan, diverged)

    Both timeouts have one status in an `Outcome`. The meter ends a trial at the first row past the budget, so one without
    such a row was stopped by its launcher.
    """
    if record.outcome.status in ("oom", "nan", "diverged"):
        return "crashed"
    budget_s = record.request.budget_s
    budget_was_spent = budget_s is not None and record.train_s >= budget_s
    return "interrupted" if record.outcome.status == "timeout" and not budget_was_spent else "completed"


# The parts of a bundle, in the order of the schema


def _run(record: Record, rows: Sequence[Row]) -> dict[str, Any]:
    """Return the `RunIdentity`. Its ID is that of `capture.synth_run_id`; study and number tell parallel trials apart."""
    request = record.request
    config = _run_config(request, rows)
    start = datetime.fromtimestamp(record.outcome.started_unix_s, UTC)
    end = start + timedelta(seconds=record.outcome.total_s)
    stamp = f"{end:%Y%m%dT%H%M%S}-{request.study}-{request.number:04d}"
    # None stands for a run without learning; a library that the schema does not know is still named in the ID.
    framework = request.trainer if request.trainer in FRAMEWORKS else None
    return {
        "run_id": f"{request.trainer}_{config['physics_backend']}_{request.task_id}_{stamp}_seed{request.seed}",
        "framework": framework,
        "config": config,
        "task": request.task_id,
        "seed": request.seed,
        "start_time_utc": start.isoformat(),
        "end_time_utc": end.isoformat(),
        "duration_s": max(0.0, (end - start).total_seconds()),
        "status": run_status(record),
        "num_envs": _total_envs(record),
        # A learning trial has a budget of seconds, not of iterations.
        "max_iterations": None if request.iterations is None else request.warmup_iterations + request.iterations,
    }


def _run_config(request: Request, rows: Sequence[Row]) -> dict[str, Any]:
    """Return the `RunConfig`, as far as a request tells it: the task's own configuration is not part of a record.

    Physics and renderer are those that `presets` names. Otherwise Newton's MuJoCo-Warp solver and Newton's Warp renderer:
    the defaults of Isaac Lab's cart-poles, and of every registered task of isaaclab 3.0.0 that runs
    without Isaac Sim, but for the two IsaacContrib-DrLegs (newton_kamino).
    """
    presets = str(request.overrides.get("presets") or "")
    names = [name.strip() for name in presets.split(",") if name.strip()]  # as in isaaclab_tasks/utils/hydra.py
    return {
        "physics_backend": _first_in(PHYSICS_PRESETS, names) or "newton_mjwarp",
        "rendering_backend": (_first_in(RENDERER_PRESETS, names) or "newton") if _has_camera(request, rows) else "none",
        "presets": names,
    }


def _has_camera(request: Request, rows: Sequence[Row]) -> bool:
    """Tell whether a camera rendered: by its time where phases were measured, else by Isaac Lab's names of tasks."""
    renders_s = [row.phases_s["render"] for row in rows if row.phases_s is not None]
    return any(renders_s) if renders_s else "Camera" in request.task_id


def _first_in(known: Mapping[str, str], names: Sequence[str]) -> str | None:
    return next((known[name] for name in names if name in known), None)


def _versions(environment: Environment) -> dict[str, Any]:
    """Return the `Versions`: None for packages that are missing, or whose version the trial did not note."""
    return {
        **{field: environment.packages.get(package) for field, package in PACKAGES.items()},
        # The two that the schema wants as text: what `capture.capture_versions` says of a version it does not know.
        "isaaclab": environment.packages.get("isaaclab", "unknown"),
        "torch": environment.packages.get("torch", "unknown"),
        "kit": None,  # Isaac Sim's application does not run
        "isaaclab_release": None,  # from a file of Isaac Lab's source, which a record does not hold
        # The checkout that the code ran from: envknee's.
        "git_commit": environment.git_commit,
        "git_branch": environment.git_branch,
        "git_dirty": bool(environment.git_dirty),  # False where unknown, as in `capture.capture_versions`
    }


def _total_envs(record: Record) -> int:
    """Return the environments of all ranks: what `distributed.DistributedContext.global_work` counts."""
    return record.request.num_envs * record.world_size


def _hardware(environment: Environment, devices: Sequence[Device]) -> dict[str, Any]:
    """Return the `Hardware`: the devices that the trial used, and what of its host it might use."""
    gpus = [
        {
            "name": device.name,
            "mem_gb": device.memory_gb * GIB_PER_GB,
            # Older trials did not note it; "Unknown" is what recorders/record_gpu_info.py says then.
            "compute_cap": device.compute_capability or "Unknown",
        }
        for device in devices
        if device.type == "cuda"
    ]
    return {
        "hostname": environment.host,
        "gpu_devices": gpus,
        "cpu_name": environment.cpu_model,
        # Isaac Lab's recorder counts the host's logical cores (os.cpu_count); envknee those that the trial may use.
        "cpu_count": environment.cpu_cores,
        "ram_gb": (_host_memory_gb(environment) or 0.0) * GIB_PER_GB,
    }


def _host_memory_gb(environment: Environment) -> float | None:
    """Return the host's memory in GB (1e9 bytes); None for older trials on a GPU, which did not note it."""
    if environment.host_memory_gb is None and environment.device.type == "cpu":
        return environment.device.memory_gb
    return environment.host_memory_gb


def _runtime(record: Record, rows: Sequence[Row]) -> dict[str, Any]:
    """Return the `Runtime`, as `builders.build_runtime` makes it of these rows."""
    startup_s = record.outcome.startup_s
    times_s = [row.collect_s + row.learn_s for row in rows]
    return {
        "startup_time_s": {
            "app_launch": 0.0,  # no application is launched: Newton needs no Isaac Sim
            "env_creation": startup_s.environment if startup_s else 0.0,
            # In a training bundle the whole first iteration goes by this name (benchmark_train_rsl_rl.py); what the first
            # environment step alone took is in `extra`.
            "first_step": times_s[0],
            # Isaac Lab's imports count as configuration here, and as imports there; the sum is the same.
            "python_imports": startup_s.imports if startup_s else None,
            "task_config": startup_s.configuration if startup_s else None,
        },
        "iterations_completed": len(rows),
        "total_wall_time_s": float(sum(times_s)),
        "steps_per_iteration": space.rollout_size(_total_envs(record), record.request.horizon),
        "iteration_time_s": _mean_std_peak(times_s),
        "collection_fps": _mean_std_peak([row.fps_env_step_inference for row in rows]),
        "total_fps": _mean_std_peak([row.fps_total for row in rows]),
        "iterations_per_s": _mean_std_peak([1.0 / time_s for time_s in times_s if time_s > 0]),
        # That is the host's clock around each environment step. envknee has the device's, summed over a rollout:
        # fps_env_step in `extra`.
        "environment_step_timing": None,
    }


def _series(rows: Sequence[Row]) -> dict[str, list[float]]:
    """Return what was measured in each iteration, by the field that aggregates it; memory in GiB.

    Isaac Lab's recorders sample once a second (benchmark_monitor.py), envknee once an iteration. RSL-RL's reward is the
    mean of the last 100 episodes; this is the mean of the whole episodes that ended in an iteration, without the
    iterations in which none did.
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


def _resources(series: Mapping[str, Sequence[float]], rows: Sequence[Row], devices: Sequence[Device]) -> dict[str, Any]:
    """Return the `Resources`; `series` is that of `_series`."""
    gpu_util_pct = _mean_std(series["resources.gpu_util_pct"])
    gpu_mem_gb = _mean_std_peak(series["resources.gpu_mem_gb"])
    return {
        "gpu_util_pct": gpu_util_pct,
        "gpu_mem_gb": gpu_mem_gb,
        "cpu_util_pct": _mean_std(series["resources.cpu_util_pct"]),
        "ram_gb": _mean_std_peak(series["resources.ram_gb"]),
        # `capture_resources` invents an idle device 0 on a machine without a GPU; the schema asks for visible devices only.
        "devices": _devices_used(rows, {"util_pct": gpu_util_pct, "mem_gb": gpu_mem_gb}, devices),
    }


def _devices_used(rows: Sequence[Row], alone: dict[str, Any], devices: Sequence[Device]) -> dict[str, Any]:
    """Return the `GpuResources` by the device's index, which is its rank's; `alone` is what one GPU has.

    Of several GPUs the load of each is not measured (`_not_measured` says so), its memory is.
    """
    gpus = [rank for rank, device in enumerate(devices) if device.type == "cuda"]
    if len(gpus) <= 1:
        return {str(rank): alone for rank in gpus}
    parts = [part for row in rows for part in row.ranks or []]
    used_gb = {rank: [part.memory.device_used_gb for part in parts if part.rank == rank] for rank in gpus}
    return {
        str(rank): {
            "util_pct": _mean_std([]),
            "mem_gb": _mean_std_peak([gb * GIB_PER_GB for gb in used_gb[rank] if gb is not None]),
        }
        for rank in gpus
    }


def _curve(values: Sequence[float]) -> dict[str, Any]:
    """Return a `LearningCurve`, as `builders.build_learning` makes it."""
    smoothed = values[0] if values else 0.0
    for value in values[1:]:
        smoothed = EMA_ALPHA * value + (1.0 - EMA_ALPHA) * smoothed
    return {"final_raw": values[-1] if values else 0.0, "final_ema": smoothed, "series_per_iter": list(values)}


def _extra(record: Record, rows: Sequence[Row], series: Mapping[str, Sequence[float]]) -> dict[str, Scalar]:
    """Return envknee's own figures for which the schema has no field; those that a trial has not are left out.

    Seconds end in `_s`; medians are over the timed iterations, without warm-up.
    """
    request, outcome, mini_batches = record.request, record.outcome, record.num_mini_batches
    batch_size = request.batch_size
    if batch_size is None and mini_batches is not None:
        batch_size = space.rollout_size(_total_envs(record), request.horizon) // mini_batches
    spreads: dict[str, Spread | None] = {
        "fps_env_step": record.fps_env_step,
        "fps_env_step_inference": record.fps_env_step_inference,
        "fps_total": record.fps_total,
        **{f"phase_{phase}_s": spread for phase, spread in (record.phases_s or {}).items()},
    }
    has_field = {"imports", "configuration", "environment"}
    stages_s = outcome.startup_s.model_dump(exclude=has_field) if outcome.startup_s else {}
    figures: dict[str, Scalar | None] = {
        "study": request.study,
        "trial": request.number,
        "arm": request.arm,
        "kind": request.kind,
        "repeat": request.repeat,
        "status": outcome.status,
        "reason": outcome.reason,
        "world_size": record.world_size,
        **_distributed(record),
        "horizon": request.horizon,
        "batch_size": batch_size,
        "num_mini_batches": mini_batches,
        "micro_batches": record.outcome.micro_batches,
        "memory_cap_gb": request.memory.memory_cap_gb,
        "warmup_iterations": sum(row.warmup for row in rows),
        "episodes": sum(row.episodes for row in rows),
        # In bytes: the record's GB are 1e9 bytes, this file's are not.
        "memory_peak_bytes": None if record.memory_peak_gb is None else round(record.memory_peak_gb * 1e9),
        "target_reward": request.target_reward,
        "seconds_to_target": record.seconds_to_target,
        "frames_to_target": record.frames_to_target,
        **{f"{name}_median": spread.median for name, spread in spreads.items() if spread is not None},
        **{f"startup_{stage}_s": seconds for stage, seconds in stages_s.items()},
        "not_measured": ", ".join(_not_measured(record, series)) or None,
    }
    return {name: value for name, value in figures.items() if value is not None}


def _distributed(record: Record) -> dict[str, Scalar]:
    """Return how several ranks were spread, in the keys of `distributed.DistributedContext.bundle_metadata`; else nothing."""
    if record.world_size == 1:
        return {}
    return {
        "distributed": True,
        "local_world_size": record.world_size,
        "num_nodes": 1,
        "workload_scope": "global",
        "measurement_scope": "slowest_rank",
        "gpu_measurement_scope": "fullest_gpu",
        "num_envs_per_rank": record.request.num_envs,
    }


def _not_measured(record: Record, series: Mapping[str, Sequence[float]]) -> list[str]:
    """Return the fields of the bundle that hold a 0, a False or a word only because the schema wants something there."""
    environment = record.outcome.environment
    assert environment is not None, "a trial with rows has run somewhere"
    device = environment.device
    facts = {
        "versions.git_dirty": environment.git_dirty,
        "hardware.gpu_devices.compute_cap": device.compute_capability if device.type == "cuda" else "",
        "hardware.ram_gb": _host_memory_gb(environment),
        "runtime.startup_time_s.env_creation": record.outcome.startup_s,
    }
    if record.world_size > 1 and device.type == "cuda":
        facts["resources.devices.util_pct"] = None
    missing = [field for field, fact in facts.items() if fact is None]
    return missing + [field for field, values in series.items() if not values]


def _gib(gb: float | None) -> float | None:
    return None if gb is None else gb * GIB_PER_GB


def _mean_std(values: Sequence[float]) -> dict[str, float | None]:
    """Return a `MeanStd` without a peak, for utilizations: `metrics.mean_std`, zeros for no values included."""
    return {
        "mean": statistics.mean(values) if values else 0.0,
        "std": statistics.stdev(values) if len(values) > 1 else 0.0,
        "peak": None,
    }


def _mean_std_peak(values: Sequence[float]) -> dict[str, float | None]:
    """Return a `MeanStd` with its peak: `metrics.mean_std_peak`, zeros for no values included."""
    return _mean_std(values) | {"peak": max(values, default=0.0)}


def main() -> None:
    """Write the bundles of all finished trials of a study again."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("results", type=Path, help="the folder of the study, such as results/cartpole-cpu")
    folder = StudyFolder(parser.parse_args().results)
    records = load_records(folder)
    if not records:
        raise UserError(
            f"{folder.root} holds no finished trial, and at least one was expected. Run `make sweep` first."
        )
    written = sum(write(folder.trial(record.request.number), record) for record in records)
    print(f"{folder.trials}: bundles of {written} trials written; {len(records) - written} measured no iteration")


if __name__ == "__main__":
    run_command(main)
