"""Finds the stacks of camera frames that an environment holds. Imports nothing of Isaac Lab, whose attributes it reads."""

from typing import Any, NamedTuple

from leanframes.frames import LeanFrameStack


class HeldStack(NamedTuple):
    """A stack of camera frames, and where an environment holds it: `holder.name` is the stack."""

    holder: Any
    """The environment, or the observation term of a manager-based one."""
    name: str
    stack: Any


def stacks_of(env: Any, kind: type) -> list[HeldStack]:
    """Return an environment's stacks of a class, one per camera.

    A direct environment holds them itself; in others, observation terms that are objects do. Upstream:
    ObservationManager._group_obs_term_cfgs of Isaac Lab 3.0.0.
    """
    simulated = env.unwrapped
    manager = getattr(simulated, "observation_manager", None)
    groups = {} if manager is None else manager._group_obs_term_cfgs
    terms = [term.func for group in groups.values() for term in group if hasattr(term.func, "__dict__")]
    return [
        HeldStack(holder, name, value)
        for holder in (simulated, *terms)
        for name, value in vars(holder).items()
        if isinstance(value, kind)
    ]


def lean_stacks(env: Any) -> list[LeanFrameStack]:
    """Return the stacks of lean frames of an environment."""
    return [held.stack for held in stacks_of(env, LeanFrameStack)]
