"""RL-Games trains in real trials on the CPU, and says of them what RSL-RL's say."""

from pathlib import Path
from typing import Any

import pytest
import quick
import torch
from conftest import a_trial
from envknee.record.read import read_rows
from envknee.record.schema import Outcome, Request
from envknee.study.errors import UserError
from envknee.study.files import read_model
from envknee.study.model import Memory
from trained import a_learning_trial, assert_same_training, assert_whole, optimizer_steps, refusal

pytest.importorskip("rl_games", reason="trainer: rl_games is optional: make setup TRAINERS=all")

from envknee.trainers import rl_games

PX = 36
"""Its network for the camera task needs 36 pixels: three layers without padding."""


def test_the_same_request_learns_the_same_and_every_figure_is_there(tmp_path: Path) -> None:
    trial, again = (a_trial(tmp_path / name, trainer="rl_games", **a_learning_trial(PX)) for name in ("one", "again"))
    record, rows = quick.launch(trial), read_rows(trial)
    assert_whole(record, rows, 6 * PX * PX * 4)  # two frames of three colours in float32
    assert [(row.frames, row.episodes) for row in rows] == [(64, 0), (128, 0), (192, 8)]
    assert rows[-1].episode_length_mean == pytest.approx(12, abs=1)
    assert rows[0].learning_rate != 1e-4  # the task's own: RL-Games adapts it
    # Of one normal distribution: 1/2 + ln(2 pi)/2 + ln(std). Entropy is a mean over mini-batches, the std is the last's.
    assert rows[-1].losses["entropy"] == pytest.approx(
        1.4189 + torch.tensor(rows[-1].action_std).log().item(), abs=0.02
    )
    assert record.num_mini_batches == 2

    memory = record.outcome.memory_map
    assert memory is not None and record.rollout_gb is not None
    # Reward, value, log-probability, action, mean and std take four bytes each, an end one.
    assert memory.rollout_gb == pytest.approx(record.rollout_gb + 8 * 8 * 25 / 1e9)
    # Convolutions 12,320 + 32,832 + 36,928, layer 33,280, mean 513, value 513, std 1: with gradients and Adam's two moments.
    assert memory.model_gb == pytest.approx(4 * 116_387 * 4 / 1e9, rel=0.01)

    left = {path.name for path in trial.root.iterdir()}
    assert left == {
        ".lock", "cost.json", "environment.json", "frames.png", "metrics.jsonl", "outcome.json", "policy.pt", "record.json",
        "request.json", "trial.log",
    }  # fmt: skip
    policy, nothing, frames = torch.jit.load(trial.policy), torch.zeros(5, 0), 2 * torch.rand(5, 6, PX, PX) - 1
    assert policy(nothing, [frames]).shape == (5, 1) and policy(nothing, [frames]).abs().max() <= 1
    assert not torch.equal(policy(nothing, [frames]), policy(nothing, [-frames]))

    assert optimizer_steps(again) == 3 * 4 * 2  # iterations x epochs x mini-batches
    assert_same_training(rows, read_rows(again))
    outcome = read_model(again.outcome, Outcome, "")
    assert outcome.parameters_sha256 == record.outcome.parameters_sha256 is not None


def test_rewards_that_overflow_are_found_with_their_environments(tmp_path: Path) -> None:
    changes = a_learning_trial(PX, deterministic=False)
    changes["overrides"] |= {"env.rew_scale_alive": 1e39}
    record = quick.launch(a_trial(tmp_path / "inf", trainer="rl_games", **changes))
    assert record.outcome.status == "nan"
    assert record.outcome.failure is not None and record.outcome.failure.tensor == "rewards"
    assert record.outcome.failure.iteration == 0 and record.outcome.failure.env_indices == list(range(8))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"gpus": 0, "cpu_ranks": 2}, ["trainer: rl_games cannot do 2 ranks", "gpus: 1"]),
        ({"observations": "lean"}, ["trainer: rl_games cannot do observations: lean", "observations: stock"]),
        ({"memory": {"on_oom": "retry_accumulate"}}, ["memory.on_oom: retry_accumulate", "on_oom: record"]),
        ({"memory": {"mixed_precision": True}}, ["memory.mixed_precision: true", "on a CPU", "mixed_precision: false"]),
        ({"batch_size": None}, ["batch_size: library", "Name batch sizes", "has 2048"]),
        ({"horizon": 7, "num_envs": 6, "batch_size": 42}, ["num_envs 6 x horizon 7 = 42", "seq_length, 4"]),
        ({"overrides": {"agent.params.config.horizon_length": 16}}, ["agent.params.config.horizon_length: 16", "Take the override out"]),
        ({"overrides": {"agent.params.config.mini_epoch": 1}}, ["mini_epoch", "did you mean 'mini_epochs'"]),
        ({"overrides": {"agent.params.config.lr_schedule": "linear"}}, ["lr_schedule: 'linear'", "'fixed'"]),
        ({"overrides": {"agent.params.algo.name": "sac"}}, ["agent.params.algo.name: 'sac'", "'a2c_continuous'"]),
    ],
)  # fmt: skip
def test_what_it_cannot_do_is_refused(tmp_path: Path, changes: dict[str, Any], words: list[str]) -> None:
    text = refusal(tmp_path / "refused", "rl_games", **changes)
    assert [word for word in words if word not in text] == []


def request(tmp_path: Path, **changes: Any) -> Request:
    point = {"trainer": "rl_games", "num_envs": 8, "horizon": 8, "batch_size": 32}
    return read_model(a_trial(tmp_path / "asked", **point | changes).request, Request, "")


def test_a_critic_with_mini_batches_of_its_own_is_refused(tmp_path: Path) -> None:
    params = {"algo": {"name": "a2c_continuous"}, "config": {"central_value_config": {"minibatch_size": 4}}}
    with pytest.raises(UserError, match="central_value_config.*Use another task or trainer"):
        rl_games.check_agent(params, request(tmp_path))


def test_a_request_decides_the_fields_of_the_same_meaning(tmp_path: Path) -> None:
    asked = request(tmp_path, overrides={"agent.params.config.gamma": 0.9, "agent.params.config.torch_compile": True})
    params = rl_games.resolve(asked, "cpu").agent["params"]
    config = params["config"]
    assert (params["seed"], config["horizon_length"], config["minibatch_size"], config["num_actors"]) == (7, 8, 32, 8)
    assert (config["gamma"], config["torch_compile"], config["mixed_precision"]) == (0.9, True, False)
    on_gpu = asked.model_copy(update={"memory": Memory(mixed_precision=True)})
    assert rl_games.resolve(on_gpu, "cuda:0").agent["params"]["config"]["mixed_precision"] is True
    command = rl_games.command_line(asked, "cpu")
    assert {"agent.params.config.minibatch_size=32", "+agent.params.config.torch_compile=true"} <= set(command)
    assert "agent.params.config.torch_compile=true" not in command
