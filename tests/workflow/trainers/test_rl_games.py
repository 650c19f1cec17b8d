"""RL-Games trains in real trials on the CPU, and says of them what RSL-RL's say."""

from pathlib import Path
from typing import Any

import pytest
import torch
from alike import AlikeTests
from envknee.record.read import read_rows
from envknee.record.schema import Record
from envknee.study.arm import Memory
from envknee.study.errors import UserError
from envknee.study.paths import TrialFolder
from needs import need
from trained import a_request, refusal

need("rl_games")

from envknee.trainers import rl_games
from records import known


class TestRlGames(AlikeTests):
    trainer = "rl_games"
    px = 36
    """Its network for the camera task needs 36 pixels: three layers without padding."""
    observation_bytes = 6 * 36 * 36 * 4  # two frames of three colours in float32

    def test_every_figure_is_there_and_no_file_but_envknees(self, trained: tuple[TrialFolder, Record]) -> None:
        trial, record = trained
        first, *_, last = read_rows(trial)
        assert last.episode_length_mean == pytest.approx(12, abs=1)
        assert first.learning_rate != 1e-4  # the task's own: RL-Games adapts it
        # Of one normal distribution: 1/2 + ln(2 pi)/2 + ln(std). Entropy is a mean over mini-batches, the std is the last's.
        assert last.losses["entropy"] == pytest.approx(1.4189 + torch.tensor(last.action_std).log().item(), abs=0.02)

        memory = known(record.outcome.memory_map)
        # Reward, value, log-probability, action, mean and std take four bytes each, an end one.
        assert memory.rollout_gb == pytest.approx(record.rollout_gb + 8 * 8 * 25 / 1e9)
        # Convolutions 12,320 + 32,832 + 36,928, layer 33,280, mean 513, value 513, std 1: with gradients and Adam's two moments.
        assert memory.model_gb == pytest.approx(4 * 116_387 * 4 / 1e9, rel=0.01)

        assert {path.name for path in trial.root.iterdir()} == {
            ".lock", "cost.json", "environment.json", "frames.png", "metrics.jsonl", "outcome.json", "record.json",
            "request.json", "trial.log",
        }  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "words"),
    [
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


def test_a_critic_with_mini_batches_of_its_own_is_refused(tmp_path: Path) -> None:
    params = {"algo": {"name": "a2c_continuous"}, "config": {"central_value_config": {"minibatch_size": 4}}}
    with pytest.raises(UserError, match="central_value_config.*Use another task or trainer"):
        rl_games.check_agent(params, a_request(tmp_path / "asked", "rl_games"))


def test_a_request_decides_the_fields_of_the_same_meaning(tmp_path: Path) -> None:
    overrides = {"agent.params.config.gamma": 0.9, "agent.params.config.torch_compile": True}
    asked = a_request(tmp_path / "asked", "rl_games", num_envs=8, horizon=8, batch_size=32, overrides=overrides)
    params = rl_games.resolve(asked, "cpu").agent["params"]
    config = params["config"]
    assert (params["seed"], config["horizon_length"], config["minibatch_size"], config["num_actors"]) == (7, 8, 32, 8)
    assert (config["gamma"], config["torch_compile"], config["mixed_precision"]) == (0.9, True, False)
    on_gpu = asked.model_copy(update={"memory": Memory(mixed_precision=True)})
    assert rl_games.resolve(on_gpu, "cuda:0").agent["params"]["config"]["mixed_precision"] is True
