"""training.json fits Isaac Lab's own schema, and says what a trial measured and what it did not."""

from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest
from envknee.after.isaaclab_export import bundle, main, run_status, write
from envknee.record.schema import RankRow, Row
from envknee.record.status import Status
from envknee.study.errors import UserError
from envknee.study.paths import TrialFolder
from isaaclab.benchmark import schema
from isaaclab.benchmark.schema import TrainingBundle
from isaaclab.benchmark.serialize import write_bundle_file
from programs import run_main
from published import PUBLISHED, as_measured
from pydantic import TypeAdapter
from records import CPU, GPU, Trial, a_trial

GIB = 2**30
Part = TypeVar("Part", Row, RankRow)


def read(path: Path) -> TrainingBundle:
    """Return a bundle's file as the schema's dataclasses; every type is checked, and nothing converted."""
    return TypeAdapter(TrainingBundle).validate_json(path.read_text(encoding="utf-8"), strict=True)


def of(trial: Trial, folder: Path, **outcome: Any) -> tuple[TrainingBundle, dict[str, Any]]:
    """Return the bundle of a trial with this outcome as its file has it, and its figures of envknee's own."""
    made = bundle(trial.ended(**outcome).record, trial.rows)
    write_bundle_file(made, str(folder / "training.json"))
    as_read = read(folder / "training.json")
    assert as_read == made and as_read.extra is not None
    return as_read, as_read.extra


def using(trial: Trial, gpu_percent: list[float], used_gb: list[float]) -> Trial:
    """Return the trial with these loads and this memory of its GPU, a row for each."""
    loads = zip(trial.rows, gpu_percent, used_gb, strict=False)
    rows = [used_in(row, gb).model_copy(update={"gpu_percent": percent}) for row, percent, gb in loads]
    return replace(trial, rows=rows)


def used_in(part: Part, used_gb: float) -> Part:
    """Return a row, or a rank's part of it, with this memory of its GPU."""
    return part.model_copy(update={"memory": part.memory.model_copy(update={"device_used_gb": used_gb})})


def test_a_published_study_which_an_older_version_measured(tmp_path: Path, capsys):
    study = as_measured("cartpole-one-gpu", tmp_path / "study")
    run_main(main, study.root)
    assert capsys.readouterr().out == f"{study.trials}: bundles of 32 trials written; 3 measured no iteration\n"
    bundles = {path.parent.name: read(path) for path in sorted(study.trials.glob("*/training.json"))}
    assert len(bundles) == len({bundle.run.run_id for bundle in bundles.values()}) == 32
    assert {bundle.run.status for bundle in bundles.values()} == {"completed"}
    first = bundles["0000"]
    started = "20261121T120543-cartpole-one-gpu-0000_seed802432342"
    assert first.run.run_id == f"rsl_rl_newton_mjwarp_Isaac-Cartpole-Camera-Direct_{started}"
    assert first.run.config == schema.RunConfig("newton_mjwarp", "newton", [])
    assert (first.run.num_envs, first.run.max_iterations, first.run.framework) == (4096, 6, "rsl_rl")
    h100 = schema.GpuDeviceInfo("NVIDIA H100 80GB HBM3", 85.017493504e9 / GIB, "Unknown")
    assert first.hardware.gpu_devices == [h100]
    assert (first.runtime.steps_per_iteration, first.runtime.iterations_completed) == (4096 * 32, 6)  # warm-up, too
    assert first.resources.gpu_mem_gb.peak == 38.546505728e9 / GIB
    assert len(first.learning.reward.series_per_iter or []) == 5  # no episode ended in the first iteration
    assert first.versions.rsl_rl is not None and first.versions.mjwarp is not None and first.versions.sb3 is None
    assert first.extra is not None
    assert (first.extra["num_mini_batches"], "batch_size" in first.extra) == (16, False)  # the library's own
    assert first.extra["not_measured"] == (
        "hardware.gpu_devices.compute_cap, hardware.ram_gb, runtime.startup_time_s.env_creation,"
        " resources.gpu_util_pct, resources.cpu_util_pct"
    )
    learning = next(bundle for bundle in bundles.values() if bundle.extra and "seconds_to_target" in bundle.extra)
    assert learning.run.max_iterations is None  # its budget is seconds
    assert learning.extra is not None and learning.extra["target_reward"] == 4.5


def test_a_trial_without_rows_has_no_bundle(tmp_path: Path):
    trial = TrialFolder(tmp_path)
    trial.bundle.write_text("of an earlier measurement")
    for status in ("oom", "refused"):
        assert not write(trial, a_trial(64, status=status).record)
    assert not trial.bundle.exists()


def test_memory_that_runs_out_after_some_rows_is_a_crash_that_keeps_its_figures(tmp_path: Path):
    bundle, extra = of(a_trial(64), tmp_path, status="oom", reason="memory ran out", num_mini_batches=None)
    assert bundle.run.status == "crashed" and bundle.runtime.iterations_completed == 4
    assert (extra["status"], extra["reason"], extra["batch_size"]) == ("oom", "memory ran out", 128)
    assert "num_mini_batches" not in extra


def test_what_was_not_measured_is_named_where_the_schema_wants_a_number(tmp_path: Path):
    bundle, extra = of(a_trial(64), tmp_path)
    empty = schema.LearningCurve(final_raw=0.0, final_ema=0.0, series_per_iter=[])
    assert (bundle.learning.reward, bundle.learning.ep_length) == (empty, empty)
    assert extra["not_measured"] == (
        "runtime.startup_time_s.env_creation, resources.gpu_util_pct, resources.gpu_mem_gb, resources.cpu_util_pct,"
        " learning.reward, learning.ep_length"
    )


def test_a_gpus_load_and_memory_stand_for_device_0(tmp_path: Path):
    bundle, extra = of(using(a_trial(64, device=GPU), [90.0, 91.0, 92.0], [10.0, 11.0, 12.0]), tmp_path)
    assert bundle.resources.gpu_util_pct == schema.MeanStd(91.0, 1.0)
    assert bundle.resources.gpu_mem_gb.mean == pytest.approx(11e9 / GIB)
    assert bundle.resources.gpu_mem_gb.peak == pytest.approx(12e9 / GIB)
    assert bundle.resources.devices == {
        "0": schema.GpuResources(bundle.resources.gpu_util_pct, bundle.resources.gpu_mem_gb)
    }
    assert not {"distributed", "num_envs_per_rank", "measurement_scope"} & extra.keys()


@pytest.mark.parametrize(
    ("spread", "world_size", "nodes"),
    [
        ({"gpus": 2, "device": GPU}, 2, 1),
        ({"gpus": 2, "nodes": 2, "device": GPU}, 4, 2),
        ({"gpus": 0, "cpu_ranks": 2, "device": CPU}, 2, 1),
    ],
)
def test_environments_steps_and_nodes_are_those_of_all_ranks(
    tmp_path: Path, spread: dict[str, Any], world_size: int, nodes: int
):
    bundle, extra = of(a_trial(64, **spread), tmp_path)
    assert (bundle.run.num_envs, bundle.runtime.steps_per_iteration) == (64 * world_size, 64 * world_size * 8)
    assert {"distributed": True, "world_size": world_size, "local_world_size": world_size // nodes, "num_nodes": nodes,
            "workload_scope": "global", "num_envs_per_rank": 64, "measurement_scope": "slowest_rank",
            "gpu_measurement_scope": "fullest_gpu"}.items() <= extra.items()  # fmt: skip
    assert len(bundle.hardware.gpu_devices) == len(bundle.resources.devices) == (world_size if spread["gpus"] else 0)


def test_every_gpu_has_its_own_memory_and_no_load_of_its_own(tmp_path: Path):
    trial = using(a_trial(64, gpus=2, device=GPU), [90.0, 91.0, 92.0], [12.0, 12.0, 12.0])
    used_gb = {0: [10.0, 11.0, 12.0], 1: [9.0, 9.0, 9.0]}
    rows = [
        row.model_copy(update={"ranks": [used_in(part, used_gb[part.rank][place]) for part in row.ranks or []]})
        for place, row in enumerate(trial.rows)
    ]
    results = trial.outcome.ranks or []
    other = results[1].model_copy(update={"device": GPU.model_copy(update={"name": "NVIDIA H200", "uuid": "GPU-2"})})
    bundle, extra = of(replace(trial, rows=rows), tmp_path, ranks=[results[0], other])
    assert [gpu.name for gpu in bundle.hardware.gpu_devices] == [GPU.name, "NVIDIA H200"]
    assert {rank: used.mem_gb.peak for rank, used in bundle.resources.devices.items()} == {
        "0": pytest.approx(12e9 / GIB), "1": pytest.approx(9e9 / GIB)
    }  # fmt: skip
    assert bundle.resources.gpu_util_pct.mean == 91.0 and "resources.devices.util_pct" in extra["not_measured"]
    # A rank that broke at its start told no other rank's device: GPUs of one machine are alike until shown otherwise.
    assert [gpu.name for gpu in of(trial, tmp_path, ranks=None)[0].hardware.gpu_devices] == [GPU.name] * 2


@pytest.mark.parametrize(
    ("trial", "status", "expected"),
    [
        (a_trial(64), "ok", "completed"),
        (a_trial(64), "timeout", "interrupted"),  # a throughput trial has no budget
        (a_trial(64, kind="learning", seconds=30.0), "target_reached", "completed"),
        (a_trial(64, kind="learning"), "timeout", "completed"),  # its budget was spent
        (a_trial(64, kind="learning", seconds=30.0), "timeout", "interrupted"),  # half of it
        (a_trial(64), "oom", "crashed"),
        (a_trial(64), "nan", "crashed"),
        (a_trial(64), "diverged", "crashed"),
    ],
)
def test_how_a_trial_ended_in_the_schemas_words(trial: Trial, status: Status, expected: str):
    assert run_status(trial.ended(status=status).record) == expected


@pytest.mark.parametrize(
    ("task_id", "presets", "physics", "renderer"),
    [
        ("Isaac-Cartpole-Direct", None, "newton_mjwarp", "none"),
        ("Isaac-Cartpole-Camera-Direct", "newton_mjwarp, depth", "newton_mjwarp", "newton"),
        ("Envknee-Cartpole-Dual-Camera-Direct", "one_camera", "newton_mjwarp", "newton"),
    ],
)
def test_physics_and_renderer_are_those_of_the_task(tmp_path: Path, task_id, presets, physics, renderer):
    trial = a_trial(64)
    overrides = {} if presets is None else {"presets": presets}
    bundle, _ = of(trial.asked(task_id=task_id, overrides=overrides, trainer="torchrl"), tmp_path)
    names = [] if presets is None else [name.strip() for name in presets.split(",")]
    assert bundle.run.config == schema.RunConfig(physics, renderer, names)
    assert bundle.run.framework is None  # the schema does not know TorchRL


def test_a_study_whose_trials_are_in_an_archive_says_how_to_unpack_them():
    with pytest.raises(
        UserError, match=r"`envknee archive --unpack .*cartpole-one-gpu/trials\.zip`, then this command"
    ):
        run_main(main, PUBLISHED["cartpole-one-gpu"].root)
