"""Two cameras: what each shows, trials in all ways to the observation, and a small study that says what the second one costs."""

import json
from pathlib import Path

import numpy
import pytest
import quick
from camera_trials import a_trial, camera
from envknee import tasks
from envknee.record.read import read_rows
from PIL import Image
from programs import succeeded
from workspaces import Workspace


def test_the_jaw_camera_moves_with_the_cart_and_sees_the_pole(tmp_path: Path):
    saved = tmp_path / "frames.npz"
    quick.run_script("look_at_cameras.py", saved, folder=tmp_path)
    frames = numpy.load(saved, allow_pickle=False)

    def moved(before: str, after: str, camera: str) -> int:
        """Return how many of the 96 x 96 pixels differ: both stacks hold one frame twice, after a reset."""
        one_frame, other_frame = (frames[f"{name} {camera}"][-3:] for name in (before, after))
        # Each channel's mean was taken off, and one that differs moves all others a little.
        return int((numpy.abs(one_frame - other_frame).max(axis=0) > 0.15).sum())

    assert {value.shape for value in frames.values()} == {(6, 96, 96)}
    # The cart goes 1 m along the rail: the side camera sees two carts' pixels change, its own camera next to none.
    assert moved("middle", "right", "policy") > 40
    assert moved("middle", "right", "jaw") < 20
    # The pole tilts by 0.3 rad: it is 20 times as large from the cart.
    assert moved("right", "tilted", "jaw") > 300 > moved("right", "tilted", "policy") > 10


def test_stock_lean_and_per_frame_learn_the_same_from_two_cameras(tmp_path):
    point = {"task_id": tasks.DUAL_CAMERA, "num_envs": 6, "batch_size": 12, "iterations": 2}
    trials = {name: a_trial(tmp_path / name, observations=name, **point) for name in ("stock", "lean", "per_frame")}
    records = {name: quick.launch(trial) for name, trial in trials.items()}
    assert all(record.outcome.status == "ok" for record in records.values()), records
    rows = {name: read_rows(trial) for name, trial in trials.items()}
    for stock, lean, per_frame in zip(*rows.values(), strict=True):
        assert stock.losses == lean.losses
        assert per_frame.losses == pytest.approx(stock.losses, rel=1e-3)
    # Of each camera two stacked frames in float32, or each frame once in uint8, of 5 that 4 steps see.
    pixels, states = 6 * 24 * 24, 6 * 4 * 4 * 4
    assert records["stock"].rollout_gb == pytest.approx((2 * 4 * 6 * pixels * 4 + states) / 1e9)
    assert records["lean"].rollout_gb == pytest.approx((2 * 4 * 3 * pixels + states) / 1e9)
    for name, stacked in (("stock", 2), ("lean", 1)):
        with Image.open(trials[name].frames) as sheet:
            assert sheet.size == (4 * stacked * 24, 2 * 3 * 24), "four steps; three environments of each camera"


def test_a_small_study_says_what_the_second_camera_costs(workspace: Workspace):
    arms = {"two-cameras": {"gpus": 0}, "one-camera": {"gpus": 0, "overrides": {"presets": "one_camera"}}}
    sweep = {"num_envs": 8, "horizon": 4, "batch_size": 16, "repeats": 1, "iterations": 1}
    study = workspace.study(
        task={"id": "cartpole_dual_camera", "overrides": camera(24)}, arms=arms, throughput=sweep, learning=None,
        decide={"baseline": "two-cameras"},
    )  # fmt: skip
    folder = workspace.prepared()
    quick.measure(study, folder)
    result = succeeded(workspace.sweep(study, str(folder.report.relative_to(workspace.folder)), timeout_s=600))
    remedies = json.loads(folder.verdict.read_text(encoding="utf-8"))["remedies"]
    assert remedies["baseline"] == "two-cameras"
    (remedy,) = remedies["remedies"]
    assert remedy["differs_in"] == [{"name": "presets", "value": "one_camera"}] and not remedy["same_task"]
    assert remedy["at_num_envs"] == 8 and remedy["fps"]["lower"] is None  # one repeat: nothing is shown
    assert remedy["room"] != "more"
    assert "\nadvice   " in result
    page = folder.report.read_text(encoding="utf-8")
    assert "<li>Advice: " in page and "presets: one_camera" in page
    # One repeat shows no difference in FPS; what the arms differ in, and where the time goes, is told all the same.
    compared = workspace.module("compare", *(f"{folder.root}:{arm}" for arm in arms))
    assert compared.returncode == 4, compared.stdout
    assert "presets: " in compared.stdout and "time of an iteration, by phase" in compared.stdout
    rollouts = {arm: set() for arm in arms}
    for number in range(2):
        trial = folder.trial(number)
        record = json.loads(trial.record.read_text(encoding="utf-8"))
        assert record["request"]["task_id"] == tasks.DUAL_CAMERA and trial.frames.exists()
        rollouts[record["request"]["arm"]].add(record["outcome"]["rollout_gb"])
    # Twice the images; the states that the critic sees are the same.
    assert max(rollouts["two-cameras"]) / max(rollouts["one-camera"]) == pytest.approx(2.0, rel=0.01)
