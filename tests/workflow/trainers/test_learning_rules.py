"""Rules and staggered starts in real trials on the CPU: what a request says is what the library trains with."""

from pathlib import Path
from typing import Any

import pytest
import quick
from camera_trials import a_trial
from envknee.record.read import read_rows
from envknee.study.paths import TrialFolder
from envknee.trainers.rsl_rl import command_line
from needs import need
from trained import refusal

TRAINERS = ("rsl_rl", "rl_games", "skrl", "sb3", "torchrl")

STATE: dict[str, Any] = {"task_id": "Isaac-Cartpole-Direct", "overrides": {"env.episode_length_s": 0.2}}
"""The cart-pole without a camera; episodes of 12 steps, in which no pole falls."""

SQRT = {"rule": "sqrt_lr", "num_envs": 4, "horizon": 4, "batch_size": 8}

CONSTANT: dict[str, dict[str, Any]] = {
    "rsl_rl": {"agent.algorithm.schedule": "fixed"},
    "rl_games": {"agent.params.config.lr_schedule": "fixed"},
    "skrl": {"agent.agent.learning_rate_scheduler": None},
    "sb3": {},
    "torchrl": {"agent.desired_kl": None},
}
"""What switches off a schedule of each library, as its refusal says."""


def a_state_trial(folder: Path, trainer: str, **changes: Any) -> TrialFolder:
    overrides = STATE["overrides"] | changes.pop("overrides", {})
    sizes: dict[str, Any] = {"num_envs": 8, "horizon": 4, "batch_size": 16, "iterations": 7}
    return a_trial(folder, trainer=trainer, task_id=STATE["task_id"], overrides=overrides, **(sizes | changes))


@pytest.mark.parametrize("trainer", TRAINERS)
@pytest.mark.parametrize("staggered", [True, False])
def test_first_episodes_start_as_asked(tmp_path: Path, trainer: str, staggered: bool) -> None:
    need(trainer)
    trial = a_state_trial(tmp_path / "trial", trainer, staggered=staggered)
    record = quick.launch(trial)
    assert record.outcome.status == "ok", record.outcome
    episodes = [row.episodes for row in read_rows(trial)]
    # Whole episodes are the second ones. Together they all end within steps 21 to 24; spread, eight of them do not.
    ended_in = [row for row, count in enumerate(episodes) if count]
    assert sum(filter(None, episodes)) == 8 or staggered
    assert (len(ended_in) > 1) is staggered, episodes
    if not staggered:
        assert ended_in == [5]


@pytest.mark.parametrize("trainer", TRAINERS)
def test_a_rules_learning_rate_and_epochs_are_the_librarys(tmp_path: Path, trainer: str) -> None:
    need(trainer)
    rule = {"learning_rate": 1.25e-4, "epochs": 3, "scaled_from": SQRT}
    trial = a_state_trial(tmp_path / "trial", trainer, iterations=2, overrides=CONSTANT[trainer], **rule)
    record = quick.launch(trial)
    assert record.outcome.status == "ok", record.outcome
    assert [row.learning_rate for row in read_rows(trial)] == pytest.approx([1.25e-4] * 2)
    if trainer == "rsl_rl":
        fields = {"agent.algorithm.learning_rate=0.000125", "agent.algorithm.num_learning_epochs=3"}
        assert fields < set(command_line(record.request, "cpu"))


@pytest.mark.parametrize("trainer", ["rl_games", "skrl", "torchrl"])
def test_a_schedule_that_would_undo_the_rule_is_refused(tmp_path: Path, trainer: str) -> None:
    need(trainer)
    text = refusal(
        tmp_path / "adaptive", trainer, task_id=STATE["task_id"], learning_rate=1e-3, overrides={}, scaled_from=SQRT
    )
    ((name, value),) = CONSTANT[trainer].items()
    assert "rule sqrt_lr sets the learning rate" in text and f"{name}: {'null' if value is None else value}" in text


def test_overrides_of_what_the_rule_or_the_arm_sets_are_refused(tmp_path: Path) -> None:
    rate = {"agent.algorithm.learning_rate": 1e-3}
    text = refusal(tmp_path / "rate", "rsl_rl", overrides=rate, learning_rate=1e-4, scaled_from=SQRT)
    assert "override agent.algorithm.learning_rate: 0.001: the arm's scaling sets it to 0.0001" in text
    start = {"agent.init_at_random_ep_len": False}
    assert "agent.init_at_random_ep_len" in refusal(tmp_path / "start", "rsl_rl", overrides=start, staggered=True)
    assert "agent.algorithm.schedule: fixed" in refusal(
        tmp_path / "adaptive", "rsl_rl", overrides={"agent.algorithm.schedule": "adaptive"}, learning_rate=1e-4, scaled_from=SQRT
    )  # fmt: skip
