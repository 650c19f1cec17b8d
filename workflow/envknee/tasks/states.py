"""Reports the states of an environment's robots and objects to a watch in each step.

Input: an environment of Isaac Lab, changed in place. Upstream: InteractiveScene.articulations and rigid_objects of Isaac Lab 3.0.0.
"""

from typing import Any

import gymnasium
import torch

from envknee.measure.watch import State, Watch
from envknee.tasks import frontends

STABILITY_FIELDS = ("sim.dt", "decimation", "sim.physics.num_substeps", "sim.physics.solver_cfg.iterations")
"""Fields that decide how stable a simulation is. Hints quote their current values."""


def watch(env: gymnasium.Env, watch: Watch) -> None:
    """Report to `watch` the actions of every step, all joints and bodies after its physics, and joints after resets.

    Of each robot: joints' positions [rad or m] and velocities [rad/s or m/s], each [num_envs, joints], and the poses of all bodies in
    the world [num_envs, bodies, 7]: position [m] and quaternion. Views, not copies.
    """
    simulated: Any = env.unwrapped
    fields = {f"env.{name}": _field(simulated.cfg, name) for name in STABILITY_FIELDS}
    settings = {name: value for name, value in fields.items() if value is not None}
    robots = [(name, robot.data) for name, robot in simulated.scene.articulations.items()]
    objects = [(name, body.data) for name, body in simulated.scene.rigid_objects.items()]

    def state() -> State:
        poses = [(f"body_pose/{name}", [data.body_link_pose_w.torch]) for name, data in robots]
        poses += [(f"body_pose/{name}", [data.root_link_pose_w.torch]) for name, data in objects]
        return dict([*joints("joint_state"), *poses])

    def joints(kind: str) -> list[tuple[str, list[torch.Tensor]]]:
        return [(f"{kind}/{name}", [data.joint_pos.torch, data.joint_vel.torch]) for name, data in robots]

    frontends.around(simulated, "step", before=lambda actions, *_: watch.note_actions(actions, state))
    frontends.before_dones(simulated, lambda: watch.note_state(state()))
    watch.describe_task(settings, lambda: dict(joints("joint_state_after_reset")))


def _field(config: Any, name: str) -> Any:
    for part in name.split("."):
        config = getattr(config, part, None)
    return config
