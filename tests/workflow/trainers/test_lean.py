"""Trials with `observations: lean`, against Isaac Lab's own float32 path: the same numbers, an eighth of the rollout."""

from pathlib import Path

import pytest
import quick
from camera_trials import a_trial, camera
from envknee.record.read import read_rows
from envknee.record.schema import Request
from envknee.study.errors import UserError
from envknee.trainers import rsl_rl


@pytest.mark.parametrize(("task", "episode_s"), [("Isaac-Cartpole-Camera-Direct", 0.5), ("Isaac-Cartpole-Camera", 1)])
def test_it_learns_what_stock_learns_to_the_bit_on_a_cpu(tmp_path: Path, task: str, episode_s: float):
    # Episodes of half a second end within the rollout, so that histories are filled anew in the middle of it.
    point = {
        "num_envs": 6, "horizon": 40, "batch_size": 60, "iterations": 2, "warmup_iterations": 0, "task_id": task,
        "overrides": camera(32, episode_length_s=episode_s),
    }  # fmt: skip
    trials = {name: a_trial(tmp_path / name, observations=name, **point) for name in ("stock", "lean")}
    stock, lean = (quick.launch(trial) for trial in trials.values())
    assert (stock.outcome.status, lean.outcome.status) == ("ok", "ok")
    rows = [[(row.losses, row.episodes, row.reward_mean) for row in read_rows(trial)] for trial in trials.values()]
    assert rows[0] == rows[1] and rows[0][-1][1]
    # 41 frames of one byte where stock keeps 40 stacks of two frames in four; the critic's four states are beside them.
    states_gb = 40 * 6 * 4 * 4 / 1e9
    assert (lean.rollout_gb - states_gb) / (stock.rollout_gb - states_gb) == pytest.approx(40 / 320, rel=0.01)


def test_what_lean_frames_refuse_names_the_arms_option(tmp_path: Path):
    trial = a_trial(tmp_path / "trial", observations="lean", overrides=camera(24) | {"agent.algorithm.fused": True})
    words = "observations: lean: algorithm.fused: it needs an NVIDIA GPU, and this is cpu.*Or use observations: stock"
    with pytest.raises(UserError, match=words):
        quick.launch(trial)


def test_fused_convolutions_are_an_arms_override(tmp_path: Path):
    overrides = camera(24) | {"agent.algorithm.fused": False}
    trial = a_trial(tmp_path / "trial", observations="lean", overrides=overrides)
    assert quick.launch(trial).outcome.status == "ok"
    request = Request.model_validate_json(trial.request.read_bytes())
    for name, value, said in (
        ("fusd", True, "agent.algorithm has no 'fusd'.*fused"),
        ("fused", "yes", "agent.algorithm.fused: 'yes' is neither true nor false"),
    ):
        wrong = request.model_copy(update={"overrides": camera(24) | {f"agent.algorithm.{name}": value}})
        with pytest.raises(UserError, match=said):
            rsl_rl.resolve(wrong, "cpu")
