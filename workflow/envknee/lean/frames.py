"""A stack of camera frames like Isaac Lab's `CameraFrameStack`, whose frames stay what the renderer made."""

from collections.abc import Callable, Sequence

import torch

from envknee.lean import checks, operations


class LeanFrameStack:
    """Keeps the newest frames of each environment, and gives their stack as the renderer made it: uint8 for colours.

    Takes the place of Isaac Lab 3.0.0's `CameraFrameStack` (isaaclab/utils/images.py): the same calls, the same order of
    frames and channels, the same history after a reset. What differs is where colours are normalized: not here, but where
    the network reads them (`operations.normalized`), which leaves the observation four times smaller. Frames that are not
    uint8 (depth) are normalized first, as there, and stacked as float32.

    Each frame is written once into a ring of frames, so that nothing shifts, and the stack that is returned is a new
    tensor: nothing that a trainer keeps is ever written again.
    """

    def __init__(self, num_envs: int, frames: int, device: str | torch.device) -> None:
        """Make an empty history.

        Args:
            num_envs: environments
            frames: how many are stacked
            device: of the frames, such as cuda:0

        Raises:
            ValueError: for no environments or no frames.
        """
        if num_envs < 1 or frames < 1:
            raise ValueError(f"num_envs {num_envs} and frames {frames} must be 1 or more")
        self.frames = frames
        self.num_envs = num_envs
        self.stacked_shape: tuple[int, ...] | None = None
        """(frames * channels, height, width), once a frame has come."""
        self._ring: torch.Tensor | None = None
        self._pushes = 0
        self._is_fresh = torch.ones(num_envs, dtype=torch.bool, device=device)
        self._sums: torch.Tensor | None = None
        """Of the ring's planes [frames, num_envs * channels], int64, for `normalized`."""
        self._has_sums = False

    @property
    def dtype(self) -> torch.dtype | None:
        """Of the stacks, once a frame has come."""
        return None if self._ring is None else self._ring.dtype

    def reset(self, env_ids: Sequence[int] | torch.Tensor | slice | None = None) -> None:
        """Forget the frames of some environments (None: all): the next frame fills their history.

        Args:
            env_ids: numbers of environments, or one truth value per environment

        Raises:
            TypeError: for numbers that are no integers.
            ValueError: for truth values of another shape than [num_envs].
            IndexError: for an environment that is not there (on a GPU: see `checks.check_indices`).
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
            normalize: as `CameraFrameStack` calls it; used for frames that are not uint8. Those that are get their own
                mean subtracted later, and one that asks for another mean is refused

        Returns:
            A new tensor [num_envs, frames * channels, height, width], uint8 where the frames are.

        Raises:
            TypeError: for frames of another dtype than uint8 or float32.
            ValueError: for frames of another shape or device than before, an empty one, or a `normalize` with a mean.
        """
        mean = getattr(normalize, "keywords", {}).get("mean")  # of a functools.partial
        if images.dtype == torch.uint8 and mean is not None:
            raise ValueError(
                f"images of shape {tuple(images.shape)} are to be normalized with mean {mean}, and lean frames take each"
                " image's own. Leave mean out, or use Isaac Lab's CameraFrameStack"
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
        """Take the newest frames and return the normalized stacks: `operations.normalized(stack(images), dtype)`, to the bit.

        Quicker than those two, since no stack of uint8 is written, and sums of older frames are kept. Calls of both kinds may
        take turns.

        Args:
            images: as for a call, uint8
            dtype: of the result: float32, bfloat16 or float16

        Returns:
            A new tensor [num_envs, frames * channels, height, width].

        Raises:
            TypeError: for frames of another dtype than uint8, now or before, or a result of another one than those.
            ValueError: for frames of another shape or device than before, or an empty one.
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
        """Return the ring that frames of a dtype go into; made with the first."""
        ring = self._ring
        shape = (self.num_envs, None, None, None)
        if ring is not None:
            channels = ring.shape[1] // self.num_envs
            shape = (self.num_envs, ring.shape[2], ring.shape[3], channels)
            if ring.dtype not in dtypes:
                raise TypeError(f"this stack holds frames of {ring.dtype}, expected {dtypes[0]}: call it instead")
            dtypes = (ring.dtype,)
        checks.check_tensor("images", images, dtypes, shape, self._is_fresh.device, contiguous=False)
        if ring is None:
            _, height, width, channels = images.shape
            ring = images.new_empty((self.frames, self.num_envs * channels, height, width))
            self._ring = ring
            self.stacked_shape = (self.frames * channels, height, width)
            self._is_fresh[:] = True
        return ring
