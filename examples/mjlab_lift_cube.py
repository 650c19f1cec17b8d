"""mjlab's task Mjlab-Lift-Cube-Yam-Rgb with lean frames: a robot arm lifts a cube by what its camera sees.

    pip install mjlab==1.6.0 && pip install --no-deps rsl-rl-lib==5.5.1 && pip install 'workflow/leanframes[rsl-rl,warp]'
    python examples/mjlab_lift_cube.py --frames lean --num-envs 1024 --iterations 20

`--frames mjlab` trains with mjlab's own frames: float32, four bytes for each byte of the camera. Both print FPS, the GPU's used memory and
the mean reward of the newest episodes at the end. mjlab 1.6.0 declares rsl-rl-lib 5.4.2; leanframes needs 5.5.1, which both use here.

What is mjlab's own: images are normalized as `x / 255`, and its networks take a spatial softmax of padded convolutions. So the network
normalizes here, and convolutions stay PyTorch's.
"""

import argparse
import json
import os
import tempfile
import time
from dataclasses import asdict
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

os.environ.setdefault("MUJOCO_GL", "disabled")  # cameras are mujoco-warp's: no window, no OpenGL

import torch
from leanframes import LeanFrameStack
from leanframes.rsl_rl import LeanCNNModel
from mjlab.envs import ManagerBasedRlEnv
from mjlab.managers.manager_base import ManagerTermBase
from mjlab.rl import MjlabOnPolicyRunner, RslRlVecEnvWrapper
from mjlab.rl.spatial_softmax import SpatialSoftmaxCNNModel
from mjlab.tasks.registry import load_env_cfg, load_rl_cfg
from mjlab.utils.torch import configure_torch_backends

TASK = "Mjlab-Lift-Cube-Yam-Rgb"
WARM_UP = 2
PACKAGES = ("mjlab", "mujoco-warp", "warp-lang", "rsl-rl-lib", "torch")


class LeanRgb(ManagerTermBase):
    """The camera's newest frame as uint8, in place of `mdp.camera_rgb`."""

    def __init__(self, cfg: Any, env: ManagerBasedRlEnv) -> None:
        """Make a stack of one frame: the task has no other."""
        super().__init__(env)
        self._frames = LeanFrameStack(env.num_envs, 1, env.device)

    def __call__(self, env: ManagerBasedRlEnv, sensor_name: str) -> torch.Tensor:
        """Return the frame [num_envs, 3, height, width]."""
        return self._frames(env.scene[sensor_name].data.rgb)


class LeanSpatialSoftmax(LeanCNNModel, SpatialSoftmaxCNNModel):
    """mjlab's network, which reads bytes."""

    @staticmethod
    def normalize(images: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """Return images as `mdp.camera_rgb` does."""
        return images.to(dtype) / 255.0


def use_lean_frames(env_cfg: Any, agent_cfg: dict[str, Any]) -> None:
    """Change a task's configurations: its camera term, its networks and its learner."""
    (name,) = env_cfg.observations["camera"].terms
    env_cfg.observations["camera"].terms[name].func = LeanRgb
    for network in ("actor", "critic"):
        agent_cfg[network]["class_name"] = f"{__name__}:LeanSpatialSoftmax"
    agent_cfg["algorithm"]["class_name"] = "leanframes.rsl_rl:LeanPPO"


def wait_for(device: str) -> None:
    """Wait until a GPU has done its work."""
    if device != "cpu":
        torch.cuda.synchronize()


def free_bytes(device: str) -> int:
    """Return the free memory of the GPU, which nobody else may use meanwhile."""
    return 0 if device == "cpu" else torch.cuda.mem_get_info()[0]


def main() -> None:
    """Train for some iterations and print what they took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", choices=["lean", "mjlab"], default="lean")
    parser.add_argument("--num-envs", type=int, default=1024)
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="cuda:0" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--output", type=Path, help="also write what was measured, as JSON")
    arguments = parser.parse_args()
    configure_torch_backends()
    free_at_first = free_bytes(arguments.device)

    env_cfg, agent_cfg = load_env_cfg(TASK), asdict(load_rl_cfg(TASK))
    env_cfg.scene.num_envs, env_cfg.seed, agent_cfg["seed"] = arguments.num_envs, arguments.seed, arguments.seed
    if arguments.frames == "lean":
        use_lean_frames(env_cfg, agent_cfg)
    env = RslRlVecEnvWrapper(ManagerBasedRlEnv(cfg=env_cfg, device=arguments.device), agent_cfg["clip_actions"])
    agent_cfg["logger"] = "tensorboard"
    log_dir = tempfile.TemporaryDirectory()  # RSL-RL notes rewards only where it also logs
    runner = MjlabOnPolicyRunner(env, agent_cfg, log_dir.name, arguments.device)

    ends, learn_s, rewards, update = [time.perf_counter()], [], [], runner.alg.update

    def update_and_note() -> dict[str, float]:
        wait_for(arguments.device)
        began = time.perf_counter()
        losses = update()
        wait_for(arguments.device)
        ends.append(time.perf_counter())
        learn_s.append(ends[-1] - began)
        newest = runner.logger.rewbuffer
        rewards.append(sum(newest) / len(newest) if newest else None)
        return losses

    runner.alg.update = update_and_note
    runner.learn(arguments.iterations, init_at_random_ep_len=True)
    log_dir.cleanup()
    seconds = [end - begin for begin, end in pairwise(ends)]
    # The first iterations load and capture kernels.
    fps = arguments.num_envs * agent_cfg["num_steps_per_env"] / median(seconds[WARM_UP:] or seconds)
    used_gb = (free_at_first - free_bytes(arguments.device)) / 1e9
    print(f"{arguments.frames} frames: {fps:,.0f} FPS, {used_gb:.2f} GB, mean reward {rewards[-1]}")
    if arguments.output:
        measured = {
            "frames": arguments.frames,
            "num_envs": arguments.num_envs,
            "horizon": agent_cfg["num_steps_per_env"],
            "seed": arguments.seed,
            "warmup_iterations": WARM_UP,
            "iteration_s": seconds,
            "learn_s": learn_s,
            "reward": rewards,
            "used_gb": used_gb,
            "versions": {name: version(name) for name in PACKAGES},
        }
        arguments.output.write_text(json.dumps(measured), encoding="utf-8")
    env.close()


if __name__ == "__main__":
    main()
