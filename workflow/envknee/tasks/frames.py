"""Other ways from camera frames to the policy's observation than Isaac Lab's own, for arms that say `observations:`.

Input: an environment as Isaac Lab made it. Output: the same, whose stack of camera frames is another.
"""

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import torch
from isaaclab.utils.images import CameraFrameStack

from envknee.lean import LeanFrameStack
from envknee.study.errors import UserError
from envknee.study.rules import Observations


class PerFrameStack:
    """Normalizes each frame to float32, rolls the history and copies it out, twice.

    As Isaac Lab did between its pull requests #5574 and #5849: kept to be compared with. Its frames have their channels last, as a
    camera's, and what the network wants first is moved at the end. It holds four times the memory of Isaac Lab 3.0's uint8 ring,
    and gives the same observation to within float32's rounding.
    """

    def __init__(self, num_envs: int, frames: int, channel_dim: int) -> None:
        """Make an empty history.

        Args:
            num_envs: environments
            frames: how many are stacked
            channel_dim: where the channels of the observation are: 1 or -1
        """
        self._frames = frames
        self._channel_dim = channel_dim
        self._history: torch.Tensor | None = None
        """(frames, num_envs, height, width, channels) in float32, oldest first."""
        self._is_empty = torch.ones(num_envs, dtype=torch.bool)

    def reset(self, env_ids: Sequence[int] | torch.Tensor | None = None) -> None:
        """Forget the frames of some environments (None: all): the next frame fills their history."""
        self._is_empty[slice(None) if env_ids is None else env_ids] = True

    def __call__(self, images: torch.Tensor, normalize: Callable[..., torch.Tensor] | None = None) -> torch.Tensor:
        """Return the observation (num_envs, frames x channels, height, width), or with the channels last.

        Args:
            images: the newest frame, (num_envs, height, width, channels)
            normalize: as `CameraFrameStack` calls it; None keeps the values
        """
        frame = images.float()
        if normalize is not None:
            frame = normalize(frame, channel_dim=-1, output_channel_dim=-1)
        if self._history is None:
            self._history = frame.new_zeros((self._frames, *frame.shape))
            self._is_empty = self._is_empty.to(frame.device)
        self._history = torch.roll(self._history, -1, dims=0)
        self._history[-1] = frame
        self._history[:, self._is_empty] = frame[self._is_empty]
        self._is_empty[:] = False
        stacked = self._history.permute(1, 2, 3, 0, 4).flatten(3).clone()
        return stacked.movedim(-1, self._channel_dim).contiguous()


def use(observations: Observations, env: gymnasium.Env) -> None:
    """Give an environment the stack of camera frames that an arm asks for; 'stock' leaves it as it is.

    Raises:
        UserError: when the environment stacks no camera frames.
    """
    if observations == "stock":
        return
    simulated: Any = env.unwrapped
    stacks = _stacks(simulated, CameraFrameStack)
    if not stacks:
        raise UserError(
            f"observations: {observations} is for tasks that stack camera frames as Isaac Lab does (CameraFrameStack), and"
            f" {type(simulated).__name__} has no such stack. Use observations: stock"
        )
    for holder, name, stock in stacks:
        frames = 1 if stock._buffer is None else stock._buffer.max_length
        if observations == "per_frame":
            setattr(holder, name, PerFrameStack(simulated.num_envs, frames, stock._channel_dim))
        elif stock._channel_dim == 1:
            setattr(holder, name, LeanFrameStack(simulated.num_envs, frames, simulated.device))
            _take_as_it_is(simulated, holder)
        else:
            raise UserError(
                f"observations: lean gives frames with their channels first, and {type(holder).__name__} wants them last."
                " Use observations: stock"
            )


def lean_stacks(env: Any) -> list[LeanFrameStack]:
    """Return the stacks of uint8 frames that `use` has given to an environment."""
    return [stack for _, _, stack in _stacks(env.unwrapped, LeanFrameStack)]


def _stacks(simulated: Any, kind: type) -> list[tuple[Any, str, Any]]:
    """Return each stack of frames of a kind, one per camera: what holds it, under which name, and the stack."""
    return [
        (holder, name, value)
        for holder in _possible_holders(simulated)
        for name, value in vars(holder).items()
        if isinstance(value, kind)
    ]


def _take_as_it_is(simulated: Any, holder: Any) -> None:
    """Let an observation manager take a term's uint8 frames: it would have them written into float32 that it has made.

    Upstream: ObservationManager._term_output_specs and compute_group of Isaac Lab 3.0.0.

    Raises:
        UserError: when the term's output is to be changed by more than stacking: uint8 would overflow.
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
                raise UserError(
                    f"observations: lean normalizes frames where the network reads them, and the observation {group}/{name}"
                    f" sets {', '.join(changed) or 'normalize: False'}. Take that out of it, or use observations: stock"
                )
            manager._term_output_specs.pop((group, name), None)


def _possible_holders(simulated: Any) -> list[Any]:
    """Return what may hold a stack: a direct environment itself, or terms of its observations that are objects.

    Upstream: ObservationManager._group_obs_term_cfgs of Isaac Lab 3.0.0.
    """
    manager = getattr(simulated, "observation_manager", None)
    groups = {} if manager is None else manager._group_obs_term_cfgs
    return [simulated, *(term.func for terms in groups.values() for term in terms if hasattr(term.func, "__dict__"))]
