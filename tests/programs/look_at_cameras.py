"""Save what both cameras of the dual-camera cart-pole show where only the cart's position or only the pole's angle differs.

python tests/programs/look_at_cameras.py OUT.npz
"""

import sys
from pathlib import Path

import numpy
import torch
from envknee import tasks
from envknee.study.value_types import Overrides

STILL: Overrides = {
    "initial_cart_position_range": [0.0, 0.0],
    "initial_cart_velocity_range": [0.0, 0.0],
    "initial_pole_angle_range": [0.0, 0.0],
    "initial_pole_velocity_range": [0.0, 0.0],
}


def main(path: Path) -> None:
    env_cfg, _ = tasks.resolve(tasks.DUAL_CAMERA, "rsl_rl_cfg_entry_point")
    tasks.configure(env_cfg, "local", STILL, num_envs=4, seed=1, device="cpu")
    env = tasks.make(tasks.DUAL_CAMERA, env_cfg)
    env.reset()
    simulated = env.unwrapped
    frames = {}
    # One pose after the other in the same environments: a camera whose pose is only taken at the start would stay behind.
    for name, field, value in (
        ("middle", "initial_cart_position_range", (0.0, 0.0)),
        ("right", "initial_cart_position_range", (1.0, 1.0)),
        ("tilted", "initial_pole_angle_range", (0.3, 0.3)),
    ):
        setattr(simulated.cfg, field, value)  # type: ignore[attr-defined]
        simulated._reset_idx(torch.arange(4))  # type: ignore[attr-defined]
        observations, *_ = env.step(torch.zeros(4, 1))
        for group in ("policy", "jaw"):
            frames[f"{name} {group}"] = observations[group][0].numpy()
    numpy.savez(path, allow_pickle=False, **frames)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
