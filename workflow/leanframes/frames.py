"""A stack of camera frames like Isaac Lab's `CameraFrameStack`, but frames stay uint8."""

from collections.abc import Callable, Sequence

import torch

from leanframes import checks, operations


class LeanFrameStack:
    """Keeps the newest frames of each environment, and returns their stacks in the renderer's dtype (uint8 for colours).

    Replaces Isaac Lab 3.0.0's `CameraFrameStack` (isaaclab/utils/images.py), with the same calls, order of frames and channels, and
    history after a reset. Only colours differ: they are normalized when the network reads them (`operations.normalized`), so that
    observations are four times smaller. Frames that are not uint8 (depth) are normalized first, as in Isaac Lab, and stacked as float32.

    Each returned stack is a new tensor, which is never overwritten. The next stack takes older frames from it, so do not change it.
    """

    def __init__(self, num_envs: int, frames: int, device: str | torch.device) -> None:
        """Make an empty history of `frames` frames of each environment, on `device`.

        Raises:
            ValueError: if num_envs or frames is below 1.
        """
        if num_envs < 1 or frames < 1:
            raise ValueError(f"num_envs {num_envs} and frames {frames} must be 1 or more")
        self.frames = frames
        self.num_envs = num_envs
        self.newest: torch.Tensor | None = None
        """The newest stacks [num_envs, frames * channels, height, width]; None before the first frame."""
        self._is_fresh = torch.ones(num_envs, dtype=torch.bool, device=device)
        """The environments whose history the next frame fills, unless `_is_taken`."""
        self._is_taken = False
        """Whether `_is_fresh` holds those of the newest frame: clearing it at once would be one more launch in every step."""

    def reset(self, env_ids: Sequence[int] | torch.Tensor | slice | None = None) -> None:
        """Forget the frames of some environments: the next frame fills their history.

        Args:
            env_ids: indices of environments, or a boolean mask [num_envs]; None: all environments

        Raises:
            TypeError: for indices that are no integers.
            ValueError: for a mask of another shape than [num_envs].
            IndexError: for an index outside the environments (on a GPU: see `checks.check_indices`).
        """
        if env_ids is None or isinstance(env_ids, slice):
            self._clear_taken()[slice(None) if env_ids is None else env_ids] = True
            return
        if len(env_ids) == 0:
            return
        ids = torch.as_tensor(env_ids, device=self._is_fresh.device)
        if ids.dtype == torch.bool:
            checks.check_tensor("env_ids", ids, (torch.bool,), (self.num_envs,), ids.device, contiguous=False)
            if self._is_taken:
                self._is_fresh.copy_(ids)
                self._is_taken = False
            else:
                self._is_fresh |= ids
        else:
            checks.check_tensor("env_ids", ids, (torch.int64, torch.int32), (None,), ids.device, contiguous=False)
            checks.check_indices("env_ids", ids, self.num_envs)
            self._clear_taken()[ids] = True

    def __call__(self, images: torch.Tensor, normalize: Callable[..., torch.Tensor] | None = None) -> torch.Tensor:
        """Take the newest frames and return the stacks, oldest frame first.

        Args:
            images: [num_envs, height, width, channels]; may be a view of the camera's buffer, such as RGB of RGBA
            normalize: as for `CameraFrameStack`; applied only to frames that are not uint8, since uint8 frames are normalized later

        Returns:
            A new tensor [num_envs, frames * channels, height, width] of the frames' dtype: uint8 or float32.

        Raises:
            TypeError: for frames of another dtype than uint8 or float32, or than before.
            ValueError: for frames of another shape or device than before, empty frames, or uint8 frames and a `normalize` with a mean:
                each image's own mean will be subtracted.
        """
        mean = getattr(normalize, "keywords", {}).get("mean")  # of a functools.partial
        if images.dtype == torch.uint8 and mean is not None:
            raise ValueError(
                f"images of shape {tuple(images.shape)} would be normalized with mean {mean}, but lean frames subtract"
                " each image's own mean. Leave mean out, or use Isaac Lab's CameraFrameStack"
            )
        if images.dtype != torch.uint8 and normalize is not None:
            images = normalize(images, channel_dim=-1, output_channel_dim=-1)
        shape, dtypes = (self.num_envs, None, None, None), (torch.uint8, torch.float32)
        if self.newest is not None:
            layers, height, width = self.newest.shape[1:]
            shape, dtypes = (self.num_envs, height, width, layers // self.frames), (self.newest.dtype,)
        checks.check_tensor("images", images, dtypes, shape, self._is_fresh.device, contiguous=False)
        _, height, width, channels = images.shape
        stacked = images.new_empty((self.num_envs, self.frames * channels, height, width))
        older = stacked if self.newest is None else self.newest  # at first every environment is fresh: none is read
        operations.push(images, self._clear_taken(), older, stacked)
        self.newest, self._is_taken = stacked, True
        return stacked

    def _clear_taken(self) -> torch.Tensor:
        """Return `_is_fresh` for the next frame."""
        if self._is_taken:
            self._is_fresh.zero_()
            self._is_taken = False
        return self._is_fresh
