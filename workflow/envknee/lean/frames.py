"""A stack of camera frames like Isaac Lab's `CameraFrameStack`, but frames stay uint8."""

from collections.abc import Callable, Sequence

import torch

from envknee.lean import checks, operations


class LeanFrameStack:
    """Keeps the newest frames of each environment, and returns their stacks in the renderer's dtype (uint8 for colours).

    Replaces Isaac Lab 3.0.0's `CameraFrameStack` (isaaclab/utils/images.py), with the same calls, order of frames and channels, and
    history after a reset. Only colours differ: they are normalized when the network reads them (`operations.normalized`), so that
    observations are four times smaller. Frames that are not uint8 (depth) are normalized first, as in Isaac Lab, and stacked as float32.

    Each frame is written once, into a ring. Each returned stack is a new tensor, which is never overwritten.
    """

    def __init__(self, num_envs: int, frames: int, device: str | torch.device) -> None:
        """Make an empty history.

        Args:
            num_envs: number of environments
            frames: number of frames in a stack
            device: device of the frames, such as cuda:0

        Raises:
            ValueError: if num_envs or frames is below 1.
        """
        if num_envs < 1 or frames < 1:
            raise ValueError(f"num_envs {num_envs} and frames {frames} must be 1 or more")
        self.frames = frames
        self.num_envs = num_envs
        self.stacked_shape: tuple[int, ...] | None = None
        """(frames * channels, height, width) after the first frame."""
        self._ring: torch.Tensor | None = None
        self._pushes = 0
        self._is_fresh = torch.ones(num_envs, dtype=torch.bool, device=device)
        self._sums: torch.Tensor | None = None
        """Pixel sums of the ring's planes [frames, num_envs * channels], int64, for `normalized`."""
        self._has_sums = False

    @property
    def dtype(self) -> torch.dtype | None:
        """The stacks' dtype; None before the first frame."""
        return None if self._ring is None else self._ring.dtype

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
            self._is_fresh[slice(None) if env_ids is None else env_ids] = True
            return
        if len(env_ids) == 0:
            return
        ids = torch.as_tensor(env_ids, device=self._is_fresh.device)
        if ids.dtype == torch.bool:
            checks.check_tensor("env_ids", ids, (torch.bool,), (self.num_envs,), ids.device, contiguous=False)
            self._is_fresh |= ids
        else:
            checks.check_tensor("env_ids", ids, (torch.int64, torch.int32), (None,), ids.device, contiguous=False)
            checks.check_indices("env_ids", ids, self.num_envs)
            self._is_fresh[ids] = True

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
        ring = self._ring_for(images, (torch.uint8, torch.float32))
        _, height, width, channels = images.shape
        stacked = images.new_empty((self.num_envs, self.frames * channels, height, width))
        operations.push(images, self._is_fresh, ring, self._pushes % self.frames, stacked)
        self._has_sums = False
        self._pushes += 1
        self._is_fresh.zero_()
        return stacked

    def normalized(self, images: torch.Tensor, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """Take the newest frames and return the normalized stacks, bit-identical to `operations.normalized(stack(images), dtype)`.

        It is faster, because it writes no uint8 stack and keeps the sums of older frames. Both kinds of calls may alternate.

        Args:
            images: [num_envs, height, width, channels], uint8; may be a view of the camera's buffer
            dtype: of the result: float32, bfloat16 or float16

        Returns:
            A new tensor [num_envs, frames * channels, height, width].

        Raises:
            TypeError: for frames that are not uint8, now or before, or another `dtype`.
            ValueError: for frames of another shape or device than before, or empty frames.
        """
        checks.check_result(dtype)
        ring = self._ring_for(images, (torch.uint8,))
        if self._sums is None:
            self._sums = torch.empty(ring.shape[:2], dtype=torch.int64, device=ring.device)
        if not self._has_sums and self._pushes:
            operations.plane_sums(ring.flatten(0, 1).flatten(1), self._sums.view(-1))
        self._has_sums = True
        newest = self._pushes % self.frames
        values = operations.push_normalized(images, self._is_fresh, ring, newest, self._sums, dtype)
        self._pushes += 1
        self._is_fresh.zero_()
        return values

    def _ring_for(self, images: torch.Tensor, dtypes: tuple[torch.dtype, ...]) -> torch.Tensor:
        """Check the frames and return the ring, which is made with the first frames."""
        ring = self._ring
        shape = (self.num_envs, None, None, None)
        if ring is not None:
            channels = ring.shape[1] // self.num_envs
            shape = (self.num_envs, ring.shape[2], ring.shape[3], channels)
            if ring.dtype not in dtypes:
                raise TypeError(f"this stack holds frames of {ring.dtype}, expected {dtypes[0]}: use stack(images)")
            dtypes = (ring.dtype,)
        checks.check_tensor("images", images, dtypes, shape, self._is_fresh.device, contiguous=False)
        if ring is None:
            _, height, width, channels = images.shape
            ring = images.new_empty((self.frames, self.num_envs * channels, height, width))
            self._ring = ring
            self.stacked_shape = (self.frames * channels, height, width)
            self._is_fresh[:] = True
        return ring
