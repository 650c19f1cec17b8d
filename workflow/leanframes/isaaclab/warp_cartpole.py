"""The camera cart-pole on Warp's frontend: Isaac Lab's Warp cart-pole with the stock task's camera.

Input: the stock task's configuration. Output: from the same states, the same observations, rewards and episode ends as
`isaaclab_tasks.core.cartpole.cartpole_direct_camera_env:CartpoleCameraEnv` of Isaac Lab 3.0.0. Random initial states differ: Warp's
generator draws them. Physics, episode ends, rewards and resets are captured as CUDA graphs. The camera renders after
them, as in the stock task.
"""

import functools
from typing import Any

import torch
import warp as wp
from isaaclab.utils.images import CameraFrameStack, normalize_camera_image
from isaaclab_tasks_experimental.core.cartpole.cartpole_warp_env import CartpoleWarpEnv


class CartpoleCameraWarpEnv(CartpoleWarpEnv):
    """Steps and resets with Warp kernels; the CPU never waits to learn which environments ended."""

    def __init__(self, cfg: Any, render_mode: str | None = None, **kwargs: Any) -> None:
        """Create the scene of a `CartpoleCameraEnvCfg`."""
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
        """Reset all environments; return the observations of `_compute_observations`, and extras."""
        _, extras = super().reset(seed, options)
        self._frames.reset(None)
        self._move_bodies(self._ALL_ENV_MASK)
        self.obs_buf = self._compute_observations()
        return self.obs_buf, extras

    def step(self, action: torch.Tensor) -> tuple[Any, Any, Any, Any, dict]:
        """Step all environments. The next step overwrites the returned rewards and episode ends."""
        _, rewards, terminated, truncated, extras = super().step(action)
        self._frames.reset(self._has_ended)
        self._move_bodies(self.reset_buf)
        self.obs_buf = self._compute_observations()
        return self.obs_buf, rewards, terminated, truncated, extras

    def _move_bodies(self, mask: wp.array) -> None:
        """Update body poses from the joints that a reset wrote; else the camera would see the old poses.

        Upstream: `write_joint_position_to_sim_mask` ends with the same call (Articulation of isaaclab_newton 3.0.0).
        """
        self.cartpole.data._reset_pose(env_mask=mask)

    def _compute_observations(self) -> Any:
        """Return `policy`, stacked frames with channels first [num_envs, ...], and `critic`, joint states [num_envs, 4].

        Called after upstream's step or reset, whose observations are a copy of the joint states.
        """
        joints = self.obs_buf["policy"]
        images = self._tiled_camera.data.output[self._data_type].torch
        if self._data_type == "albedo":
            images = images[..., :3]  # drops alpha, as the stock task does
        normalize = functools.partial(normalize_camera_image, data_type=self._data_type)
        return {"policy": self._frames(images, normalize), "critic": joints}
