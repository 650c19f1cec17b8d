"""Render one frame of the cart-pole that ships with envknee, always in the same pose.

python tests/programs/render_frame.py OUT.png     (run it with OUT = tests/golden/cartpole.png after a wanted change)
"""

import sys
from pathlib import Path

import torch
from envknee import tasks
from envknee.study.value_types import Overrides
from PIL import Image

POSE: Overrides = {
    "initial_cart_position_range": [0.5, 0.5],
    "initial_cart_velocity_range": [0.0, 0.0],
    "initial_pole_angle_range": [0.3, 0.3],
    "initial_pole_velocity_range": [0.0, 0.0],
}


def main(path: Path) -> None:
    env_cfg, _ = tasks.resolve("Isaac-Cartpole-Camera-Direct", "rsl_rl_cfg_entry_point")
    tasks.configure(env_cfg, "local", POSE, num_envs=2, seed=1, device="cpu")
    env = tasks.make("Isaac-Cartpole-Camera-Direct", env_cfg)
    env.reset()
    env.step(torch.zeros(2, 1))
    frame = env.unwrapped.scene["tiled_camera"].data.output["rgb"].torch[0]  # type: ignore[attr-defined]
    Image.fromarray(frame.numpy()).save(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
