"""Gathers the stacks of transitions from a rollout that stores each frame once.

Operations run on PyTorch's current stream, in CUDA graphs, and inside `torch.compile`.
"""

# Python's type checker does not know the operators of Warp's arrays.
# pyright: reportArgumentType=false

from dataclasses import dataclass

import torch
import warp as wp

from envknee.lean import checks, kernels, launch


@dataclass(frozen=True)
class Layout:
    """Dtype and memory format of normalized stacks [b, k * c, h, w]."""

    dtype: torch.dtype = torch.float32
    """float32, bfloat16 or float16."""
    channels_last: bool = False
    """Whether the channels of a pixel are neighbours in memory (torch.channels_last)."""


PLAIN = Layout()
"""Layout of Isaac Lab's observations: float32, contiguous."""


def gather_normalized(
    frames: torch.Tensor,
    sums: torch.Tensor,
    history: torch.Tensor,
    places: torch.Tensor,
    stacked: int,
    layout: Layout = PLAIN,
) -> torch.Tensor:
    """Return the normalized stacks of some transitions of a rollout that stores each frame once.

    Args:
        frames: [t + k - 1, n, c, h, w], uint8, contiguous: the frame of step s at index s + k - 1
        sums: pixel sums of each frame's channels [t + k - 1, n, c], int64, from `plane_sums`
        history: how many of the k - 1 earlier frames belong to the same episode [t, n], uint8; the oldest of the episode replaces
            earlier ones, as in Isaac Lab after a reset
        places: transitions [b] (int64), step * n + environment
        stacked: k, the number of frames in a stack
        layout: of the result

    Returns:
        A new tensor [b, k * c, h, w], oldest frame first.

    Raises:
        TypeError, ValueError: for a tensor of another dtype, shape or device, naming it.
        IndexError: for a place outside the rollout (on a GPU: see `checks.check_indices`).
    """
    checks.check_tensor("frames", frames, (torch.uint8,), (None,) * 5, frames.device)
    steps, envs, channels, *_ = frames.shape
    if not 1 <= stacked <= steps:
        raise ValueError(
            f"stacked is {stacked}, expected 1 to {steps}, the steps that frames of shape {tuple(frames.shape)} hold"
        )
    checks.check_tensor("sums", sums, (torch.int64,), (steps, envs, channels), frames.device)
    checks.check_tensor("history", history, (torch.uint8,), (steps - stacked + 1, envs), frames.device)
    checks.check_tensor("places", places, (torch.int64,), (None,), frames.device)
    checks.check_result(layout.dtype)
    return _gather_normalized_op(frames, sums, history, places, stacked, layout.dtype, layout.channels_last)


@launch.operation("gather_normalized")
def _gather_normalized_op(
    frames: torch.Tensor,
    sums: torch.Tensor,
    history: torch.Tensor,
    places: torch.Tensor,
    stacked: int,
    dtype: torch.dtype,
    channels_last: bool,
) -> torch.Tensor:
    checks.check_indices("places", places, history.numel())
    steps, envs, channels, height, width = frames.shape
    layers = stacked * channels
    out, lanes = _gathered(frames, places, stacked, dtype, channels_last), launch.lanes_of(frames)
    if not channels_last and launch.are_words(frames) and history.numel() < 2**31:
        lanes = launch.lanes_for(height * width // 4, kernels.WORDS, frames)
        launch.run(
            kernels.INTO[kernels.gather_normalized_words, wp.dtype_from_torch(dtype)],
            (len(places), layers, lanes),
            [
                launch.words_of(frames, 1), launch.array(sums.view(-1)), launch.array(history), launch.array(places), channels, stacked,
                height * width * 255.0, lanes, launch.array(out.view(-1, height * width)),
            ],
            frames.device,
        )  # fmt: skip
        return out
    launch.run(
        kernels.gather_normalized,
        (len(places), lanes, layers) if channels_last else (len(places), layers, lanes),
        [
            launch.typed(frames.view(steps, envs * channels, height, width), wp.uint8),
            launch.typed(sums.view(steps, -1), wp.int64),
            launch.typed(history, wp.uint8),
            launch.typed(places, wp.int64),
            channels,
            stacked,
            height * width * 255.0,
            lanes,
            channels_last,
            launch.typed(out, wp.dtype_from_torch(dtype)),
        ],
        frames.device,
    )
    return out


_gather_normalized_op.register_fake(
    lambda frames, sums, history, places, stacked, dtype, channels_last: _gathered(
        frames, places, stacked, dtype, channels_last
    )
)


def gather(frames: torch.Tensor, history: torch.Tensor, places: torch.Tensor, stacked: int) -> torch.Tensor:
    """Return the stacks of some transitions without normalization, for frames of any dtype.

    Args:
        frames: [t + k - 1, n, c, h, w]: the frame of step s at index s + k - 1
        history: as for `gather_normalized` [t, n], uint8
        places: transitions [b] (int64), step * n + environment
        stacked: k, the number of frames in a stack

    Returns:
        A new tensor [b, k * c, h, w], oldest frame first.

    Raises:
        IndexError: for a place outside the rollout (on a GPU: CUDA's assertion).
    """
    return frames.flatten(0, 1)[frames_of(history, places, stacked)].flatten(1, 2)


def frames_of(history: torch.Tensor, places: torch.Tensor, stacked: int) -> torch.Tensor:
    """Return the frames of some transitions' stacks, oldest first: [b, k], indices into the flat frames [(t + k - 1) * n].

    Args:
        history: as for `gather_normalized` [t, n], uint8
        places: transitions [b] (int64), step * n + environment
        stacked: k, the number of frames in a stack
    """
    back = torch.arange(stacked - 1, -1, -1, device=places.device)
    back = torch.minimum(back, history.view(-1)[places].unsqueeze(1))
    return places.unsqueeze(1) + (stacked - 1 - back) * history.shape[1]


def _gathered(
    frames: torch.Tensor, places: torch.Tensor, stacked: int, dtype: torch.dtype, channels_last: bool = False
) -> torch.Tensor:
    order = torch.channels_last if channels_last else torch.contiguous_format
    shape = (len(places), stacked * frames.shape[2], *frames.shape[3:])
    return torch.empty(shape, dtype=dtype, device=frames.device, memory_format=order)
