"""Reports the states of an environment's robots and objects to a watch in each step.

Input: an environment of Isaac Lab, changed in place. Upstream: InteractiveScene.articulations and rigid_objects of Isaac Lab 3.0.0.
"""

from typing import Any

import gymnasium
import torch

from envknee.measure.watch import Watch
from envknee.tasks import frontends

STABILITY_FIELDS = (
    "sim.dt",
    "decimation",
    "sim.physics.num_substeps",
    "sim.physics.solver_cfg.iterations",
)
"""Fields that decide how stable a simulation is. Hints quote their current values."""


def watch(env: gymnasium.Env, watch: Watch) -> None:
    """Report to `watch` the actions of every step, all joints and bodies after its physics, and joints after resets."""
    simulated: Any = env.unwrapped
    watch.settings = {
        f"env.{name}": value for name in STABILITY_FIELDS if (value := _field(simulated.cfg, name)) is not None
    }
    frontends.around(
        simulated, "step", before=lambda actions, *_: watch.note_actions(actions, lambda: state(simulated.scene))
    )
    frontends.before_dones(simulated, lambda: watch.note_state(state(simulated.scene)))
    watch.joints = lambda: joints(simulated.scene)


def joints(scene: Any) -> dict[str, list[torch.Tensor]]:
    """Return, for each robot, its joints' positions [rad or m] and velocities [rad/s or m/s], each [num_envs, joints]."""
    return {
        f"joint_state/{name}": [robot.data.joint_pos.torch, robot.data.joint_vel.torch]
        for name, robot in scene.articulations.items()
    }


def state(scene: Any) -> dict[str, list[torch.Tensor]]:
    """Return joints, and the poses of all bodies in the world [num_envs, bodies, 7]: position [m] and quaternion. Views, not copies."""
    poses = {f"body_pose/{name}": [robot.data.body_link_pose_w.torch] for name, robot in scene.articulations.items()}
    objects = {f"body_pose/{name}": [body.data.root_link_pose_w.torch] for name, body in scene.rigid_objects.items()}
    return joints(scene) | poses | objects


def _field(config: Any, name: str) -> Any:
    for part in name.split("."):
        config = getattr(config, part, None)
    return config
