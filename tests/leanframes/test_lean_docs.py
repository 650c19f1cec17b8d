"""The examples of docs/lean.md, as they stand there, on real Isaac Lab."""

import re
from pathlib import Path

import pytest
import quick
from conftest import ROOT

DIRECT, MANAGER = "Isaac-Cartpole-Camera-Direct", "Isaac-Cartpole-Camera"

BEFORE = """
import gymnasium, importlib.metadata, isaaclab_tasks, torch
from envknee import tasks
from leanframes import LeanFrameStack, normalized
from envknee.tasks import frames
from isaaclab.managers import ManagerTermBase, ObservationTermCfg
from isaaclab_rl.rsl_rl import RslRlVecEnvWrapper
from isaaclab_rl.rsl_rl.utils import create_rsl_rl_runner, handle_deprecated_rsl_rl_cfg
from isaaclab_tasks.core.cartpole.cartpole_direct_env import CartpoleEnv as MyEnv

task = {task!r}
env_cfg, agent_cfg = tasks.resolve(task, "rsl_rl_cfg_entry_point")
tasks.configure(env_cfg, "local", {{}}, num_envs=4, seed=1, device="cpu")
env_cfg.scene.tiled_camera.width = env_cfg.scene.tiled_camera.height = 24
agent_cfg = handle_deprecated_rsl_rl_cfg(agent_cfg, importlib.metadata.version("rsl-rl-lib"))
agent_cfg.device, agent_cfg.num_steps_per_env, agent_cfg.algorithm.num_mini_batches = "cpu", 4, 2
"""

AFTER = """
runner.learn(1)
assert runner.alg.storage.stack_sizes == {"policy": 2}
assert runner.alg.storage.frames["policy"].shape == (5, 4, 3, 24, 24)
assert runner.alg.storage.frames["policy"].float().std() > 0
print("learned", flush=True)
import os
os._exit(0)  # Isaac Lab's own shutdown may hang
"""


def examples() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs/lean.md").read_text(encoding="utf-8"), re.M | re.S)


@pytest.mark.parametrize("task", [DIRECT, MANAGER])
def test_five_lines_are_all(task: str, tmp_path: Path):
    five = examples()[0]
    assert len(five.splitlines()) == 5
    assert "learned" in quick.run_script(BEFORE.format(task=task) + five + AFTER, folder=tmp_path)


def test_a_direct_environment_of_ones_own(tmp_path: Path):
    five, direct, *_ = examples()
    made = five.replace("gymnasium.make(task, cfg=env_cfg)", "LeanCameraEnv(cfg=env_cfg)")
    lines = [line for line in made.splitlines() if "frames.use" not in line]
    space = "env_cfg.observation_space = [6, 24, 24]\n"
    code = BEFORE.format(task=DIRECT) + space + direct + "\n".join(lines) + AFTER
    assert "learned" in quick.run_script(code, folder=tmp_path)


def test_a_term_of_ones_own(tmp_path: Path):
    five, _, term, *_ = examples()
    used = "env_cfg.observations.policy.image = image\n"
    lines = [line for line in five.splitlines() if "frames.use" not in line]
    code = BEFORE.format(task=MANAGER) + term + used + "\n".join(lines) + AFTER
    assert "learned" in quick.run_script(code, folder=tmp_path)


def test_frames_without_a_trainer():
    import torch
    from leanframes import LeanFrameStack, normalized

    names = {"LeanFrameStack": LeanFrameStack, "normalized": normalized, "torch": torch}
    names["images"] = torch.full((64, 5, 7, 4), 7, dtype=torch.uint8)[..., :3]
    exec(examples()[3], names)  # noqa: S102  the example as it stands
    assert names["stacked"].shape == (64, 6, 5, 7) and names["values"].abs().max() < 1e-2
