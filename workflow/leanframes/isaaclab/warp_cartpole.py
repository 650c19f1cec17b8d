"""The camera cart-pole on Warp's frontend: Isaac Lab's Warp cart-pole with the stock task's camera.

Input: the stock task's configuration. Output: from the same states, the same observations, rewards and episode ends as
`isaaclab_tasks.core.cartpole.cartpole_direct_camera_env:CartpoleCameraEnv` of Isaac Lab 3.0.0. Random initial states differ: Warp's
generator draws them. On a GPU physics, episode ends with rewards and resets, observations, and rendering are a CUDA graph each. The camera
renders last, as in the stock task.
"""

import functools
from typing import Any

import gymnasium
import torch
import warp as wp
from isaaclab.physics import PhysicsManager
from isaaclab.utils.images import CameraFrameStack, normalize_camera_image
from isaaclab_newton.physics import NewtonManager
from isaaclab_tasks_experimental.core.cartpole.cartpole_warp_env import CartpoleWarpEnv

from leanframes.isaaclab.stages import Notes, Stage


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
        self._action = torch.zeros(
            self.num_envs, gymnasium.spaces.flatdim(self.single_action_space), device=self.device
        )
        self._action_for_warp = wp.from_torch(self._action)
        self._has_graphs = self._fits_graphs()
        if self._has_graphs:
            self._capture_stages()

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict]:
        """Reset all environments; return the observations of `_compute_observations`, and extras."""
        _, extras = super().reset(seed, options)
        self._frames.reset(None)
        self._move_bodies(self._ALL_ENV_MASK)
        self.obs_buf = self._compute_observations()
        return self.obs_buf, extras

    def step(self, action: torch.Tensor) -> tuple[Any, Any, Any, Any, dict]:
        """Step all environments. The next step overwrites the returned rewards and episode ends.

        Upstream: `DirectRLEnvWarp.step`, whose calls these are, in fewer graphs.
        """
        if self.cfg.action_noise_model:
            action = self._action_noise_model(action)
        self._action.copy_(action)
        NewtonManager.forward()  # if somebody wrote joints since the last step: graphs of physics begin after that
        self.step_physics()
        self.common_step_counter += 1
        self._graph_cache.capture_or_replay("end_pre", self._step_warp_end_pre)
        if not self._has_graphs:
            self.scene.write_data_to_sim()
        self._graph_cache.capture_or_replay("end_post", self._step_warp_end_post)
        self.obs_buf = {"policy": self.torch_obs_buf.clone()}
        self._frames.reset(self._has_ended)
        self._move_bodies(self.reset_buf)
        self.obs_buf = self._compute_observations()
        return (
            self.obs_buf, self.torch_reward_buf, self.torch_reset_terminated, self.torch_reset_time_outs, self.extras
        )  # fmt: skip

    def step_physics(self) -> None:
        """Apply the actions in all physics steps of an environment step."""
        may_change_on_replay = NewtonManager.transforms_may_change_on_graph_replay
        self._pre_physics_step(self._action_for_warp)
        for _ in range(self.cfg.decimation):
            self._sim_step_counter += 1
            self.step_warp_action()
            self.scene.write_data_to_sim()
            self.sim.step(render=False)
            # Newton's manager distrusts its notes once it was captured; but a replay repeats them.
            NewtonManager.transforms_may_change_on_graph_replay = may_change_on_replay
            self.scene.update(dt=self.physics_dt)

    def _step_warp_end_post(self) -> None:
        if self._has_graphs:
            self.scene.write_data_to_sim()
        super()._step_warp_end_post()

    def _fits_graphs(self) -> bool:
        """Whether physics and rendering are Warp's kernels alone, which one graph may take."""
        is_on_gpu = "cuda" in str(self.device) and bool(getattr(PhysicsManager._cfg, "use_cuda_graph", False))
        # Explicit actuators compute in PyTorch, a window draws between physics steps, and a sensor that is not lazy in the middle of them.
        are_others_at_work = self.cartpole.actuators._execution_actuators or self.sim.is_rendering
        return is_on_gpu and self.cfg.scene.lazy_sensor_update and not are_others_at_work

    def _capture_stages(self) -> None:
        """Make a graph of all physics steps, and one of all that the camera does."""
        camera, notes, launch_physics = self._tiled_camera, Notes(self, self.cartpole), self.step_physics

        def note_physics() -> None:
            with notes.taken():
                launch_physics()

        def rehearse_physics() -> None:
            with notes.kept():
                launch_physics()

        def repeat_physics() -> None:
            notes.repeat()
            camera._data_dirty = True

        def repeat_rendering() -> None:
            NewtonManager.kinematics_dirty = camera._data_dirty = False

        # So the first environment step captures both: the camera rendered before, in the first reset.
        self.step_physics = Stage(note_physics, repeat_physics, rehearse_physics)
        render = Stage(camera._update_outdated_buffers, repeat_rendering, renderer_cfg=camera._renderer.cfg)

        def render_once() -> None:
            if camera._data_dirty:
                render()

        camera._update_outdated_buffers = render_once

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
