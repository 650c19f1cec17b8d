"""The command with which a user trains at a recommended setting: for a program of their own, and for envknee's trainers."""

from pathlib import Path
from typing import Any

import pytest
from envknee.record.schema import Request
from envknee.run.training_command import has_no_length, picked_options, training_command
from envknee.study import presets
from envknee.study.arm import Memory
from envknee.study.command import Command
from envknee.trainers.command import program
from envknee.trainers.common.isaac_lab import PRESETS
from envknee.verdict.schema.joint import Setting
from records import GPU, a_trial, known


def asked(**changes: Any) -> list[Any]:
    """Return the record of one trial with a changed request, and that of one at another setting."""
    trials = [a_trial(64, device=GPU).asked(**changes), a_trial(32, number=1, device=GPU).asked(**changes)]
    return [trial.record for trial in trials]


def setting(num_envs: int = 64, horizon: int = 8, batch_size: int | None = 128) -> Setting:
    return Setting(num_envs=num_envs, horizon=horizon, batch_size=batch_size)


def test_a_trainer_of_envknee_trains_with_isaac_labs_command():
    command = known(training_command(asked(overrides={"env.x": [1, 2], "presets": "newton_mjwarp"}), setting()))
    assert command.argv == [
        "isaaclab", "train", "--rl_library", "rsl_rl", "--task", "Isaac-Cartpole-Camera-Direct", "--num_envs", "64", "--seed", "0",
        "--device", "cuda:0", "agent.device=cuda:0", "agent.num_steps_per_env=8", "agent.algorithm.num_mini_batches=4",
        "env.x=[1, 2]", "presets=newton_mjwarp",
    ]  # fmt: skip
    assert command.lacks == []


def test_settings_with_a_flag_are_set_and_the_others_are_named():
    records = asked(
        observations="lean",
        frontend="warp",
        staggered=False,
        learning_rate=1e-3,
        memory=Memory(mixed_precision=True),
        gpus=2,
    )
    command = known(training_command(records, setting(batch_size=256)))
    words = " ".join(command.argv)
    assert "--frontend warp" in words and "agent.init_at_random_ep_len=false" in words
    assert "agent.algorithm.learning_rate=0.001" in words and "num_mini_batches=4" in words, "512 on each of 2 GPUs"
    assert command.lacks == ["observations: lean", "memory.mixed_precision: true", "gpus: 2"]


@pytest.mark.parametrize("trainer", ["torchrl", "sb3", "skrl_sac"])
def test_a_trainer_without_a_command_of_isaac_lab_is_named(trainer: str):
    command = known(training_command(asked(trainer=trainer), setting()))
    assert (command.argv, command.lacks) == ([], [f"trainer: {trainer}"])


def test_a_setting_that_no_trial_ran_takes_the_arms_other_settings():
    command = known(training_command(asked(overrides={"agent.y": 3}), setting(4096, 32, None)))
    words = " ".join(command.argv)
    assert "--num_envs 4096" in words and "num_steps_per_env=32" in words and "num_mini_batches" not in words
    assert command.argv[-1] == "agent.y=3"
    assert training_command([], setting()) is None, "nothing is known of an arm without a trial"


def test_a_command_of_ones_own_is_the_studys_without_the_end_of_a_trial():
    own = Command.model_validate(
        {
            "argv": [
                "python",
                "my train.py",
                "--envs={num_envs}",
                "--steps",
                "{frames}",
                "--length={iterations}",
                "{seed}",
            ],
            "arguments": ["--out", "{run_dir}", "--verbose", "--horizon", "{horizon}"],
            "batch_arguments": ["--batch", "{batch_size}"],
            "env": {"OMP_NUM_THREADS": "{gpus}"},
            "rows": {"source": "jsonl", "path": "log.jsonl", "step": "iterations"},
        }
    )
    command = known(training_command(asked(trainer="command", command=own), setting()))
    assert command.argv == [
        "python", "my train.py", "--envs=64", "0", "--out", ".", "--verbose", "--horizon", "8", "--batch", "128"
    ]  # fmt: skip
    assert command.env == {"OMP_NUM_THREADS": "1"}


@pytest.mark.parametrize("name", presets.names())
def test_every_preset_loses_its_length_and_nothing_else(name: str):
    preset = presets.read(name)
    command = Command.model_validate({"preset": name, "argv": preset.example})
    words = picked_options([*command.argv, *command.arguments], has_no_length)
    assert not [
        word for word in words if any(f"{{{length}}}" in word for length in ("iterations", "evaluations", "frames"))
    ]
    assert words[: len(preset.example)] == preset.example
    request: Request = a_trial(64).request.model_copy(update={"trainer": "command", "command": command})
    filled = [program.filled(word, program.values(request, Path(), 1)) for word in words]
    assert "64" in " ".join(filled)
    flags = [word for word in words if word.startswith("--")]
    assert len(flags) == len(set(flags))


def test_presets_of_own_trainers_exist():
    assert set(PRESETS.values()) <= set(presets.names())
