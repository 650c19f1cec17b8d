"""Puts lean frames in place of an environment's own stacks of camera frames.

Input: an environment of Isaac Lab 3.0.0 that stacks frames by `CameraFrameStack`. It is changed in place: its observations are uint8 then.
"""

from typing import Any

import gymnasium
from isaaclab.utils.images import CameraFrameStack

from leanframes.errors import LeanError
from leanframes.frames import LeanFrameStack
from leanframes.stacks import HeldStack, stacks_of


def use_lean_frames(env: gymnasium.Env) -> None:
    """Replace an environment's stacks of camera frames by lean ones, before its first reset.

    Raises:
        LeanError: when the environment stacks no camera frames, wants their channels last, or has a term that changes them.
    """
    simulated: Any = env.unwrapped
    for holder, name, stock in camera_stacks(env):
        if stock._channel_dim != 1:
            raise LeanError(f"lean frames have their channels first, and {type(holder).__name__} wants them last")
        setattr(holder, name, LeanFrameStack(simulated.num_envs, frames_of(stock), simulated.device))
        _take_as_it_is(simulated, holder)


def camera_stacks(env: gymnasium.Env) -> list[HeldStack]:
    """Return an environment's stacks as Isaac Lab made them, at least one.

    Raises:
        LeanError: when there is none.
    """
    stacks = stacks_of(env, CameraFrameStack)
    if not stacks:
        raise LeanError(
            "a task must stack camera frames as Isaac Lab does (CameraFrameStack), and"
            f" {type(env.unwrapped).__name__} has no such stack"
        )
    return stacks


def frames_of(stack: CameraFrameStack) -> int:
    """Return the number of frames in Isaac Lab's stack."""
    return 1 if stack._buffer is None else stack._buffer.max_length


def _take_as_it_is(simulated: Any, holder: Any) -> None:
    """Make an observation manager pass a term's uint8 frames on; it would copy them into a float32 buffer.

    A term that also scales, clips or otherwise changes its output is refused: uint8 would overflow.
    Upstream: ObservationManager._term_output_specs and compute_group of Isaac Lab 3.0.0.
    """
    manager: Any = getattr(simulated, "observation_manager", None)
    if manager is None:
        return
    for group, terms in manager._group_obs_term_cfgs.items():
        for name, term in zip(manager._group_obs_term_names[group], terms, strict=True):
            if term.func is not holder:
                continue
            changed = [key for key in ("modifiers", "noise", "clip", "scale") if getattr(term, key) is not None]
            changed += ["mean"] if term.params.get("mean") is not None else []
            if changed or not term.params.get("normalize", True):
                raise LeanError(
                    f"lean frames are normalized where the network reads them, and the observation {group}/{name} sets"
                    f" {', '.join(changed) or 'normalize: False'}. Take that out of it"
                )
            manager._term_output_specs.pop((group, name), None)
