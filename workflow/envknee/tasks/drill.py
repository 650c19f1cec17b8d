"""Drills: break a simulation on purpose at one step in some environments, to test that a study reports it."""

import itertools
import math
from typing import Any

import gymnasium
import torch

from envknee.study.task import Inject
from envknee.tasks import frontends

HUGE = 1e12
"""An action far beyond any robot's, but finite, as broken policies often produce. On the cart-pole with MuJoCo Warp, actions above
about 1e20 leave the joints unmoved, and actions below 1e6 only drive them out of the scene."""


def huge_actions(env: gymnasium.Env, inject: Inject) -> None:
    """Make the actions huge at one step, and lift the joints' effort limits there."""
    simulated: Any = env.unwrapped
    chosen, step, steps = _chosen(simulated, inject), simulated.step, itertools.count()

    def with_huge_actions(actions: torch.Tensor) -> Any:
        if next(steps) == inject.at_step:
            for robot in simulated.scene.articulations.values():
                # Most robots' actuators would clip a huge action.
                robot.write_joint_effort_limit_to_sim_index(limits=torch.finfo(torch.float32).max, env_ids=chosen)
                for actuator in robot.actuators.values():
                    actuator.actuator_effort_limit[chosen] = torch.inf
            actions = actions.clone()  # the policy may still use its tensor
            actions[chosen] = HUGE
        return step(actions)

    simulated.step = with_huge_actions


def invalid_reset(env: gymnasium.Env, inject: Inject) -> None:
    """End episodes at one step, and reset them to joint positions of NaN."""
    simulated: Any = env.unwrapped
    chosen, steps = _chosen(simulated, inject), itertools.count()
    is_now = False

    def end_episodes(_: torch.Tensor) -> None:
        nonlocal is_now
        is_now = next(steps) == inject.at_step
        if is_now:
            simulated.episode_length_buf[chosen] = simulated.max_episode_length

    def to_nowhere() -> None:
        if is_now:
            for robot in simulated.scene.articulations.values():
                nowhere = torch.full_like(robot.data.joint_pos.torch[chosen], math.nan)
                robot.write_joint_position_to_sim_index(position=nowhere, env_ids=chosen)

    frontends.around(simulated, "step", before=end_episodes)
    frontends.after_resets(simulated, to_nowhere)


def _chosen(simulated: Any, inject: Inject) -> torch.Tensor:
    return torch.arange(min(inject.envs, simulated.num_envs), device=simulated.device)
