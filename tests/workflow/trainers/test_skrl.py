"""skrl trains in real trials on the CPU: PPO says of them what RSL-RL's says; what SAC stores, draws and learns is in its record."""

from pathlib import Path
from typing import Any

import pytest
from alike import AlikeTests, TrainerTests
from camera_trials import a_trial
from envknee.record.read import read_rows
from envknee.record.schema import Record
from envknee.study.paths import TrialFolder
from envknee.trainers import load
from needs import need
from records import known
from trained import a_learning_trial, a_request, refusal, trained_here

need("skrl")

from skrl.memories.torch import RandomMemory


class TestSkrl(AlikeTests):
    trainer = "skrl"
    px = 36
    """Its network for the camera task needs 36 pixels: three layers without padding."""
    observation_bytes = 6 * 36 * 36 * 4 + 4 * 4  # frames, and the state


def test_a_batch_and_a_task_that_do_not_fit_ppo_are_refused(tmp_path: Path) -> None:
    text = refusal(tmp_path / "batch", "skrl", num_envs=5, horizon=5, batch_size=None)
    assert "32 mini-batches do not divide num_envs 5 x horizon 5" in text
    assert "skrl_cfg_entry_point" in refusal(tmp_path / "task", "skrl", task_id="Isaac-Cartpole-Camera")


TRANSITION_BYTES = 4 * 4 + 4 * 4 + 4 + 4 + 1
"""Observation and next one of four numbers, action, reward, and whether it was the last."""

REPLAY = 128
"""Transitions, fewer than three iterations collect: the oldest are overwritten."""

STATE: dict[str, Any] = {"task_id": "Isaac-Cartpole-Direct", "gpus": 0}


class TestSac(TrainerTests):
    trainer = "skrl_sac"
    optimizer_steps = 3 * 2 * 16
    """Of critics, policy and entropy coefficient, for each batch: two for each environment step after the first iteration."""

    def asked(self) -> dict[str, Any]:
        """Ask for three iterations of 8 steps, the first of which fills the buffer; 40 does not divide the rollout of 64."""
        overrides = {"env.episode_length_s": 0.2, "agent.replay_transitions": REPLAY, "agent.agent.gradient_steps": 2}
        return a_learning_trial(24, **STATE | {"batch_size": 40, "overrides": overrides})

    def test_rows_say_what_was_learned_from_the_second_iteration_on(self, trained: tuple[TrialFolder, Record]) -> None:
        trial, record = trained
        rows = read_rows(trial)
        assert record.outcome.status == "target_reached", record.outcome
        assert [row.frames for row in rows] == [64, 128, 192]
        assert [row.episodes for row in rows] == [0, 0, 8]
        assert [set(row.losses) for row in rows] == [set(), *2 * [{"critic", "policy", "entropy_coefficient"}]]
        assert rows[0].learn_s == pytest.approx(0) and rows[0].action_std == pytest.approx(1)
        assert rows[2].losses["entropy_coefficient"] < rows[1].losses["entropy_coefficient"] < 0.2  # it is learned
        for row in rows:
            assert sum(known(row.phases_s).values()) == pytest.approx(row.iteration_s, rel=0.03, abs=0.005)
            assert min(known(row.phases_s)[phase] for phase in ("physics", "observation", "inference", "storage")) > 0
            assert row.learning_rate == pytest.approx(1e-3)
        for row in rows[1:]:
            assert known(row.phases_s)["learning"] == pytest.approx(row.learn_s) and row.learn_s > 0
            assert row.fps_total < row.fps_env_step_inference < row.fps_env_step

    def test_the_replay_buffer_is_what_the_record_says(self, trained: tuple[TrialFolder, Record]) -> None:
        _, record = trained
        assert record.rollout_gb == pytest.approx(REPLAY * TRANSITION_BYTES / 1e9)
        assert record.outcome.memory_map is not None and record.outcome.memory_map.model_gb > 0
        assert record.outcome.memory_map.rollout_gb == record.rollout_gb
        assert record.num_mini_batches is None  # there are no epochs

    def test_each_batch_has_as_many_transitions_as_was_asked_for(self, tmp_path: Path, monkeypatch) -> None:
        drawn, sample = list[int](), RandomMemory.sample

        def noted(memory: Any, names: list[str], **sizes: Any) -> Any:
            batches = sample(memory, names, **sizes)
            drawn.append(len(batches[0][0]))
            return batches

        monkeypatch.setattr(RandomMemory, "sample", noted)
        trained_here(a_trial(tmp_path / "trial", trainer=self.trainer, **self.asked()))
        assert drawn == [40] * 2 * 16  # two for each environment step after the first iteration


def test_its_sizes_are_the_requests_and_the_librarys(tmp_path: Path) -> None:
    request = a_request(tmp_path / "library", "skrl_sac", **STATE, num_envs=48, batch_size=None, overrides={})
    agent = load("skrl_sac").resolve(request, "cpu").agent
    assert agent["agent"]["batch_size"] == 64 and agent["agent"]["learning_starts"] == 4
    assert agent["memory"]["memory_size"] == 1_000_000 // 48
    assert [layer["layers"] for layer in agent["models"]["critic_1"]["network"]] == [[32, 32]]  # as the task's for PPO


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"task_id": "Isaac-Cartpole-Camera-Direct"}, "registered for skrl with another network (images"),
        ({"overrides": {"agent.replay_transitions": 15}}, "15 transitions in its replay buffer, and num_envs 4 x horizon 4 has 16"),
        ({"batch_size": 500, "overrides": {"agent.replay_transitions": 99}}, "and one batch has 500"),
        ({"overrides": {"agent.memory.memory_size": 9}}, "override agent.memory.memory_size"),
        ({"overrides": {"agent.agent.batch_size": 9}}, "override agent.agent.batch_size"),
        ({"overrides": {"agent.agent.learning_starts": 9}}, "override agent.agent.learning_starts"),
    ],
)  # fmt: skip
def test_a_request_that_does_not_fit_is_refused(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    fitting = {**STATE, "overrides": {}}
    assert words in refusal(tmp_path / "refused", "skrl_sac", **(fitting | changes))
