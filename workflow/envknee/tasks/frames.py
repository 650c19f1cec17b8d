"""Alternatives to Isaac Lab's stack of camera frames, for arms with `observations: per_frame` or `lean`."""

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import torch
from isaaclab.utils.images import CameraFrameStack

from envknee.lean import LeanFrameStack
from envknee.study.errors import UserError
from envknee.study.rules import Observations


class PerFrameStack:
    """Normalizes each frame to float32, rolls the history, and copies it twice.

    A baseline: Isaac Lab worked this way between its pull requests #5574 and #5849. It takes four times the memory of Isaac Lab 3.0's
    uint8 ring, and gives the same observation within float32 rounding. The history has its channels last, as camera images do; they
    move to `channel_dim` at the end.
    """

    def __init__(self, num_envs: int, frames: int, channel_dim: int) -> None:
        """Make an empty history of `frames` frames; `channel_dim` is the dimension of the observation's channels, 1 or -1."""
        self._frames = frames
        self._channel_dim = channel_dim
        self._history: torch.Tensor | None = None
        """(frames, num_envs, height, width, channels) in float32, oldest first."""
        self._is_empty = torch.ones(num_envs, dtype=torch.bool)

    def reset(self, env_ids: Sequence[int] | torch.Tensor | None = None) -> None:
        """Forget the frames of some environments (None: all). The next frame fills their whole history."""
        self._is_empty[slice(None) if env_ids is None else env_ids] = True

    def __call__(self, images: torch.Tensor, normalize: Callable[..., torch.Tensor] | None = None) -> torch.Tensor:
        """Return the observation (num_envs, frames * channels, height, width), or with the channels last.

        Args:
            images: the newest frame, (num_envs, height, width, channels)
            normalize: the function that Isaac Lab passes to `CameraFrameStack`; None keeps the values
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
    """Replace an environment's stacks of camera frames by those of an arm; 'stock' changes nothing.

    Raises:
        UserError: when the environment stacks no camera frames, or `lean` is asked for frames with channels last or for a term that
            changes them.
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
    """Return the uint8 stacks that `use` put into an environment."""
    return [stack for _, _, stack in _stacks(env.unwrapped, LeanFrameStack)]


def _stacks(simulated: Any, kind: type) -> list[tuple[Any, str, Any]]:
    """Return the stacks of a class, one per camera, as (holder, attribute name, stack).

    A direct environment holds them itself; in others, observation terms that are objects do. Upstream:
    ObservationManager._group_obs_term_cfgs of Isaac Lab 3.0.0.
    """
    manager = getattr(simulated, "observation_manager", None)
    groups = {} if manager is None else manager._group_obs_term_cfgs
    terms = [term.func for group in groups.values() for term in group if hasattr(term.func, "__dict__")]
    return [
        (holder, name, value)
        for holder in (simulated, *terms)
        for name, value in vars(holder).items()
        if isinstance(value, kind)
    ]


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
                raise UserError(
                    f"observations: lean normalizes frames where the network reads them, and the observation {group}/{name}"
                    f" sets {', '.join(changed) or 'normalize: False'}. Take that out of it, or use observations: stock"
                )
            manager._term_output_specs.pop((group, name), None)
