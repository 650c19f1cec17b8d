"""training.json: valid for Isaac Lab's own schema, with the numbers that its own builders make of the same series."""

import dataclasses
import functools
import json
import math
import statistics
import types
import typing
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, Workspace, a_trial
from envknee import launch, tasks
from envknee.bundle import EMA_ALPHA, PACKAGES, bundle, write
from envknee.files import StudyFolder, TrialFolder, canonical_json
from envknee.record import (
    Device,
    Environment,
    Failure,
    MemoryUse,
    Outcome,
    RankResult,
    RankRow,
    Record,
    Request,
    Row,
    StartUp,
    Status,
    build_record,
    load_records,
    read_rows,
)
from isaaclab.benchmark import builders, capture, schema
from isaaclab.benchmark.distributed import DistributedContext
from isaaclab.benchmark.interfaces import MeasurementData
from isaaclab.benchmark.measurements import DictMetadata, FloatMetadata, IntMetadata, SingleMeasurement, StringMetadata
from isaaclab.benchmark.schema import StartupTime, TrainingBundle
from isaaclab.benchmark.serialize import write_bundle_file

GOLDEN = StudyFolder(ROOT / "results-published/cartpole-one-gpu")
GIB = 2**30

H100 = Device(
    type="cuda", name="NVIDIA H100", uuid="GPU-1", memory_gb=85.0, compute_capability="9.0", driver="580.95"
)  # fmt: skip
CPU = Device(type="cpu", name="AMD EPYC", uuid=None, memory_gb=25.3)
STARTUP_S = {"imports": 2.0, "configuration": 3.0, "environment": 4.0, "learner": 0.5, "first_step": 0.25}


# Every recorded trial


@functools.cache
def recorded() -> list[tuple[Record, list[Row]]]:
    """The H100 study with its rows, which older versions of envknee wrote: much of today's was not noted then."""
    return [(record, read_rows(GOLDEN.trial(record.request.number))) for record in load_records(GOLDEN)]


def test_every_recorded_trial_with_rows_has_a_valid_bundle():
    bundles = [bundle(record, rows) for record, rows in recorded()]
    assert [number for number, (_, rows) in enumerate(recorded()) if not rows] == [
        number for number, found in enumerate(bundles) if found is None
    ]
    valid = [validated(found) for found in bundles if found is not None]
    assert len(valid) == 32
    assert len({found.run.run_id for found in valid}) == 32
    assert {found.run.status for found in valid} == {"completed"}
    assert {found.extra["status"] for found in valid if found.extra} == {"ok", "target_reached"}


def test_every_recorded_trial_has_the_numbers_of_isaac_lab_s_builders(tmp_path):
    for record, rows in recorded():
        found = bundle(record, rows)
        if found is not None:
            assert_as_isaac_lab_builds_it(found, record, rows, tmp_path)


def test_a_recorded_trial_in_full():
    record, rows = recorded()[0]
    found = validated(bundle(record, rows))
    assert found.run.run_id == (
        "rsl_rl_newton_mjwarp_Isaac-Cartpole-Camera-Direct_20261121T120543-cartpole-one-gpu-0000_seed802432342"
    )
    assert found.run.config == schema.RunConfig("newton_mjwarp", "newton", [])
    assert (found.run.num_envs, found.run.max_iterations, found.run.framework) == (4096, 6, "rsl_rl")
    assert found.hardware.gpu_devices == [
        schema.GpuDeviceInfo("NVIDIA H100 80GB HBM3", 85.017493504e9 / GIB, "Unknown")
    ]
    assert found.runtime.steps_per_iteration == 4096 * 32
    assert found.runtime.iterations_completed == 6  # the two of warm-up too, as Isaac Lab counts
    assert found.runtime.startup_time_s == StartupTime(0.0, 0.0, rows[0].collect_s + rows[0].learn_s)
    assert found.resources.gpu_mem_gb.peak == 38.546505728e9 / GIB
    assert found.learning.reward.series_per_iter == [row.reward_mean for row in rows[1:]]  # none ended in the first
    assert found.extra is not None
    assert found.extra["memory_peak_bytes"] == 38_546_505_728
    assert found.extra["batch_size"] == 4096 * 32 // 16  # the library's own
    assert found.extra["fps_total_median"] == record.fps_total.median if record.fps_total else None
    assert found.extra["not_measured"] == (
        "hardware.gpu_devices.compute_cap, hardware.ram_gb, runtime.startup_time_s.env_creation,"
        " resources.gpu_util_pct, resources.cpu_util_pct"
    )


def test_a_recorded_learning_trial_says_when_it_reached_the_target():
    record, rows = next((record, rows) for record, rows in recorded() if record.seconds_to_target is not None)
    found = validated(bundle(record, rows))
    assert found.extra is not None
    assert found.extra["seconds_to_target"] == record.seconds_to_target
    assert found.extra["frames_to_target"] == record.frames_to_target
    assert found.extra["target_reward"] == 4.5
    assert found.run.max_iterations is None  # its budget is seconds


# A real trial


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> tuple[TrialFolder, Record]:
    """A trial measured on this machine's CPU, in episodes of 12 steps, so that some end."""
    small = {"env.scene.tiled_camera.width": 24, "env.scene.tiled_camera.height": 24, "env.episode_length_s": 0.2}
    trial = a_trial(
        tmp_path_factory.mktemp("study") / "trials/0000", horizon=16, iterations=3, warmup_iterations=1, overrides=small
    )
    return trial, launch.launch(trial)


def test_a_real_trial_has_a_valid_bundle(tiny: tuple[TrialFolder, Record], tmp_path: Path):
    trial, record = tiny
    plain = json.loads(trial.bundle.read_text(encoding="utf-8"))
    found = validated(plain)
    assert_as_isaac_lab_builds_it(plain, record, read_rows(trial), tmp_path)
    assert found.run.config.rendering_backend == "newton"
    assert found.hardware.gpu_devices == [] and found.resources.devices == {}
    assert found.resources.cpu_util_pct.mean > 0 and found.resources.ram_gb.mean > 0.2
    assert found.learning.reward.series_per_iter and found.learning.ep_length.final_raw == 12
    startup, startup_s = found.runtime.startup_time_s, record.outcome.startup_s
    assert startup_s is not None
    assert (startup.env_creation, startup.python_imports) == (startup_s.environment, startup_s.imports)
    assert startup.task_config == startup_s.configuration
    assert found.extra is not None
    assert found.extra["startup_first_step_s"] == startup_s.first_step
    assert found.extra["warmup_iterations"] == 1
    assert {f"phase_{phase}_s_median" for phase in record.phases_s or {}} <= set(found.extra)
    assert found.extra["not_measured"] == "resources.gpu_util_pct, resources.gpu_mem_gb"


def test_versions_of_a_real_trial_are_those_that_isaac_lab_finds(tiny: tuple[TrialFolder, Record]):
    from isaaclab.benchmark.recorders import VersionInfoRecorder

    trial, record = tiny
    recorders = {"VersionInfo": VersionInfoRecorder()}
    theirs = dataclasses.asdict(capture.capture_versions(types.SimpleNamespace(_manual_recorders=recorders)))
    ours = dataclasses.asdict(validated(bundle(record, read_rows(trial))).versions)
    assert record.outcome.environment is not None
    noted = {field for field, package in PACKAGES.items() if package in record.outcome.environment.packages}
    assert {"isaaclab", "newton", "warp", "mjwarp", "torch", "rsl_rl", "numpy", "mujoco"} <= noted
    assert {field: ours[field] for field in noted} == {field: theirs[field] for field in noted}


def test_the_command_writes_the_same_bundles_again(tiny: tuple[TrialFolder, Record], tmp_path: Path):
    trial, _ = tiny
    written = trial.bundle.read_bytes()
    trial.bundle.unlink()
    study = trial.root.parent.parent
    result = Workspace(tmp_path).module("bundle", str(study))
    assert result.returncode == 0, result.stdout
    assert result.stdout == f"{study}/trials: bundles of 1 trials written; 0 measured no iteration\n"
    assert trial.bundle.read_bytes() == written


@pytest.mark.parametrize("there", [True, False])
def test_the_command_says_where_nothing_is_to_be_written(tmp_path: Path, there: bool):
    study = tmp_path / "study"
    if there:
        (study / "trials").mkdir(parents=True)
    result = Workspace(tmp_path).module("bundle", str(study))
    assert result.returncode == 2
    assert "holds no finished trial" in result.stdout if there else "holds no trials" in result.stdout


# Trials made by hand


def test_a_trial_without_rows_has_no_bundle(tmp_path: Path):
    record, rows = measured(status="oom", rows=0, startup_s=None)
    assert bundle(record, rows) is None
    trial = TrialFolder(tmp_path)
    trial.bundle.write_text("of an earlier measurement")
    assert not write(trial, record)
    assert not trial.bundle.exists()
    record, rows = measured(status="refused", rows=0, startup_s=None)
    assert (
        bundle(record.model_copy(update={"outcome": record.outcome.model_copy(update={"environment": None})}), rows)
        is None
    )


def test_memory_that_runs_out_after_some_rows_is_a_crash(tmp_path: Path):
    record, rows = measured(status="oom", rows=2, startup_s=None, num_mini_batches=None)
    found = bundle(record, rows)
    valid = validated(found)
    assert valid.run.status == "crashed"
    assert valid.runtime.iterations_completed == 2
    assert valid.extra is not None
    assert valid.extra["status"] == "oom" and valid.extra["reason"] == "why it ended: oom"
    assert "num_mini_batches" not in valid.extra and valid.extra["batch_size"] == 64
    assert valid.extra["not_measured"] == "runtime.startup_time_s.env_creation"
    assert_as_isaac_lab_builds_it(found, record, rows, tmp_path)


def test_no_finished_episode_is_an_empty_curve(tmp_path: Path):
    record, rows = measured(reward=None)
    found = bundle(record, rows)
    empty = schema.LearningCurve(final_raw=0.0, final_ema=0.0, series_per_iter=[])
    valid = validated(found)
    assert valid.learning == schema.Learning(ema_alpha=EMA_ALPHA, reward=empty, ep_length=empty)
    assert valid.extra is not None
    assert valid.extra["episodes"] == 0
    assert valid.extra["not_measured"] == "learning.reward, learning.ep_length"
    assert_as_isaac_lab_builds_it(found, record, rows, tmp_path)


def test_a_single_row_has_no_deviation(tmp_path: Path):
    record, rows = measured(rows=1)
    found = bundle(record, rows)
    assert validated(found).runtime.iteration_time_s == schema.MeanStd(3.0, 0.0, 3.0)
    assert_as_isaac_lab_builds_it(found, record, rows, tmp_path)


def test_a_gpu_s_load_and_memory_stand_for_device_0(tmp_path: Path):
    record, rows = measured()
    found = bundle(record, rows)
    resources = validated(found).resources
    # Loads of 90, 91 and 92%; memory of 10, 11 and 12 GB of 1e9 bytes.
    assert resources.gpu_util_pct == schema.MeanStd(91.0, 1.0)
    assert resources.gpu_mem_gb.mean == pytest.approx(11e9 / GIB)
    assert resources.gpu_mem_gb.peak == pytest.approx(12e9 / GIB)
    assert resources.devices == {"0": schema.GpuResources(resources.gpu_util_pct, resources.gpu_mem_gb)}
    assert "not_measured" not in found["extra"] if found else False
    assert_as_isaac_lab_builds_it(found, record, rows, tmp_path)


def test_a_library_s_own_batch_is_told():
    record, rows = measured(batch_size=None, num_mini_batches=8)
    assert (validated(bundle(record, rows)).extra or {})["batch_size"] == 16 * 8 // 8


# Several ranks


def test_environments_steps_and_fps_are_those_of_all_ranks():
    record, rows = measured(gpus=2, num_envs=8)  # 8 on each: as many transitions as 16 on one
    valid = validated(bundle(record, rows))
    whole = DistributedContext(enabled=True, world_size=2, local_world_size=2)
    assert (valid.run.num_envs, valid.runtime.steps_per_iteration) == whole.global_work(8, 8) == (16, 128)
    assert valid.extra is not None
    theirs = whole.bundle_metadata(workload_scope="global", num_envs_per_rank=8)
    scopes = {"measurement_scope", "gpu_measurement_scope"}  # not rank 0's
    assert {key: valid.extra[key] for key in theirs.keys() - scopes} == {
        key: value for key, value in theirs.items() if key not in scopes
    }
    assert {valid.extra[scope] for scope in scopes} == {"slowest_rank", "fullest_gpu"}
    assert valid.extra["batch_size"] == 64


def test_several_ranks_on_a_cpu_have_the_numbers_of_isaac_lab_s_builders(tmp_path: Path):
    record, rows = measured(gpus=0, cpu_ranks=2, num_envs=8, device=CPU)
    rows = [
        row.model_copy(update={"gpu_percent": None, "memory": row.memory.model_copy(update={"device_used_gb": None})})
        for row in rows
    ]
    assert_as_isaac_lab_builds_it(bundle(record, rows), record, rows, tmp_path)


def test_a_library_s_own_batch_of_two_ranks_is_that_of_both():
    record, rows = measured(batch_size=None, num_mini_batches=8, gpus=2)
    assert (validated(bundle(record, rows)).extra or {})["batch_size"] == 2 * 16 * 8 // 8


def test_every_gpu_has_its_own_memory_and_no_load_of_its_own():
    record, rows = measured(gpus=2)
    used_gb = {0: [10.0, 11.0, 12.0], 1: [9.0, 9.0, 9.0]}
    rows = [
        row.model_copy(update={"ranks": [a_rank(row, rank, used_gb[rank][place]) for rank in used_gb]})
        for place, row in enumerate(rows)
    ]
    other = H100.model_copy(update={"name": "NVIDIA H200", "uuid": "GPU-2"})
    ranks = [
        RankResult(rank=rank, status="ok", device=device, startup_s=None, memory_map=None, micro_batches=None)
        for rank, device in enumerate((H100, other))
    ]
    valid = validated(
        bundle(build_record(record.request, rows, record.outcome.model_copy(update={"ranks": ranks})), rows)
    )
    assert [gpu.name for gpu in valid.hardware.gpu_devices] == ["NVIDIA H100", "NVIDIA H200"]
    assert valid.resources.gpu_mem_gb.peak == pytest.approx(12e9 / GIB)  # the fuller one's
    assert {rank: used.mem_gb.peak for rank, used in valid.resources.devices.items()} == {
        "0": pytest.approx(12e9 / GIB), "1": pytest.approx(9e9 / GIB)
    }  # fmt: skip
    assert valid.resources.gpu_util_pct.mean == 91.0
    assert (valid.extra or {})["not_measured"] == "resources.devices.util_pct"
    # A rank that broke at its start told no other rank's device: GPUs of one machine are alike until shown otherwise.
    assert [gpu.name for gpu in validated(bundle(record, rows)).hardware.gpu_devices] == ["NVIDIA H100"] * 2


def test_one_rank_says_nothing_of_distribution():
    extra = validated(bundle(*measured())).extra or {}
    assert extra["world_size"] == 1
    assert not {"distributed", "num_envs_per_rank", "measurement_scope"} & extra.keys()


LEARNING = {"kind": "learning", "iterations": None, "target_reward": 4.0, "target_episodes": 10}


@pytest.mark.parametrize(
    ("status", "changes", "expected"),
    [
        ("ok", {}, "completed"),
        ("target_reached", {**LEARNING, "budget_s": 60.0}, "completed"),
        # Three rows of 3 s: the budget of 8 s was spent in the third, that of 60 s was not.
        ("timeout", {**LEARNING, "budget_s": 8.0}, "completed"),
        ("timeout", {**LEARNING, "budget_s": 60.0}, "interrupted"),
        ("timeout", {}, "interrupted"),  # a throughput trial has no budget
        ("oom", {}, "crashed"),
        ("nan", {}, "crashed"),
        ("diverged", {}, "crashed"),
    ],
)
def test_how_a_trial_ended_in_the_schema_s_words(status: Status, changes: dict[str, Any], expected: str):
    assert validated(bundle(*measured(status=status, **changes))).run.status == expected


@pytest.mark.filterwarnings("ignore::FutureWarning")  # of Isaac Lab's older names
@pytest.mark.parametrize(
    ("task_id", "presets"),
    [
        ("Isaac-Cartpole-Camera-Direct", None),
        ("Isaac-Cartpole-Camera", None),
        ("Isaac-Cartpole-Direct", None),
        ("Isaac-Cartpole-Camera", "newton_mjwarp"),
        ("Isaac-Cartpole-Camera-Direct", "newton_kamino"),
        ("Isaac-Cartpole-Direct", "kamino"),
        ("Isaac-Cartpole-Camera-Direct", "newton, depth"),
        ("Isaac-Cartpole-Camera-Direct", "ovphysx,depth,ovrtx_renderer"),
        ("Isaac-Cartpole-Camera-Direct", "isaacsim_physx,isaacsim_rtx"),
        ("Isaac-Cartpole-Camera-Direct", "newton_renderer"),
    ],
)
def test_physics_and_renderer_are_those_that_isaac_lab_finds(task_id: str, presets: str | None):
    env_cfg, _ = tasks.resolve(task_id, None, presets)
    theirs = capture.run_config_from_env_cfg(env_cfg)
    record, rows = measured(task_id=task_id, overrides={} if presets is None else {"presets": presets})
    ours = validated(bundle(record, rows)).run.config
    assert dataclasses.replace(ours, presets=[]) == theirs
    assert ours.presets == ([] if presets is None else [name.strip() for name in presets.split(",")])


def test_automatic_presets_are_what_isaac_lab_takes_without_isaac_sim():
    from isaaclab.sim.simulation_context import _resolve_physics_cfg

    env_cfg, _ = tasks.resolve("Isaac-Cartpole-Camera-Direct", None, "physx,rtx")
    env_cfg.sim.physics = _resolve_physics_cfg(env_cfg.sim.physics, use_isaac_sim=False)
    record, rows = measured(overrides={"presets": "physx,rtx"})
    config = validated(bundle(record, rows)).run.config
    assert config.physics_backend == capture.run_config_from_env_cfg(env_cfg).physics_backend == "ovphysx"
    assert config.rendering_backend == "ovrtx"


def test_whether_a_camera_rendered_is_read_off_its_time():
    phases_s = dict.fromkeys(("physics", "observation", "inference", "storage", "learning", "other"), 0.1)
    with_camera, without = phases_s | {"render": 0.1}, phases_s | {"render": 0.0}
    for task_id in ("Isaac-Cartpole-Camera-Direct", "Isaac-Cartpole-Direct"):
        record, rows = measured(task_id=task_id, phases_s=with_camera)
        assert validated(bundle(record, rows)).run.config.rendering_backend == "newton"
        record, rows = measured(task_id=task_id, phases_s=without)
        assert validated(bundle(record, rows)).run.config.rendering_backend == "none"


# The check of the schema itself


def changed(path: str, value: Any) -> dict[str, Any]:
    """Return a valid bundle with one field, named by its dotted path, set to something else; ... takes it away."""
    plain = json.loads(canonical_json(bundle(*measured())))
    holder = plain
    *parents, field = path.split(".")
    for parent in parents:
        holder = holder[parent]
    if value is ...:
        del holder[field]
    else:
        holder[field] = value
    return plain


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("run.surprise", 1),
        ("extra", ...),
        ("run.config.presets", ...),
        ("runtime.iterations_completed", 3.0),
        ("runtime.total_wall_time_s", 9),
        ("runtime.total_wall_time_s", True),
        ("runtime.iteration_time_s.mean", "3"),
        ("runtime.iteration_time_s.peak", 1.0),  # below its mean: the schema's own check
        ("runtime.iteration_time_s.std", None),
        ("resources.devices.0.util_pct", {}),
        ("learning.reward.series_per_iter", [1.0, None]),
        ("versions.git_dirty", None),
        ("run.status", "ok"),
        ("run.duration_s", -1.0),  # the schema's own check
        ("run.config.physics_backend", "newton"),
        ("extra.phases", {"physics": 1.0}),
        ("hardware.gpu_devices", {}),
        ("schema_version", "1.3"),
    ],
)
def test_what_does_not_fit_the_schema_is_found(path: str, value: Any):
    with pytest.raises((TypeError, ValueError)):
        validated(changed(path, value))


# Helpers


def validated(plain: dict[str, Any] | None) -> TrainingBundle:
    """Return a bundle's JSON as Isaac Lab's dataclasses; raises TypeError or ValueError for whatever does not fit."""
    found = built(TrainingBundle, json.loads(canonical_json(plain)), "bundle")
    if found.schema_version != schema.SCHEMA_VERSION:
        raise ValueError(f"schema_version is {found.schema_version}, and {schema.SCHEMA_VERSION} was expected")
    return found


def built(kind: Any, plain: Any, path: str) -> Any:
    """Return `plain` as an object of the type `kind`, made recursively by type hints, without any conversion."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        hints = typing.get_type_hints(kind)
        names = {field.name for field in dataclasses.fields(kind)}
        if not isinstance(plain, dict) or set(plain) != names:
            raise TypeError(f"{path}: {plain!r} has not the fields {sorted(names)}")
        return kind(**{name: built(hints[name], plain[name], f"{path}.{name}") for name in names})
    if origin in (typing.Union, types.UnionType):
        for argument in arguments:
            try:
                return built(argument, plain, path)
            except TypeError:
                continue
    elif origin is typing.Literal:
        if plain in arguments:
            return plain
    elif origin is list and isinstance(plain, list):
        return [built(arguments[0], value, f"{path}[{place}]") for place, value in enumerate(plain)]
    elif origin is dict and isinstance(plain, dict):
        return {
            built(arguments[0], key, path): built(arguments[1], value, f"{path}.{key}") for key, value in plain.items()
        }
    elif origin is None and type(plain) is kind and (kind is not float or math.isfinite(plain)):
        return plain
    raise TypeError(f"{path}: {plain!r} is no {kind}")


def assert_as_isaac_lab_builds_it(
    found: dict[str, Any] | None, record: Record, rows: Sequence[Row], folder: Path
) -> None:
    """Compare a whole bundle, byte for byte, with what Isaac Lab's builders and serializer make of the same series."""
    assert found is not None
    request, outcome, startup_s = record.request, record.outcome, record.outcome.startup_s
    environment = outcome.environment
    assert environment is not None
    times_s = [row.collect_s + row.learn_s for row in rows]
    whole = DistributedContext(world_size=record.world_size, local_world_size=record.world_size)
    num_envs, steps = whole.global_work(request.num_envs, request.horizon)
    ours = validated(found)
    config = builders.build_run_config("newton_mjwarp", "newton")
    stamp = ours.run.end_time_utc.translate(str.maketrans("", "", ":-"))[:15]
    recorders = fake_recorders(environment, rows)
    theirs = builders.build_training_bundle(
        run=builders.build_run_identity(
            run_id=capture.synth_run_id(
                "rsl_rl",
                "newton_mjwarp",
                request.task_id,
                request.seed,
                f"{stamp}-{request.study}-{request.number:04d}",
            ),
            framework="rsl_rl",
            config=config,
            task=request.task_id,
            seed=request.seed,
            start_utc=ours.run.start_time_utc,
            end_utc=ours.run.end_time_utc,
            status=ours.run.status,
            num_envs=num_envs,
            max_iterations=request.warmup_iterations + request.iterations if request.iterations else None,
        ),
        versions=capture.capture_versions(recorders),
        hardware=dataclasses.replace(capture.capture_hardware(recorders), hostname=environment.host),
        runtime=builders.build_runtime(
            startup_time_s=StartupTime(
                app_launch=0.0,
                env_creation=startup_s.environment if startup_s else 0.0,
                first_step=times_s[0],
                python_imports=startup_s.imports if startup_s else None,
                task_config=startup_s.configuration if startup_s else None,
            ),
            iteration_times_s=times_s,
            collection_fps=[row.fps_env_step_inference for row in rows],
            total_fps=[row.fps_total for row in rows],
            steps_per_iteration=steps,
        ),
        resources=capture.capture_resources(recorders),
        learning=builders.build_learning(
            reward_series=[row.reward_mean for row in rows if row.reward_mean is not None],
            ep_length_series=[row.episode_length_mean for row in rows if row.episode_length_mean is not None],
            ema_alpha=0.1,
        ),
        extra=dict(ours.extra or {}),
    )
    write_bundle_file(theirs, str(folder / "theirs.json"))
    assert json.loads(canonical_json(found)) == json.loads((folder / "theirs.json").read_text(encoding="utf-8"))
    assert ours == theirs
    # The times that Isaac Lab takes its duration and FPS from are those of the record and the rows.
    assert ours.run.duration_s == pytest.approx(outcome.total_s, abs=1e-5)
    assert [row.fps_total for row in rows] == pytest.approx([steps / time_s for time_s in times_s])
    assert [row.fps_env_step_inference for row in rows] == pytest.approx([steps / row.collect_s for row in rows])


def fake_recorders(environment: Environment, rows: Sequence[Row]) -> Any:
    """Return what Isaac Lab's recorders would have said of a trial, for `isaaclab.benchmark.capture`."""
    device = environment.device
    packages = {
        "isaaclab": "isaaclab", "newton": "newton", "warp": "warp-lang", "mujoco_warp": "mujoco-warp", "torch": "torch",
        "rsl_rl": "rsl-rl-lib", "rl_games": "rl-games", "skrl": "skrl", "stable_baselines3": "stable-baselines3",
        "numpy": "numpy", "mujoco": "mujoco", "usd_exchange": "usd-exchange",
    }  # fmt: skip
    versions = [
        StringMetadata(name=f"{name}_version", data=environment.packages[package])
        for name, package in packages.items()
        if package in environment.packages
    ]
    git = {
        "commit_hash": environment.git_commit, "branch": environment.git_branch, "dirty": bool(environment.git_dirty)
    }  # fmt: skip
    ram_gb = environment.host_memory_gb or (device.memory_gb if device.type == "cpu" else 0.0)
    recorders = {
        "VersionInfo": ([], [*versions, DictMetadata(name="dev", data=git)]),
        "CPUInfo": (
            statistics_of("CPU Utilization", [row.cpu_percent for row in rows]),
            [
                StringMetadata(name="cpu_name", data=environment.cpu_model),
                IntMetadata(name="physical_cores", data=environment.cpu_cores),
            ],
        ),
        "MemoryInfo": (
            statistics_of("System Memory RSS", [in_gib(row.memory.rss_gb) for row in rows], peak=True),
            [FloatMetadata(name="total_ram_gb", data=in_gib(ram_gb) or 0.0)],
        ),
    }
    if device.type == "cuda":
        gpu = {
            "name": device.name,
            "total_memory_gb": in_gib(device.memory_gb),
            "compute_capability": device.compute_capability or "Unknown",
        }
        recorders["GPUInfo"] = (
            [
                *statistics_of("GPU Memory Used", [in_gib(row.memory.device_used_gb) for row in rows], peak=True),
                *statistics_of("GPU Utilization", [row.gpu_percent for row in rows]),
            ],
            [
                IntMetadata(name="gpu_device_count", data=1),
                IntMetadata(name="gpu_current_device", data=0),
                DictMetadata(name="gpu_devices", data={"0": gpu}),
            ],
        )
    found = {
        name: types.SimpleNamespace(get_data=functools.partial(MeasurementData, measurements, metadata))
        for name, (measurements, metadata) in recorders.items()
    }
    return types.SimpleNamespace(_manual_recorders=found)


def statistics_of(name: str, values: Sequence[float | None], peak: bool = False) -> list[SingleMeasurement]:
    """Return the measurements of a recorder that sampled `values`; none where it sampled nothing."""
    sampled = [value for value in values if value is not None]
    if not sampled:
        return []
    found = {
        name: statistics.mean(sampled),
        f"{name} std": statistics.stdev(sampled) if len(sampled) > 1 else 0.0,
        **({f"{name} peak": max(sampled)} if peak else {}),
    }
    return [SingleMeasurement(name=key, value=value, unit="") for key, value in found.items()]


def in_gib(gb: float | None) -> float | None:
    return None if gb is None else gb * (1e9 / GIB)


def measured(
    *,
    status: Status = "ok",
    rows: int = 3,
    reward: float | None = 1.0,
    startup_s: dict[str, float] | None = STARTUP_S,
    num_mini_batches: int | None = 2,
    phases_s: dict[str, float] | None = None,
    device: Device = H100,
    **request: Any,
) -> tuple[Record, list[Row]]:
    """Return the record and the rows of a trial of 16 environments on a horizon of 8, with iterations of 3 s."""
    asked = {
        "study": "by-hand", "number": 7, "arm": "stock", "kind": "throughput", "repeat": 0, "num_envs": 16, "horizon": 8,
        "batch_size": 64, "seed": 7, "task_id": "Isaac-Cartpole-Camera-Direct", "asset": "local", "overrides": {},
        "trainer": "rsl_rl", "gpus": "auto", "warmup_iterations": 1, "iterations": 2, "target_reward": None,
        "target_episodes": None, "budget_s": None, "limit_s": 240.0, "sampler": "grid", "refusal": None,
    }  # fmt: skip
    stages = {stage: 0.125 for stage in StartUp.model_fields} | (startup_s or {})
    outcome = Outcome(
        request_sha256="0" * 64, metrics_sha256=None, status=status, reason=f"why it ended: {status}",
        failure=Failure(iteration=rows, tensor=None, env_indices=[], dump=None) if status == "oom" else None,
        environment=Environment(
            host="node1", device=device, cpu_model="AMD EPYC", cpu_cores=16, cpu_threads=8, python="3.11.7",
            packages={"isaaclab": "3.0.0", "torch": "2.11.0", "rsl-rl-lib": "5.5.1"}, git_commit="0" * 40,
            git_dirty=True, git_branch="main", host_memory_gb=256.0,
        ),
        started_unix_s=1_700_000_000.25, setup_s=None, total_s=30.0, num_mini_batches=num_mini_batches, rollout_gb=0.1,
        startup_s=None if startup_s is None else StartUp.model_validate(stages),
    )  # fmt: skip
    made = [a_row(number, reward, phases_s) for number in range(rows)]
    return build_record(Request.model_validate(asked | request), made, outcome), made


def a_rank(row: Row, rank: int, used_gb: float) -> RankRow:
    """Return one rank's part of an iteration that used this much of its GPU."""
    memory = row.memory.model_copy(update={"device_used_gb": used_gb})
    return RankRow(
        rank=rank, iteration_s=3.0, env_step_s=0.5, collect_s=1.0, learn_s=2.0, phases_s=None, episodes=2, memory=memory
    )  # fmt: skip


def a_row(number: int, reward: float | None, phases_s: dict[str, float] | None) -> Row:
    return Row.model_validate(
        {
            "iteration": number, "warmup": number == 0, "frames": (number + 1) * 128, "wall_s": 3.0 * (number + 1),
            "unix_time_s": 1_700_000_010.0 + 3.0 * number, "phases_s": phases_s, "env_step_s": 0.5, "collect_s": 1.0,
            "learn_s": 2.0, "fps_env_step": 256.0, "fps_env_step_inference": 128.0, "fps_total": 128 / 3,
            "reward_mean": reward, "episode_length_mean": None if reward is None else 50.0,
            "episodes": 0 if reward is None else 4, "losses": {"value": 0.1}, "learning_rate": 3e-4, "action_std": 1.0,
            "memory": MemoryUse(rss_gb=2.0, peak_rss_gb=3.0, device_used_gb=10.0 + number),
            "cpu_percent": 100.0, "gpu_percent": 90.0 + number,
        }
    )  # fmt: skip
