"""`envknee init` writes a first study into a new folder, leaves a full one alone, and says what is wrong."""

import argparse
import importlib.util
import re
from importlib.metadata import requires
from pathlib import Path

import gymnasium
import pytest
from envknee import tasks
from envknee.run import init
from envknee.study.errors import UserError
from envknee.study.load import read_study
from envknee.tasks.own_settings import own_settings
from packaging.requirements import Requirement
from places import ROOT
from programs import python, refused, succeeded, told

CPU = init.device_of(0)


def written(folder: Path, task: str, device=CPU) -> str:
    init.write(folder, task, device)
    return (folder / init.FILE).read_text(encoding="utf-8")


def test_the_command_writes_a_study_that_loads_and_is_planned(tmp_path: Path):
    variables = {"PYTHONPATH": str(ROOT / "workflow"), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    words = ("-m", "envknee", "init", "my-ant", "--task", "Isaac-Ant", "--gpu-gb", "80")
    printed = succeeded(python(*words, cwd=tmp_path, env=variables))
    assert printed.startswith("wrote my-ant/study.yaml\nStudy my-ant: 56 trials at most, 1 arm (stock)\n"), printed
    assert "published GPU studies" in printed and "first: the task needs files" in printed
    assert printed.endswith("next: look at the file, then `envknee sweep my-ant/study.yaml`\n")
    study = read_study(tmp_path / "my-ant/study.yaml")
    assert (study.study, study.task.id) == ("my-ant", "Isaac-Ant")
    assert succeeded(python("-m", "envknee", "plan", "my-ant/study.yaml", cwd=tmp_path, env=variables))

    before = (tmp_path / "my-ant/study.yaml").read_bytes()
    again = python(*words, cwd=tmp_path, env=variables)
    refused(again, "my-ant is not empty: it has study.yaml, and nothing is overwritten. Name a new folder", status=2)
    assert (tmp_path / "my-ant/study.yaml").read_bytes() == before


def test_its_settings_are_those_that_the_task_is_registered_with():
    camera = own_settings("Isaac-Cartpole-Camera-Direct")
    env_cfg, agent_cfg = tasks.resolve("Isaac-Cartpole-Camera-Direct", "rsl_rl_cfg_entry_point")
    assert camera.fields == {
        "env.episode_length_s": env_cfg.episode_length_s,
        "env.scene.tiled_camera.width": env_cfg.scene.tiled_camera.width,
        "env.scene.tiled_camera.height": env_cfg.scene.tiled_camera.height,
        "agent.algorithm.learning_rate": agent_cfg.algorithm.learning_rate,
    }
    assert (camera.num_envs, camera.horizon) == (env_cfg.scene.num_envs, agent_cfg.num_steps_per_env)
    assert camera.frame_pixels == 2 * 96 * 96 and camera.trainer == "rsl_rl" and camera.presets is None
    toy = own_settings("cartpole_toy")
    assert toy.frame_pixels == 2 * 28 * 28 and toy.fields["agent.algorithm.learning_rate"] == 3e-3
    two_cameras = own_settings("cartpole_dual_camera")  # the second camera is as large as the first
    assert two_cameras.fields["env.scene.tiled_camera.width"] == 96


@pytest.mark.parametrize(
    ("task", "trainer", "horizon", "presets"),
    [
        ("Isaac-Pendulum-MARL-Direct", "skrl", 16, None),
        ("IsaacContrib-Velocity-Flat-UnitreeA1", "rsl_rl", 24, "newton_mjwarp"),
    ],
)
def test_a_task_with_another_library_or_that_needs_presets(task: str, trainer: str, horizon: int, presets: str | None):
    own = own_settings(task)
    assert (own.trainer, own.horizon, own.presets) == (trainer, horizon, presets)
    assert own.files and own.frame_pixels == 0


def test_a_task_of_ones_own_is_named_with_its_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    page = (ROOT / "docs/extending.md").read_text(encoding="utf-8")
    (module,) = re.findall(r"^`workflow/envknee/tasks/swing_up.py`:\n\n```python\n(.*?)^```$", page, re.M | re.S)
    (tmp_path / "swinging.py").write_text(module, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    text = written(tmp_path / "mine", "swinging:Envknee-Swing-Up-Direct")
    gymnasium.registry.pop("Envknee-Swing-Up-Direct")  # other tests list what is registered
    study = read_study(tmp_path / "mine" / init.FILE)
    assert study.task.id == "swinging:Envknee-Swing-Up-Direct" and "env.episode_length_s: 4.0" in text


@pytest.mark.parametrize(
    ("task", "words"),
    [
        (
            "Isaac-Antt",
            ["no such task", "did you mean 'Isaac-Ant'?", "Isaac-Velocity-Rough-H1", "`envknee tasks` says"],
        ),
        ("nowhere.at_all:Mine", ["module 'nowhere.at_all' does not import", "Expected MODULE:TASK"]),
        ("IsaacContrib-Velocity-Rough-AnymalC-Direct", ["needs Isaac Sim", "`envknee tasks` lists", "`envknee knee`"]),
        ("Isaac-RenderBenchmark-Franka-Cabinet", ["no agent for rsl_rl, skrl, rl_games, sb3", "docs/extending.md"]),
    ],
)
def test_a_task_that_cannot_be_measured_is_told_and_nothing_is_made(tmp_path: Path, task: str, words: list[str]):
    told(lambda: init.write(tmp_path / "mine", task, CPU), task.partition(":")[0], *words)
    assert not (tmp_path / "mine").exists()


def test_a_folder_that_is_in_the_way_or_whose_name_is_none_for_a_study_is_told(tmp_path: Path):
    (tmp_path / "file").write_text("x", encoding="utf-8")
    told(lambda: init.check_folder(tmp_path / "file"), "file is a file", "Name another one")
    (tmp_path / "full").mkdir()
    for name in ("b", "a"):
        (tmp_path / "full" / name).touch()
    told(lambda: init.check_folder(tmp_path / "full"), "it has a and 1 more", "nothing is overwritten")
    told(lambda: init.check_folder(tmp_path / "My-Ant"), "'My-Ant'", "lower-case letters")
    (tmp_path / "empty").mkdir()
    assert init.check_folder(tmp_path / "empty") == "empty"


@pytest.mark.parametrize("gb", [-1.0, float("nan"), float("inf")])
def test_a_memory_of_no_size_is_told(gb: float):
    told(lambda: init.device_of(gb), "--gpu-gb", "such as 80, or 0 for the CPU")


def test_a_broken_driver_is_told_and_not_taken_for_a_cpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\n", encoding="utf-8")
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(init.gpus, "visible_uuids", list)
    with pytest.raises(UserError, match="gpus: auto finds no GPU"):
        init.device_here()


def test_the_example_names_the_extra_only_where_isaac_lab_is_not_installed(capsys, monkeypatch: pytest.MonkeyPatch):
    given = argparse.Namespace(folder=Path("mine"), workflow=True, task=None, study=None)
    init.print_next(given, Path("mine/config/config.yaml"), None)
    assert "trains with Isaac Lab. " in capsys.readouterr().out
    monkeypatch.setattr(importlib.util, "find_spec", {"isaaclab": None}.get)
    init.print_next(given, Path("mine/config/config.yaml"), None)
    assert "not installed here: pip install 'envknee[isaaclab]'" in capsys.readouterr().out


def test_the_install_page_names_the_pytorch_that_isaac_lab_asks_for():
    """pip replaces any other one by a CUDA build."""
    asked = {Requirement(text).name: str(Requirement(text)) for text in requires("isaaclab") or []}
    page = (ROOT / "docs/install.md").read_text(encoding="utf-8")
    assert f"\npip install {asked['torch']} {asked['torchvision']} " in page
