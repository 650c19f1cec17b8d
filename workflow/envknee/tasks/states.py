"""Tells a watch what an environment's robots and objects do in each step.

Input: an environment as Isaac Lab made it, changed in place. Upstream: InteractiveScene.articulations and rigid_objects,
`_get_dones` of DirectRLEnv and TerminationManager.compute (after the physics of a step, before its resets), and `_reset_idx`
of Isaac Lab 3.0.0.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

import gymnasium
import torch

from envknee.measure.watch import Watch

STABILITY_FIELDS = (
    "sim.dt",
    "decimation",
    "sim.physics.num_substeps",
    "sim.physics.solver_cfg.iterations",
)
"""What decides how stable a simulation is, for hints that say what it is now."""


def watch(env: gymnasium.Env, watch: Watch) -> None:
    """Let `watch` note the actions of every step, all joints and bodies after its physics, and joints after resets."""
    simulated: Any = env.unwrapped
    watch.settings = {
        f"env.{name}": value for name in STABILITY_FIELDS if (value := _field(simulated.cfg, name)) is not None
    }
    around(
        simulated,
        "step",
        before=lambda actions, *_: watch.note_actions(actions, lambda: state(simulated.scene)),
    )
    managed = getattr(simulated, "termination_manager", None)
    owner, method = (simulated, "_get_dones") if managed is None else (managed, "compute")
    around(owner, method, before=lambda *_: watch.note_state(state(simulated.scene)))
    around(simulated, "_reset_idx", after=lambda *_: watch.note_reset(joints(simulated.scene)))


def joints(scene: Any) -> dict[str, list[torch.Tensor]]:
    """Return positions and velocities of each robot's joints by name, each [num_envs, joints], in rad or m and per s."""
    return {
        f"joint_state/{name}": [robot.data.joint_pos.torch, robot.data.joint_vel.torch]
        for name, robot in scene.articulations.items()
    }


def state(scene: Any) -> dict[str, list[torch.Tensor]]:
    """Return joints, and poses (position in m, quaternion) of all bodies by name, [num_envs, bodies, 7]: the simulation's own."""
    poses = {f"body_pose/{name}": [robot.data.body_link_pose_w.torch] for name, robot in scene.articulations.items()}
    objects = {f"body_pose/{name}": [thing.data.root_link_pose_w.torch] for name, thing in scene.rigid_objects.items()}
    return joints(scene) | poses | objects


def around(
    owner: Any, method: str, before: Callable[..., None] | None = None, after: Callable[..., None] | None = None
) -> None:
    """Let each call of `owner.method` call `before` and `after`, too, with the same positional arguments."""
    original: Callable[..., Any] = getattr(owner, method)

    @wraps(original)
    def wrapped(*arguments: Any, **keywords: Any) -> Any:
        if before is not None:
            before(*arguments)
        result = original(*arguments, **keywords)
        if after is not None:
            after(*arguments)
        return result

    setattr(owner, method, wrapped)


def _field(config: Any, name: str) -> Any:
    for part in name.split("."):
        config = getattr(config, part, None)
    return config
