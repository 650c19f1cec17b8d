"""Alternatives to Isaac Lab's stack of camera frames, for arms with `observations: per_frame` or `lean`."""

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import torch
from leanframes.isaaclab import use_lean_frames
from leanframes.isaaclab.camera_stacks import camera_stacks, frames_of

from envknee.study.value_types import Observations
from envknee.tasks.lean_errors import asked_by


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
        UserError: when the environment stacks no camera frames, or `lean` is asked for frames that `use_lean_frames` refuses.
    """
    if observations == "stock":
        return
    with asked_by(f"observations: {observations}", "observations: stock"):
        if observations == "lean":
            use_lean_frames(env)
            return
        simulated: Any = env.unwrapped
        for holder, name, stock in camera_stacks(env):
            setattr(holder, name, PerFrameStack(simulated.num_envs, frames_of(stock), stock._channel_dim))
