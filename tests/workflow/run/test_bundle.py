"""training.json of a trial that was measured here: what Isaac Lab's own recorders and builders would say."""

import dataclasses
import types

import quick
from camera_trials import a_trial, by_hand
from envknee.study.files import canonical_json
from envknee.study.paths import StudyFolder
from isaaclab.benchmark import capture
from isaaclab.benchmark.recorders import VersionInfoRecorder
from isaaclab.benchmark.schema import TrainingBundle
from programs import succeeded
from pydantic import TypeAdapter
from workspaces import Workspace


def test_a_real_trial_as_isaac_labs_own_benchmark_writes_it(tmp_path):
    # In episodes of 12 steps, so that some end.
    small = {"env.scene.tiled_camera.width": 24, "env.scene.tiled_camera.height": 24, "env.episode_length_s": 0.2}
    study = tmp_path / "study"
    trial = a_trial(study / "trials/0000", horizon=16, iterations=3, warmup_iterations=1, overrides=small)
    StudyFolder(study).study.write_text(canonical_json(by_hand()), encoding="utf-8")
    record = quick.launch(trial)
    assert not trial.bundle.exists()  # it takes Isaac Lab, and seconds

    said = succeeded(Workspace(tmp_path).module("bundle", str(study)))
    assert said == f"{study}/trials: bundles of 1 trials written; 0 measured no iteration\n"
    bundle = TypeAdapter(TrainingBundle).validate_json(trial.bundle.read_text(encoding="utf-8"), strict=True)

    assert (bundle.run.config.physics_backend, bundle.run.config.rendering_backend) == ("newton_mjwarp", "newton")
    assert bundle.hardware.gpu_devices == [] and bundle.resources.devices == {}
    assert bundle.resources.cpu_util_pct.mean > 0 and bundle.resources.ram_gb.mean > 0.2
    assert bundle.learning.reward.series_per_iter and bundle.learning.ep_length.final_raw == 12
    startup, startup_s = bundle.runtime.startup_time_s, record.outcome.startup_s
    assert startup_s is not None and bundle.extra is not None
    assert (startup.env_creation, startup.python_imports) == (startup_s.environment, startup_s.imports)
    assert startup.task_config == startup_s.configuration
    assert bundle.extra["not_measured"] == "resources.gpu_util_pct, resources.gpu_mem_gb"

    recorders = types.SimpleNamespace(_manual_recorders={"VersionInfo": VersionInfoRecorder()})
    theirs, ours = (dataclasses.asdict(versions) for versions in (capture.capture_versions(recorders), bundle.versions))
    noted = {name for name, version in ours.items() if version is not None and not name.startswith("git_")}
    assert {"isaaclab", "newton", "warp", "mjwarp", "torch", "rsl_rl", "numpy", "mujoco"} <= noted
    assert {name: ours[name] for name in noted} == {name: theirs[name] for name in noted}
