"""The camera cart-pole on Warp's frontend: Isaac Lab's Warp cart-pole, seen by the stock task's camera.

Input: the stock task's configuration. Output: the same observations, rewards and ends of episodes as
`isaaclab_tasks.core.cartpole.cartpole_direct_camera_env:CartpoleCameraEnv` of Isaac Lab 3.0.0 from the same states; random starts
come from Warp's generator. Physics, ends, rewards and resets are captured; the camera's frames come after them, in PyTorch's order.
"""

import functools
from typing import Any

import torch
import warp as wp
from isaaclab.utils.images import CameraFrameStack, normalize_camera_image
from isaaclab_tasks_experimental.core.cartpole.cartpole_warp_env import CartpoleWarpEnv


class CartpoleCameraWarpEnv(CartpoleWarpEnv):
    """Steps and resets by Warp's kernels, without asking which environments ended."""

    def __init__(self, cfg: Any, render_mode: str | None = None, **kwargs: Any) -> None:
        """Make the scene of a `CartpoleCameraEnvCfg`."""
        cfg.frame_stack = max(1, cfg.frame_stack)
        camera = cfg.scene.tiled_camera
        if isinstance(cfg.observation_space, list):
            channels = int(cfg.observation_space[0])
            cfg.observation_space = [channels * cfg.frame_stack, int(camera.height), int(camera.width)]
        (self._data_type,) = camera.data_types
        super().__init__(cfg, render_mode, **kwargs)
        self._tiled_camera = self.scene["tiled_camera"]
        self._frames = CameraFrameStack(self.num_envs, self.device, cfg.frame_stack, channel_first=True)
        self._has_ended = wp.to_torch(self.reset_buf)

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict]:
        """Reset all environments; return observations as `_compute_observations` does, and extras."""
        _, extras = super().reset(seed, options)
        self._frames.reset(None)
        self._move_bodies(self._ALL_ENV_MASK)
        self.obs_buf = self._compute_observations()
        return self.obs_buf, extras

    def step(self, action: torch.Tensor) -> tuple[Any, Any, Any, Any, dict]:
        """Step all environments; rewards and ends are views that the next step writes to."""
        _, rewards, terminated, truncated, extras = super().step(action)
        self._frames.reset(self._has_ended)
        self._move_bodies(self.reset_buf)
        self.obs_buf = self._compute_observations()
        return self.obs_buf, rewards, terminated, truncated, extras

    def _move_bodies(self, mask: wp.array) -> None:
        """Let bodies follow the joints that a reset has written: the camera would see them where they were.

        Upstream: what `write_joint_position_to_sim_mask` does after it has written (Articulation of isaaclab_newton 3.0.0).
        """
        self.cartpole.data._reset_pose(env_mask=mask)

    def _compute_observations(self) -> Any:
        """Return `policy`, stacked frames with channels first [num_envs, ...], and `critic`, the joints [num_envs, 4]."""
        images = self._tiled_camera.data.output[self._data_type].torch
        if self._data_type == "albedo":
            images = images[..., :3]  # without alpha, as the stock task takes it
        normalize = functools.partial(normalize_camera_image, data_type=self._data_type)
        return {"policy": self._frames(images, normalize), "critic": self.torch_obs_buf.clone()}
