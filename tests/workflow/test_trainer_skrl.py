"""skrl trains in real trials on the CPU, and says of them what RSL-RL's say."""

import pytest
import torch
from conftest import a_trial
from envknee import launch
from envknee.files import TrialFolder, read_model
from envknee.record import Outcome, Record, Request, read_rows
from envknee.trainers import load
from trained import REFUSED, a_learning_trial, assert_same_training, assert_whole, optimizer_steps, refusal

pytest.importorskip("skrl", reason="trainer: skrl is optional: make setup TRAINERS=all")

PX = 36
"""Its network for the camera task needs 36 pixels: three layers without padding."""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[TrialFolder, Record]:
    """Return a finished trial."""
    trial = a_trial(tmp_path_factory.mktemp("skrl") / "trial", trainer="skrl", **a_learning_trial(PX))
    return trial, launch.launch(trial)


def test_rows_say_what_rsl_rls_say(trained):
    trial, record = trained
    rows = read_rows(trial)
    assert_whole(record, rows, 6 * PX * PX * 4 + 4 * 4)
    assert [row.frames for row in rows] == [64, 128, 192]
    assert [row.episodes for row in rows] == [0, 0, 8]
    assert record.num_mini_batches == 2
    assert not list(trial.root.glob("**/*tfevents*")) and not list(trial.root.glob("**/*.zip"))
    policy = torch.jit.load(trial.policy)
    nothing, frames = torch.zeros(5, 0), torch.rand(5, 6, PX, PX)
    assert policy(nothing, [frames]).shape == (5, 1)
    assert not torch.equal(policy(nothing, [frames]), policy(nothing, [1 - frames]))
    assert trial.frames.stat().st_size > 500


def test_the_same_request_trains_the_same_with_as_many_optimizer_steps_as_it_says(trained, tmp_path):
    trial, record = trained
    again = a_trial(tmp_path / "again", trainer="skrl", **a_learning_trial(PX))
    assert optimizer_steps(again) == 3 * 4 * 2  # iterations x epochs x mini-batches
    assert_same_training(read_rows(trial), read_rows(again))
    outcome = read_model(again.outcome, Outcome, "")
    assert outcome.parameters_sha256 == record.outcome.parameters_sha256 is not None


def test_a_simulation_that_breaks_is_named(tmp_path):
    changes = a_learning_trial(PX, deterministic=False)
    changes["overrides"] |= {"env.action_scale": 1.0e39}  # newtons, more than float32 holds
    record = launch.launch(a_trial(tmp_path / "broken", trainer="skrl", **changes))
    assert record.outcome.status == "nan"
    failure = record.outcome.failure
    assert failure is not None and failure.tensor in ("rewards", "observations/policy", "observations/critic")
    assert failure.env_indices and failure.tensor in (record.outcome.reason or "")


@pytest.mark.parametrize(("words", "changes"), REFUSED.items(), ids=REFUSED)
def test_what_it_cannot_do_is_refused(tmp_path, words, changes):
    text = refusal(tmp_path / "refused", "skrl", **changes)
    assert text.startswith(f"trainer: skrl cannot do {words}") and "or trainer: rsl_rl" in text


def test_a_batch_and_a_task_that_do_not_fit_are_refused(tmp_path):
    text = refusal(tmp_path / "batch", "skrl", num_envs=5, horizon=5, batch_size=None)
    assert "32 mini-batches do not divide num_envs 5 x horizon 5" in text
    assert "skrl_cfg_entry_point" in refusal(tmp_path / "task", "skrl", task_id="Isaac-Cartpole-Camera")


def test_isaac_labs_own_command_is_for_the_same_training(tmp_path):
    trial = a_trial(tmp_path / "command", trainer="skrl", num_envs=8, horizon=8, batch_size=32, iterations=3)
    command = load("skrl").command_line(read_model(trial.request, Request, ""), "cpu")
    assert command[1:7] == ["-m", "isaaclab", "train", "--rl_library", "skrl", "--task"]
    assert {"agent.agent.rollouts=8", "agent.agent.mini_batches=2", "env.scene.tiled_camera.width=24"} < set(command)
    assert command[command.index("--max_iterations") + 1] == "3"
