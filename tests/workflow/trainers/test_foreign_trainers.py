"""Programs that know nothing of envknee, from their command lines to verdict, MLflow, report and replay.

The fake one and Isaac Lab's own commands always run. Others run where `ENVKNEE_FOREIGN` names a folder of virtual environments,
`rl-zoo3` and `mjlab`, as tests/programs/foreign.sh makes it.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from environment import ENVIRONMENT, NO_GRADIENTS
from envknee.ask import ask
from envknee.base.point import Point
from envknee.record.read import load_records, read_rows
from envknee.record.schema import Record
from envknee.run.training_command import training_command
from envknee.study.load import parse_study
from envknee.study.paths import StudyFolder, TrialFolder
from envknee.study.space import Slot
from envknee.trainers.command import program
from envknee.verdict.schema.joint import Setting
from foreign_commands import KNEE, assert_whole, measured
from needs import need
from places import ROOT
from programs import ran, succeeded
from records import a_trial, known
from tracked import stored_runs
from workspaces import Workspace

TASKS = ROOT / "workflow/envknee/tasks"
ASSETS = {"cartpole": "cartpole.usda", "ground": "ground.usda"}
"""Files of the cart-pole that lie here: Isaac Lab would fetch its own."""

FOREIGN = Path(os.environ.get("ENVKNEE_FOREIGN", "/nonexistent"))


def envknee(python: Path | str, folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    variables = {key: value for key, value in ENVIRONMENT.items() if key != "PYTHONPATH"}
    if Path(python) == Path(sys.executable):
        variables["PYTHONPATH"] = ENVIRONMENT["PYTHONPATH"]
    command = [python, "-m", "envknee", *arguments]
    return ran(command, cwd=folder, env=variables, stderr=subprocess.STDOUT, timeout=1100)


def of_isaac_lab(folder: Path, preset: str, own_command: list[str], iterations: int = 3) -> tuple[Record, TrialFolder]:
    """Measure one trial of Isaac Lab's own command, in which 4 environments make rollouts of 8 steps."""
    argv = [str(Path(sys.executable).with_name("isaaclab")), *own_command]
    own = {"preset": preset, "argv": argv, "env": {"PYTHONPATH": NO_GRADIENTS}}
    arm = {"trainer": "command", "gpus": 0, "command": own}
    sizes = {"num_envs": [4], "horizon": 8, "batch_size": 16, "iterations": iterations}
    study = parse_study({"study": "demo", "arms": {"own": arm}, "throughput": sizes})
    return measured(folder, ask.request_for(study, Slot(0, "own", "throughput", 0), Point(4, 8, 16), None))


@pytest.mark.parametrize(
    ("preset", "command"), [("isaaclab-rsl-rl", ["train"]), ("isaaclab-benchmark", ["benchmark", "training"])]
)
def test_isaac_labs_own_commands_are_measured_unchanged(preset: str, command: list[str], tmp_path: Path):
    size = (f"env.scene.tiled_camera.{side}=24" for side in ("width", "height"))
    asset = f"env.scene.cartpole.spawn.usd_path={TASKS / ASSETS['cartpole']}"
    task = ["--rl_library", "rsl_rl", "--task", "Isaac-Cartpole-Camera-Direct", *size, asset]
    record, trial = of_isaac_lab(tmp_path, preset, [*command, *task], iterations=2)
    assert record.outcome.status == "ok" and record.outcome.environment is not None
    assert record.outcome.environment.packages["isaaclab"] == "3.0.0"
    assert record.fps_total is not None and record.fps_total.iterations >= 2
    # RSL-RL tells how long it collected and learned.
    assert all(row.collect_s and row.learn_s for row in read_rows(trial))


def test_the_training_command_of_a_card_trains(tmp_path: Path):
    sizes = {f"env.scene.tiled_camera.{side}": 24 for side in ("width", "height")}
    asset = {"env.scene.cartpole.spawn.usd_path": str(TASKS / ASSETS["cartpole"])}
    records = [a_trial(4, horizon=8, batch_size=16).asked(overrides=sizes | asset, gpus=0).record]
    setting = Setting(num_envs=4, horizon=8, batch_size=16)
    name, *words = known(training_command(records, setting)).argv
    executable = Path(sys.executable).with_name(name)
    variables = ENVIRONMENT | {"PYTHONPATH": NO_GRADIENTS}
    printed = succeeded(ran([executable, *words, "--max_iterations", "2"], cwd=tmp_path, env=variables, timeout=600))
    assert re.findall(r"Total steps: (\d+)", printed) == ["32", "64"]


@pytest.mark.parametrize("library", ["rl_games", "skrl", "sb3"])
def test_isaac_lab_with_its_other_libraries_is_measured_unchanged(library: str, tmp_path: Path, monkeypatch):
    """One trial each. Episodes are so short that each rollout ends some."""
    need(library)
    monkeypatch.setenv("TORCH_COMPILE_DISABLE", "1")  # RL-Games would compile its network for a minute
    command = [
        "train", "--rl_library", library, "--task", "Isaac-Cartpole-Direct", "env.episode_length_s=0.1",
        *(f"env.scene.{part}.spawn.usd_path={TASKS / file}" for part, file in ASSETS.items()),
    ]  # fmt: skip
    record, trial = of_isaac_lab(tmp_path, f"isaaclab-{library.replace('_', '-')}", command)
    assert record.outcome.status == "ok" and record.outcome.num_mini_batches == 2
    assert record.fps_total is not None and 1 < record.fps_total.median < 10_000
    rows = read_rows(trial)
    assert [row.frames for row in rows] == [32, 64, 96, 128]
    losses = program.command_of(record.request).rows.losses.keys()
    for row in rows[1:]:
        assert row.losses.keys() == losses and row.learning_rate
        assert row.reward_mean is not None and row.episode_length_mean is not None and row.episode_length_mean <= 7
        assert library != "rl_games" or (row.collect_s and row.learn_s)


@pytest.mark.parametrize(
    ("name", "command", "options"),
    [
        (
            "rl-zoo3",
            ["-m", "rl_zoo3.train", "--algo", "ppo", "--env", "Pendulum-v1"],
            ["--horizon", "64", "--batch-size", "64"],
        ),
        ("mjlab", ["-m", "mjlab.scripts.train", "Mjlab-Cartpole-Balance"], ["--horizon", "16"]),
    ],
)
def test_a_real_program_is_swept_to_a_verdict(name: str, command: list[str], options: list[str], tmp_path: Path):
    python = FOREIGN / name / "bin/python"
    if not python.exists():
        pytest.skip(
            f"no virtual environment with {name} (tests/programs/foreign.sh FOLDER makes it; ENVKNEE_FOREIGN=FOLDER names it)"
        )
    sizes = ["--num-envs", "2..8", "--repeats", "2", "--iterations", "2", *options]
    words = [*KNEE, *sizes, "--preset", name, "--name", "real", "--", str(python), *command]
    result = succeeded(envknee(sys.executable, tmp_path, *words))
    folder = StudyFolder(tmp_path / "results/real")
    assert_whole(folder, result, ["ok"] * 6)
    for record in load_records(folder):
        assert record.outcome.environment is not None and record.outcome.environment.packages
        assert record.fps_total is not None and record.fps_total.iterations >= 2
        assert record.outcome.environment.packages.get(name) is not None
    workspace = Workspace(tmp_path)
    runs = stored_runs(folder, name="real")
    fps = [run.data.metrics["fps_total"] for run in runs if "trial" in run.data.tags]
    assert len(runs) == 7 and len(fps) == 6 and min(fps) > 0
    succeeded(workspace.module("replay", str(folder.root), "--name", "again"))
    again = workspace.prepared("again")
    succeeded(workspace.sweep(again.study, str(again.trial(0).record.relative_to(tmp_path))))
    (record,) = load_records(again)
    assert record.outcome.status == "ok" and record.request.command == load_records(folder)[0].request.command
    verified = workspace.module("replay", "--verify", str(folder.root))
    assert "6 requests recomputed, all identical" in verified.stdout, verified.stdout
