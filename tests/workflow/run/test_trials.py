"""Every way a trial can end, brought about for real in Isaac Lab on the CPU."""

import re
import shutil
import subprocess
import sys
import time
from http.server import SimpleHTTPRequestHandler
from typing import Any

import numpy
import PIL.Image
import pytest
import quick
import torch
from camera_trials import a_trial, by_hand, camera
from envknee.measure.learner import LearnerDescription
from envknee.measure.meter import Meter
from envknee.measure.rows import TrialDone
from envknee.record.read import read_rows
from envknee.record.schema import Request
from envknee.run import launch
from envknee.run.prepare import resolve_arms
from envknee.study.errors import UserError
from envknee.study.files import read_model
from envknee.trainers.common import metered
from loopback import serving
from needs import need
from places import ROOT
from programs import told
from records import known
from trained import a_learning_trial


def test_memory_that_runs_out_is_a_result(tmp_path):
    # 64 environments x 2^22 steps x 24 x 24 x 6 floats: 3.7 TB for the rollout, which no host has.
    record = quick.launch(a_trial(tmp_path / "oom", num_envs=64, horizon=2**22, batch_size=2**22))
    outcome, failure = record.outcome, known(record.outcome.failure)
    assert (outcome.status, failure.tensor) == ("oom", "learner") and "memory ran out" in known(outcome.reason)
    assert failure.requested_gb == pytest.approx(64 * 2**22 * 24 * 24 * 6 * 4 / 1e9)
    assert known(outcome.memory_map).static_gb > 0.2 and outcome.environment is not None
    assert record.fps_total is None and record.memory_peak_gb is None
    assert not (tmp_path / "oom" / "frames.png").exists()


def test_rows_outcome_and_record_are_on_the_disk_in_that_order(tmp_path):
    need("strace")
    trial, calls = a_trial(tmp_path / "trial"), tmp_path / "calls"
    words = ["strace", "-f", "--seccomp-bpf", "-y", "-e", "trace=fsync,rename", "-o", str(calls)]
    subprocess.run([*words, sys.executable, "-m", "envknee", "launch", str(trial.root)], check=True)
    said = [line.partition(" ")[2].strip() for line in calls.read_text().splitlines()]
    place = -1
    for call, word in (
        ("fsync(", f"<{trial.metrics}>"),
        ("fsync(", ".outcome.json."), ("rename(", f', "{trial.outcome}"'), ("fsync(", f"<{trial.root}>"),
        ("fsync(", ".record.json."), ("rename(", f', "{trial.record}"'), ("fsync(", f"<{trial.root}>"),
    ):  # fmt: skip
        after = [at for at, line in enumerate(said) if at > place and line.startswith(call) and word in line]
        assert after, f"no {call} of {word} after {said[max(0, place)]}"
        place = after[0]


def test_a_cap_makes_the_device_as_small_as_that(tmp_path):
    free = quick.launch(a_trial(tmp_path / "free"))
    cap_gb = 0.9 * free.memory_peak_gb  # the same trial does not fit
    capped = quick.launch(a_trial(tmp_path / "capped", memory={"memory_cap_gb": cap_gb})).outcome
    assert capped.status == "oom" and f"memory_cap_gb is {cap_gb:g}" in known(capped.reason)
    assert known(capped.environment).device.memory_gb == cap_gb
    wide = quick.launch(a_trial(tmp_path / "wide", memory={"memory_cap_gb": 1.2 * free.memory_peak_gb}))
    assert wide.outcome.status == "ok"


def test_smaller_parts_mixed_precision_and_no_phases_can_be_asked_for(tmp_path):
    # bfloat16 as well: all options reach the learner. On this host nothing runs out, so nothing is split.
    options = {"memory": {"on_oom": "retry_accumulate", "mixed_precision": True}, "phases": "off"}
    record = quick.launch(a_trial(tmp_path / "retry", iterations=2, **options))
    assert (record.outcome.status, record.outcome.micro_batches) == ("ok", None)
    assert record.phases_s is None and record.fps_env_step is not None


def test_a_network_that_breaks_is_a_result_with_its_place(tmp_path):
    trial = a_trial(tmp_path / "nan", iterations=5, overrides=camera(24) | {"agent.algorithm.learning_rate": 1e30})
    outcome = quick.launch(trial).outcome
    failure = known(outcome.failure)
    assert outcome.status in ("nan", "diverged")
    assert failure.iteration is not None and known(failure.tensor) in known(outcome.reason)
    if failure.dump:
        with numpy.load(trial.root / failure.dump) as dump:
            assert dump["env_indices"].tolist() == failure.env_indices


def test_a_camera_that_renders_nothing_new_is_no_result(tmp_path):
    wrong = {"env.scene.tiled_camera.update_period": 1000.0}
    record = quick.launch(a_trial(tmp_path / "trial", num_envs=8, horizon=8, overrides=camera(24) | wrong))
    assert (record.outcome.status, known(record.outcome.failure).tensor) == ("invalid", "simulation")
    assert "no pixel of policy changed in a rollout of 8 steps" in known(record.outcome.reason)
    assert record.fps_total is not None, "what was measured is kept"


def test_an_error_of_pytorchs_is_told_as_a_broken_network_where_one_is(tmp_path):
    trial = a_trial(tmp_path / "trial")
    meter = Meter(read_model(trial.request, Request, ""), trial, "cpu")
    network = torch.nn.BatchNorm1d(1)  # with running statistics, which may be large
    network.running_var = torch.full((1,), 1e9)
    meter.start_training(LearnerDescription(state=lambda: metered.state_of({"actor": network})))

    def act() -> None:
        with metered.explaining_errors(meter):
            torch.normal(torch.zeros(1), network.weight.detach())

    network.weight.data.fill_(-1.0)
    with pytest.raises(RuntimeError, match="^normal expects all elements of std"):
        act()
    network.weight.data.fill_(-1e9)
    words = "^parameters/actor.weight grew to .* normal expects all elements of std"
    with pytest.raises(TrialDone, match=words) as done:
        act()
    assert done.value.status == "diverged"


def test_a_trial_over_its_limit_is_stopped_and_recorded(tmp_path):
    began = time.monotonic()
    record = quick.launch(a_trial(tmp_path / "slow", iterations=1_000_000, limit_s=15.0))
    took_s = time.monotonic() - began
    assert record.outcome.status == "timeout"
    assert "still running after 15 s" in (record.outcome.reason or "")
    assert record.fps_total is not None  # what it measured until then is kept
    assert 15 <= record.outcome.total_s <= took_s


@pytest.mark.parametrize("lazy", [True, False])  # False: cameras render whether somebody looks or not, all at once
def test_the_phases_of_a_real_iteration_add_up(tmp_path, lazy):
    sizes = {"num_envs": 64, "horizon": 8, "batch_size": 128, "iterations": 3, "warmup_iterations": 1}
    trial = a_trial(tmp_path / "phases", **sizes, overrides=camera(32) | {"env.scene.lazy_sensor_update": lazy})
    record = quick.launch(trial)
    phases_s = known(record.phases_s)
    assert min(spread.median for spread in phases_s.values()) > 0  # physics, render, ... : none is missing
    assert phases_s["render"].median > phases_s["storage"].median
    for row in read_rows(trial):
        assert sum(known(row.phases_s).values()) == pytest.approx(row.iteration_s, rel=0.03)
        assert row.fps_total < row.fps_env_step_inference < row.fps_env_step
    setup_s = known(record.outcome.setup_s)
    assert setup_s == pytest.approx(sum(known(record.outcome.startup_s).model_dump().values()))
    # The first iteration's first step belongs to the start.
    later_s = sum(row.iteration_s or 0.0 for row in read_rows(trial)[1:])
    assert setup_s + later_s < record.outcome.total_s


def test_learning_ends_at_the_target(tmp_path):
    trial = a_trial(tmp_path / "learning", **a_learning_trial(24, deterministic=False, staggered=None))
    record = quick.launch(trial)
    assert record.outcome.status == "target_reached"
    assert record.seconds_to_target == record.train_s > 0
    assert record.frames_to_target == record.frames
    assert record.best_reward is not None and record.best_reward > -100
    assert record.gpu_seconds_to_target is None  # it ran on a CPU
    policy = torch.jit.load(trial.policy)
    nothing, frames = torch.zeros(5, 0), torch.rand(5, 6, 24, 24)  # no numbers beside two frames of three colours
    assert policy(nothing, [frames]).shape == (5, 1)
    assert not torch.equal(policy(nothing, [frames]), policy(nothing, [1 - frames]))
    with PIL.Image.open(trial.frames) as sheet:  # four steps of two frames
        assert sheet.width == 4 * 2 * 24
        colours = sheet.convert("RGB").getcolors(2**16) or []
        assert len(colours) > 2  # rendered, not one colour


def test_the_manager_based_task_runs_with_an_asset_from_a_server(tmp_path, monkeypatch):
    # A server on this machine in the place of NVIDIA's, with the project's own file.
    asset = tmp_path / "Isaac/IsaacLab/Robots/Classic/Cartpole/cartpole.usd"
    asset.parent.mkdir(parents=True)
    shutil.copy(ROOT / "workflow/envknee/tasks/cartpole.usda", asset)
    asked: list[str] = []

    class Files(SimpleHTTPRequestHandler):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments, directory=str(tmp_path))

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            del code, size
            asked.append(self.path)

    with serving(Files) as root:
        monkeypatch.setenv("ISAACSIM_ASSET_ROOT", root)
        trial = a_trial(tmp_path / "trial", asset="nucleus", task_id="Isaac-Cartpole-Camera", warmup_iterations=1)
        record = launch.launch(trial)
    assert record.outcome.status == "ok" and record.memory_peak_gb is not None and record.rollout_gb is not None
    assert min(spread.median for spread in known(record.phases_s).values()) > 0 and trial.frames.exists()
    assert "/Isaac/IsaacLab/Robots/Classic/Cartpole/cartpole.usd" in asked


def test_a_trial_that_breaks_leaves_no_record_and_says_why(tmp_path):
    # A network without a layer's units: PyTorch raises, and that is nobody's result.
    trial = a_trial(tmp_path / "broken", overrides={"agent.actor.hidden_dims": [-8]})
    last = rf"{re.escape(str(trial.log))}.*negative dimension.*look at what the study overrides .*hidden_dims: \[-8\]"
    with pytest.raises(UserError, match=f"(?s)ended without a result.*{last}"):
        quick.launch(trial)
    assert not trial.record.exists() and not trial.outcome.exists()


@pytest.mark.parametrize(("trainer", "pixels"), [("rsl_rl", 8), ("skrl", 35), ("rl_games", 35)])
def test_images_that_are_too_small_for_a_network_are_a_sentence(tmp_path, trainer, pixels):
    need(trainer)
    trial = a_trial(tmp_path / "small", trainer=trainer, overrides=camera(pixels))
    words = rf"cannot run\. trainer: {trainer}: images are too small .*Make them larger \(task\.overrides"
    with pytest.raises(UserError, match=words):
        quick.launch(trial)
    assert not trial.record.exists() and not trial.outcome.exists()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"task": {"id": "Isaac-Cartpole-Camra-Direct"}}, ["'Isaac-Cartpole-Camra-Direct'", "did you mean 'Isaac-Cartpole-Camera-Direct'"]),
        ({"task": {"overrides": {"env.scene.tiled_camera.widht": 64}}}, ["env.scene.tiled_camera.widht", "did you mean 'width'"]),
        ({"task": {"overrides": {"env.scene.tiled_camera.width": "64"}}}, ["'64' is str", "int was expected"]),
        ({"task": {"overrides": {"agent.algorithm.learning_rat": 1e-3}}}, ["did you mean 'learning_rate'"]),
        ({"task": {"overrides": {"scene.num_envs": 3}}}, ["must start with 'env.' or 'agent.'"]),
        ({"task": {"asset": "/nowhere/robot.usd"}}, ["/nowhere/robot.usd does not exist", "asset: local"]),
        ({"task": {"id": "Isaac-Ant", "asset": "robot.usd"}}, ["is a cart-pole", "asset: local", "asset: nucleus"]),
        (
            {"task": {"id": "Isaac-Ant"}},
            ["env.scene.robot.spawn.usd_path: https://", "ant_instanceable.usd", "task.overrides", "asset: nucleus"],
        ),
        (
            {"task": {"id": "Isaac-Ant", "overrides": {"env.scene.robot.spawn.usd_path": "no/ant.usd"}}},
            ["env.scene.robot.spawn.usd_path: no/ant.usd does not exist"],
        ),
        (
            {"task": {"id": "Isaac-Ant", "overrides": {"env.scene.robot.spawn.usd_path": "package:newtom/ant.usd"}}},
            ["no Python package 'newtom' is installed", "package:NAME/PATH/IN/IT"],
        ),
        ({"task": {"id": "IsaacContrib-Lift-Cube-Franka"}}, ["PhysxCfg", "needs Isaac Sim", "presets: newton_mjwarp"]),
        (
            {"task": {"overrides": {"presets": "isaacsim_rtx"}}},
            ["camera 'tiled_camera'", "needs Isaac Sim", "newton_renderer"],
        ),
        (
            {"throughput": {"num_envs": [3], "horizon": 5, "batch_size": "library"}},
            ["16 mini-batches do not divide num_envs 3 x horizon 5"],
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_is_found_before_anything_runs(changes, words):
    told(lambda: resolve_arms(by_hand(**changes)), "arms.stock: ", *words)


def test_what_the_module_of_an_own_task_lacks_is_told(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "needy_task.py").write_text("import isaaclab.not_there\n")
    with pytest.raises(
        UserError, match=r"module 'needy_task' does not import: there is no module 'isaaclab\.not_there'"
    ):
        resolve_arms(by_hand(task={"id": "needy_task:Own"}))
    bare = "import gymnasium\ngymnasium.register('Own-Bare', entry_point='bare_task:Env')\n"
    (tmp_path / "bare_task.py").write_text(bare)
    words = r"It registers configurations for no trainer: .* add one to the kwargs of gymnasium\.register"
    with pytest.raises(UserError, match=words):
        resolve_arms(by_hand(task={"id": "bare_task:Own-Bare"}))


@pytest.mark.parametrize(
    ("trainer", "field"),
    [
        ("rsl_rl", "env.scene.num_envs"), ("rsl_rl", "env.seed"), ("rsl_rl", "env.sim.device"),
        ("rsl_rl", "agent.num_steps_per_env"), ("rsl_rl", "agent.seed"), ("rsl_rl", "agent.device"),
        ("rl_games", "agent.params.seed"), ("skrl", "agent.agent.rollouts"), ("skrl", "agent.memory.memory_size"),
        ("sb3", "agent.n_steps"), ("sb3", "agent.batch_size"), ("torchrl", "agent.num_steps_per_env"), ("torchrl", "agent.seed"),
        # What batch_size decides; with batch_size: library it is the override's.
        ("rsl_rl", "agent.algorithm.num_mini_batches"), ("skrl", "agent.agent.mini_batches"),
        ("torchrl", "agent.num_mini_batches"),
    ],
)  # fmt: skip
def test_what_the_study_decides_is_not_overridden(trainer, field):
    need(trainer)
    words = rf"arms\.a: override {re.escape(field)}: 3: a trial's sizes, seed and device are the study's"
    with pytest.raises(UserError, match=words):
        resolve_arms(by_hand(arms={"a": {"gpus": 0, "trainer": trainer, "overrides": {field: 3}}}))


def test_how_many_mini_batches_the_library_has_may_be_overridden():
    throughput = {"num_envs": [16], "horizon": [8], "batch_size": "library", "repeats": 3}
    arms = {"a": {"gpus": 0, "overrides": {"agent.algorithm.num_mini_batches": 4}}}
    resolved = resolve_arms(by_hand(throughput=throughput, arms=arms))
    assert resolved["a"]["agent"]["algorithm"]["num_mini_batches"] == 4


def test_overrides_reach_the_environment_and_the_agent():
    overrides = {"env.scene.tiled_camera.width": 64, "agent.algorithm.learning_rate": 1e-3}
    fast = {"gpus": 0, "overrides": {"agent.algorithm.learning_rate": 2e-3}}
    resolved = resolve_arms(by_hand(task={"overrides": overrides}, arms={"plain": {"gpus": 0}, "fast": fast}))
    scene = resolved["plain"]["env"]["scene"]
    assert scene["tiled_camera"]["width"] == 64
    assert resolved["plain"]["agent"]["algorithm"]["learning_rate"] == 1e-3
    assert resolved["fast"]["agent"]["algorithm"]["learning_rate"] == 2e-3
    asset = scene["cartpole"]["spawn"]["usd_path"]
    assert asset.endswith("tasks/cartpole.usda") and str(ROOT) in asset
