"""The first study of a task: its sizes follow from task and device, and its text is a legal study with the task's own settings."""

import dataclasses
from typing import Any

import pytest
import yaml
from envknee.study.first_sizes import OwnSettings, sizes_of
from envknee.study.first_study import Device, text_of
from envknee.study.load import parse_study
from envknee.study.model import Study
from envknee.study.space import legal_points
from envknee.study.task import TOY_SETTINGS
from records import known

CPU = Device("the CPU", None)
CAMERA = OwnSettings(
    task="Isaac-Cartpole-Camera-Direct", trainer="rsl_rl", trainers=("rsl_rl", "skrl"), presets=None, files=(), num_envs=512,
    horizon=64, fields={"env.episode_length_s": 5.0, "agent.algorithm.learning_rate": 3e-4}, frame_pixels=2 * 96 * 96,
)  # fmt: skip
ANT = dataclasses.replace(
    CAMERA, task="Isaac-Ant", num_envs=4096, horizon=32, frame_pixels=0, files=("Isaac/Robots/ant.usd",)
)


def gpu(gb: float) -> Device:
    return Device(f"a GPU with {gb:g} GB", gb)


def study_of(own: OwnSettings, device: Device) -> Study:
    return parse_study(yaml.safe_load(text_of("mine", own, sizes_of(own, device.gpu_gb), device)))


@pytest.mark.parametrize(
    ("own", "gpu_gb", "expected"),
    [
        # A transition has 2 frames x 3 channels x 96 x 96 x 4 bytes = 221 kB, so 80 GB hold 5,651 environments x 64 steps.
        (CAMERA, 80, (256, 8192, 64)),
        (CAMERA, 24, (64, 2048, 64)),
        (CAMERA, None, (8, 64, 16)),
        (dataclasses.replace(CAMERA, frame_pixels=2 * 28 * 28), None, (64, 512, 16)),
        (dataclasses.replace(CAMERA, frame_pixels=10**9), None, (1, 8, 16)),
        (dataclasses.replace(CAMERA, frame_pixels=10**9), 8, (64, 128, 64)),
        (ANT, 80, (1024, 32768, 32)),  # a quarter of its own to eight times its own
        (ANT, None, (128, 1024, 16)),
        (dataclasses.replace(ANT, num_envs=50), 80, (64, 512, 32)),
        (dataclasses.replace(ANT, num_envs=10**6), 80, (2048, 65536, 32)),
    ],
)
def test_sizes_follow_from_the_task_and_the_device(own: OwnSettings, gpu_gb: float | None, expected: tuple[int, ...]):
    sizes = sizes_of(own, gpu_gb)
    assert (sizes.least, sizes.most, sizes.horizon) == expected and sizes.batch_size == "library"


@pytest.mark.parametrize("trainer", ["rsl_rl", "skrl", "rl_games", "sb3"])
@pytest.mark.parametrize("device", [CPU, gpu(8), gpu(80)], ids=lambda device: device.name)
@pytest.mark.parametrize("task", ["Isaac-Cartpole-Camera-Direct", "Isaac-Ant", "mylab.tasks:Mine", "cartpole_toy"])
@pytest.mark.parametrize("presets", [None, "newton_mjwarp", "newton_mjwarp,newton_renderer"])
def test_every_text_is_a_legal_study_with_the_tasks_own_settings(task: str, trainer: str, device: Device, presets):
    own = dataclasses.replace(CAMERA, task=task, trainer=trainer, presets=presets)
    study = study_of(own, device)
    stated = {"presets": presets} if presets else {"env.episode_length_s": 5.0}
    toy = TOY_SETTINGS if task == "cartpole_toy" else {}
    assert study.task.overrides == toy | stated
    assert study.arms["stock"].trainer == trainer and study.arms["stock"].gpus == (0 if device is CPU else 1)
    for sweep in study.sections.values():
        assert len(legal_points(sweep, study.world_sizes)) == len(sweep.num_envs)


def uncommented(text: str, *words: str) -> Any:
    """Return a study in which a user took the `#` away before these words."""
    for word in words:
        assert f"# {word}" in text
        text = text.replace(f"# {word}", word)
    return yaml.safe_load(text)


def test_what_stands_as_a_comment_can_be_taken_over_as_it_is():
    text = text_of("mine", ANT, sizes_of(ANT, 80), gpu(80))
    study = parse_study(uncommented(text, "agent.algorithm.learning_rate: "))
    assert study.task.overrides["agent.algorithm.learning_rate"] == 3e-4 and study.learning is None
    assert "#   Isaac/Robots/ant.usd" in text
    lines = text.replace("REWARD", "12.5").splitlines()
    start = lines.index("# learning:")
    end = lines.index("", start)
    lines[start:end] = [line.removeprefix("# ") for line in lines[start:end]]
    assert known(parse_study(yaml.safe_load("\n".join(lines))).learning).target_reward == 12.5


def test_a_reward_that_this_project_knows_is_the_target_where_the_device_can_train():
    assert known(study_of(CAMERA, gpu(80)).learning).target_reward == 4.5
    assert study_of(CAMERA, CPU).learning is None
    toy = dataclasses.replace(CAMERA, task="cartpole_toy", frame_pixels=2 * 28 * 28)
    assert known(study_of(toy, CPU).learning).target_reward == 0.0
