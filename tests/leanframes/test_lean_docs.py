"""The examples of docs/leanframes.md, as they stand there, on real Isaac Lab."""

import os
import re
import sys
from pathlib import Path

import pytest
from programs import ran, succeeded

ROOT = Path(__file__).parents[2]
DIRECT, MANAGER = "Isaac-Cartpole-Camera-Direct", "Isaac-Cartpole-Camera"

BEFORE = """
import warp
warp.config.enable_backward = False  # as `isaaclab train` does
import gymnasium, importlib.metadata, isaaclab_tasks, torch
from isaaclab.managers import ManagerTermBase, ObservationTermCfg
from isaaclab_rl.rsl_rl import RslRlVecEnvWrapper
from isaaclab_rl.rsl_rl.utils import create_rsl_rl_runner, handle_deprecated_rsl_rl_cfg
from isaaclab_tasks.core.cartpole.cartpole_direct_env import CartpoleEnv as MyEnv
from isaaclab_tasks.utils.hydra import resolve_task_config
from leanframes import LeanFrameStack, normalized
from leanframes.isaaclab import frontend, use_lean_frames

task = {task!r}
env_cfg, agent_cfg = resolve_task_config(task, "rsl_rl_cfg_entry_point", overrides=[])
for item in vars(env_cfg.scene).values():
    spawn = getattr(item, "spawn", None)
    if str(getattr(spawn, "usd_path", "")).endswith("cartpole.usd"):
        spawn.usd_path = {asset!r}
env_cfg.scene.num_envs, env_cfg.seed, env_cfg.sim.device = 4, 1, "cpu"
env_cfg.scene.tiled_camera.width = env_cfg.scene.tiled_camera.height = 24
agent_cfg = handle_deprecated_rsl_rl_cfg(agent_cfg, importlib.metadata.version("rsl-rl-lib"))
agent_cfg.device, agent_cfg.num_steps_per_env, agent_cfg.algorithm.num_mini_batches = "cpu", 4, 2
"""
"""A user's own configurations, with the robot's file of this project: nothing is downloaded."""

AFTER = """
runner.learn(1)
assert runner.alg.storage.stack_sizes == {"policy": 2}
assert runner.alg.storage.frames["policy"].shape == (5, 4, 3, 24, 24)
assert runner.alg.storage.frames["policy"].float().std() > 0
import sys
assert not [name for name in sys.modules if name.partition(".")[0] == "envknee"]
print("learned", flush=True)
import os
os._exit(0)  # Isaac Lab's own shutdown may hang
"""


def examples() -> list[str]:
    page = (ROOT / "docs/leanframes.md").read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```$", page, re.M | re.S)


def learns(folder: Path, task: str, *parts: str) -> bool:
    """Run a script of these parts between a user's configurations and a check of what was learned."""
    asset = str(ROOT / "workflow/envknee/tasks/cartpole.usda")
    code = "\n".join([BEFORE.format(task=task, asset=asset), *parts, AFTER])
    # A GPU host without a package index may have its packages on PYTHONPATH, too.
    paths = [str(ROOT / "workflow"), *filter(None, [os.environ.get("PYTHONPATH")])]
    return "learned" in succeeded(
        ran(
            [sys.executable, "-c", code],
            cwd=folder,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
            timeout=400,
        )
    )


@pytest.mark.parametrize("task", [DIRECT, MANAGER])
def test_five_lines_are_all(task: str, tmp_path: Path):
    five = examples()[0]
    assert len(five.splitlines()) == 5
    assert learns(tmp_path, task, five)


def test_a_direct_environment_of_ones_own(tmp_path: Path):
    five, direct, *_ = examples()
    made = five.replace("gymnasium.make(task, cfg=env_cfg)", "LeanCameraEnv(cfg=env_cfg)")
    lines = [line for line in made.splitlines() if "use_lean_frames" not in line]
    assert learns(tmp_path, DIRECT, "env_cfg.observation_space = [6, 24, 24]", direct, *lines)


def test_a_term_of_ones_own(tmp_path: Path):
    five, _, term, *_ = examples()
    lines = [line for line in five.splitlines() if "use_lean_frames" not in line]
    assert learns(tmp_path, MANAGER, term, "env_cfg.observations.policy.image = image", *lines)


def test_the_twin_on_warps_frontend(tmp_path: Path):
    five, *_, twin = examples()
    others = [line for line in five.splitlines() if not line.startswith(("env =", "use_lean_frames"))]
    assert learns(tmp_path, DIRECT, "frontend.check(task, env_cfg)", twin, *others)


def test_frames_without_a_trainer():
    import torch
    from leanframes import LeanFrameStack, normalized

    names = {"LeanFrameStack": LeanFrameStack, "normalized": normalized, "torch": torch}
    names["images"] = torch.full((64, 5, 7, 4), 7, dtype=torch.uint8)[..., :3]
    exec(examples()[3], names)  # noqa: S102  the example as it stands
    assert names["stacked"].shape == (64, 6, 5, 7) and names["values"].abs().max() < 1e-2
