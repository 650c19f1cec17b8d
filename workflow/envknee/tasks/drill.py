"""Breaks a simulation on purpose, at one step in some environments, to see what a study says then.

Input: an environment as Isaac Lab made it, changed in place. Everything else of the environment stays as it is.
"""

import itertools
import math
from typing import Any

import gymnasium
import torch

from envknee.study.model import Inject
from envknee.tasks import frontends

HUGE = 1e12
"""An action of this size has nothing to do with any robot, and is finite, as those of broken policies often are. From about
1e20 on MuJoCo Warp leaves the joints of the cart-pole unmoved, and below 1e6 they only leave the scene."""


def huge_actions(env: gymnasium.Env, what: Inject) -> None:
    """Let the actions of one step be huge, and the joints' effort limits give way to them."""
    simulated: Any = env.unwrapped
    chosen, step, steps = _chosen(simulated, what), simulated.step, itertools.count()

    def with_huge_actions(actions: torch.Tensor) -> Any:
        if next(steps) == what.at_step:
            for robot in simulated.scene.articulations.values():
                lift_effort_limits(robot, chosen)
            actions = actions.clone()  # the policy keeps its own
            actions[chosen] = HUGE
        return step(actions)

    simulated.step = with_huge_actions


def invalid_reset(env: gymnasium.Env, what: Inject) -> None:
    """Let episodes end at one step, and begin anew with joints that are nowhere."""
    simulated: Any = env.unwrapped
    chosen, step, steps = _chosen(simulated, what), simulated.step, itertools.count()
    is_now = False

    def with_an_end(actions: torch.Tensor) -> Any:
        nonlocal is_now
        is_now = next(steps) == what.at_step
        if is_now:
            simulated.episode_length_buf[chosen] = simulated.max_episode_length
        return step(actions)

    def to_nowhere() -> None:
        if is_now:
            for robot in simulated.scene.articulations.values():
                nowhere = torch.full_like(robot.data.joint_pos.torch[chosen], math.nan)
                robot.write_joint_position_to_sim_index(position=nowhere, env_ids=chosen)

    simulated.step = with_an_end
    frontends.after_resets(simulated, to_nowhere)


def _chosen(simulated: Any, what: Inject) -> torch.Tensor:
    return torch.arange(min(what.envs, simulated.num_envs), device=simulated.device)


def lift_effort_limits(robot: Any, chosen: torch.Tensor) -> None:
    """Let actuators of some environments push as hard as they are told: most robots' would clip a huge action."""
    robot.write_joint_effort_limit_to_sim_index(limits=torch.finfo(torch.float32).max, env_ids=chosen)
    for actuator in robot.actuators.values():
        actuator.actuator_effort_limit[chosen] = torch.inf
