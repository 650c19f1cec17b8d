"""Import all that the image holds, make the camera cart-pole and step it once; runs inside the image, without envknee.

Building the image runs it to compile Warp's kernels for the CPU into WARP_CACHE_PATH, and `%test` to see that it works.
Kernels for GPUs are left to the first trial on one: which ones there are depends on the device (tile sizes, block
dimensions), so that stepping on a CPU does not tell them.

    python /opt/envknee/step_once.py
"""

import importlib
import re
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).parent
MODULES = (
    "isaaclab", "isaaclab_tasks", "isaaclab_rl", "isaaclab_newton", "newton", "warp", "mujoco", "mujoco_warp", "pxr.Usd",
    "torch", "rsl_rl.runners", "tensordict", "gymnasium", "hydra", "omni.client", "pynvml", "psutil", "pydantic", "yaml",
)  # fmt: skip
"""What the packages that requirements.lock asks for by name are imported as."""


def main() -> None:
    """Check versions, import, step."""
    pins = re.findall(r"^([a-z0-9-]+)==(\S+)", (HERE / "requirements.lock").read_text(encoding="utf-8"), re.MULTILINE)
    wrong = [f"{name} {version(name)}" for name, pinned in pins if version(name).partition("+")[0] != pinned]
    if wrong:
        raise SystemExit(f"the image holds other versions than requirements.lock: {', '.join(wrong)}")
    for name in MODULES:
        importlib.import_module(name)

    import gymnasium
    import torch
    from isaaclab_tasks.utils import parse_env_cfg

    task = "Isaac-Cartpole-Camera-Direct"
    config = parse_env_cfg(task, device="cpu", num_envs=2)
    config.scene.cartpole.spawn.usd_path = str(HERE / "cartpole.usda")
    config.scene.tiled_camera.width = config.scene.tiled_camera.height = 24
    env = gymnasium.make(task, cfg=config)
    env.reset()
    _, reward, *_ = env.step(torch.zeros(2, 1))
    print(f"{len(pins)} packages; one step of {task}: reward {[round(value, 3) for value in reward.tolist()]}")


if __name__ == "__main__":
    main()
    # Isaac Lab's and Warp's own shutdown may hang or crash after all is done: leave without it.
    import os
    import sys

    sys.stdout.flush()
    os._exit(0)
