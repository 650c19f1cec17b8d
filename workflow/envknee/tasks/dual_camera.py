"""The camera cart-pole with a second camera on its cart, like the "jaw" camera on a robot arm's gripper.

Input: Isaac Lab's direct camera cart-pole. Output: the same task with two groups of images: `policy`, from the side as upstream, and
`jaw`, from behind the cart and moving with it. `envknee.tasks` registers it as `Envknee-Cartpole-Dual-Camera-Direct`. The preset
`one_camera` leaves the second camera out, so that two arms measure its cost.
"""

import functools
from collections.abc import Sequence
from typing import Any

import isaaclab.sim as sim_utils
import torch
from isaaclab.sensors import CameraCfg
from isaaclab.utils import configclass
from isaaclab.utils.images import CameraFrameStack, normalize_camera_image
from isaaclab_tasks.core.cartpole.agents.rsl_rl_ppo_cfg import CartpoleCameraDirectPPORunnerCfg
from isaaclab_tasks.core.cartpole.cartpole_direct_camera_env import CartpoleCameraEnv
from isaaclab_tasks.core.cartpole.cartpole_direct_camera_env_cfg import CartpoleCameraEnvCfg, CartpoleCameraSceneCfg
from isaaclab_tasks.utils import PresetCfg
from isaaclab_tasks.utils.presets import MultiBackendRendererCfg

JAW = "jaw"
"""The observation group of the second camera."""


@configclass
class JawCameraCfg(CameraCfg):
    """A wide-angle camera 0.5 m behind the cart's centre. It sees the whole pole and the top of the cart."""

    # Newton's renderer moves a camera with its parent body only if the pose is updated before each frame.
    prim_path: str = "{ENV_REGEX_NS}/Robot/cart/JawCamera"
    update_latest_camera_pose: bool = True
    offset: CameraCfg.OffsetCfg = CameraCfg.OffsetCfg(
        pos=(-0.5, 0.0, 0.45), rot=(0.0, 0.0, 0.0, 1.0), convention="world"
    )
    data_types: list[str] = ["rgb"]
    spawn: Any = sim_utils.PinholeCameraCfg(
        focal_length=10.0, focus_distance=400.0, horizontal_aperture=20.955, clipping_range=(0.05, 20.0)
    )
    width: Any = None
    height: Any = None
    """None: as large as the side camera's, so that one override sets both."""
    renderer_cfg: Any = MultiBackendRendererCfg()


@configclass
class DualCameraSceneCfg(CartpoleCameraSceneCfg):
    """The camera cart-pole's scene with a second camera."""

    jaw_camera: JawCameraCfg | None = JawCameraCfg()


@configclass
class DualCameraEnvCfg(PresetCfg):
    """Two cameras, or with the preset `one_camera` only upstream's, in otherwise the same scene."""

    @configclass
    class TwoCamerasCfg(CartpoleCameraEnvCfg.BaseCartpoleCameraEnvCfg):
        """Upstream's colour variant with the second camera."""

        scene: Any = DualCameraSceneCfg(num_envs=512, env_spacing=20.0, replicate_physics=True)

    default = TwoCamerasCfg()
    one_camera = TwoCamerasCfg(
        scene=DualCameraSceneCfg(num_envs=512, env_spacing=20.0, replicate_physics=True, jaw_camera=None)
    )


@configclass
class TwoCamerasPPORunnerCfg(CartpoleCameraDirectPPORunnerCfg):
    """Upstream's agent with an encoder for each camera in its actor."""

    experiment_name = "cartpole_dual_camera_direct"
    obs_groups = {"actor": ["policy", JAW], "critic": ["critic"]}


@configclass
class DualCameraPPORunnerCfg(PresetCfg):
    """The agent for two cameras, or with the preset `one_camera` for one."""

    default = TwoCamerasPPORunnerCfg()
    one_camera = CartpoleCameraDirectPPORunnerCfg()


class DualCameraEnv(CartpoleCameraEnv):
    """Upstream's environment with a second stack of frames in its own observation group."""

    def __init__(self, cfg: Any, render_mode: str | None = None, **kwargs: Any) -> None:
        """Create the scene; `cfg.scene.jaw_camera` may be None."""
        side, jaw = cfg.scene.tiled_camera, cfg.scene.jaw_camera
        if jaw is not None:
            jaw.width = side.width if jaw.width is None else jaw.width
            jaw.height = side.height if jaw.height is None else jaw.height
        super().__init__(cfg, render_mode, **kwargs)
        self._jaw_frames = None
        if jaw is not None:
            self._jaw_frames = CameraFrameStack(self.num_envs, self.device, self.cfg.frame_stack, channel_first=True)

    def _get_observations(self) -> dict[str, torch.Tensor]:
        """Return upstream's groups, and `jaw` [num_envs, frames * channels, height, width]."""
        observations = super()._get_observations()
        if self._jaw_frames is not None:
            (data_type,) = self.cfg.scene.jaw_camera.data_types
            images = self.scene["jaw_camera"].data.output[data_type].torch
            normalize = functools.partial(normalize_camera_image, data_type=data_type)
            observations[JAW] = self._jaw_frames(images, normalize)
        return observations

    def _reset_idx(self, env_ids: Sequence[int] | None) -> None:
        super()._reset_idx(env_ids)
        if self._jaw_frames is not None:
            self._jaw_frames.reset(env_ids)
