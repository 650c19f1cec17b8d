"""Remedies for a broken simulation or training, the most likely first. Pure."""

from collections.abc import Mapping
from typing import Any

LARGE_ACTION = 100.0
"""Policies give actions of about 1; larger actions than this are named as a likely cause."""

GUIDE = (
    "Isaac Lab's Debugging and Training Guide, section Debugging NaNs during Training:"
    " https://isaac-sim.github.io/IsaacLab/main/source/overview/reinforcement-learning/training_guide.html"
)
SOLVER_GUIDE = (
    "Isaac Lab's guide Tune MJWarp:"
    " https://isaac-sim.github.io/IsaacLab/release/3.0.0/source/concepts/solver-tuning/tune_mjwarp.html"
)


def hints(tensor: str, settings: Mapping[str, Any], largest_action: float) -> list[str]:
    """Return remedies for the first broken `tensor`, the most likely first, then links to guides. Pure.

    `settings` are current values of the environment's fields, by dotted name; `largest_action` is a magnitude, just before.
    """
    kind = tensor.partition("/")[0]
    bounds = "keep actions within what the robot can do: agent.clip_actions, a smaller action scale"
    if largest_action > LARGE_ACTION:
        first, last = [f"{bounds} (just before they came up to {largest_action:.3g})"], []
    else:
        first, last = [], [bounds]
    if kind == "joint_state_after_reset":
        return [
            "reset into valid states: joints within their limits, no bodies inside each other, quaternions of length 1",
            "look at the ranges of the task's resets",
            GUIDE,
        ]
    if kind in ("joint_state", "body_pose"):
        steps = _now(settings, "env.sim.dt", "with env.decimation larger by as much")
        iterations = _now(settings, "env.sim.physics.solver_cfg.iterations")
        return [
            *first,
            f"a smaller time step of the physics: {steps}",
            f"more solver iterations or substeps: {iterations}, {_now(settings, 'env.sim.physics.num_substeps')}",
            "limits of joints' positions, velocities and efforts, and gains that fit the robot (env.scene.*.actuators)",
            *last,
            GUIDE,
            SOLVER_GUIDE,
        ]
    if kind in ("observations", "rewards"):
        return [
            *first,
            f"joints and bodies were finite: look at how the task computes {tensor} (divisions, roots, logarithms, sensors)",
            GUIDE,
        ]
    return [
        "learn in smaller steps: agent.algorithm.learning_rate, agent.algorithm.max_grad_norm",
        "normalize observations and rewards, so that both are of about 1",
        "a larger batch, or fewer epochs (agent.algorithm.num_learning_epochs)",
        GUIDE,
    ]


def _now(settings: Mapping[str, Any], name: str, more: str = "") -> str:
    now = f"now {settings[name]:.4g}" if name in settings else ""
    known = ", ".join(part for part in (now, more) if part)
    return f"{name} ({known})" if known else name
