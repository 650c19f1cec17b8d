"""Gathers the stacks of transitions from a rollout that stores each frame once.

Operations run on PyTorch's current stream, in CUDA graphs, and inside `torch.compile`.
"""

import torch

from leanframes import checks, launch, operations
from leanframes.launch import kernels


def gather_normalized(
    frames: torch.Tensor,
    sums: torch.Tensor,
    history: torch.Tensor,
    places: torch.Tensor,
    stacked: int,
    dtype: torch.dtype = torch.float32,
) -> torch.Tensor:
    """Return the normalized stacks of some transitions of a rollout that stores each frame once.

    Args:
        frames: [t + k - 1, n, c, h, w], uint8, contiguous: the frame of step s at index s + k - 1
        sums: pixel sums of each frame's channels [t + k - 1, n, c], int64, from `plane_sums`
        history: how many of the k - 1 earlier frames belong to the same episode [t, n], uint8; the oldest of the episode replaces
            earlier ones, as in Isaac Lab after a reset
        places: transitions [b] (int64), step * n + environment
        stacked: k, the number of frames in a stack
        dtype: of the result: float32, bfloat16 or float16

    Returns:
        A new tensor [b, k * c, h, w], oldest frame first.

    Raises:
        TypeError, ValueError: for a tensor of another dtype, shape or device, naming it.
        IndexError: for a place outside the rollout (on a GPU: see `checks.check_indices`).
    """
    checks.check_tensor("frames", frames, (torch.uint8,), (None,) * 5, frames.device)
    steps, envs, channels, *image = frames.shape
    if not 1 <= stacked <= steps:
        raise ValueError(
            f"stacked is {stacked}, expected 1 to {steps}, the steps that frames of shape {tuple(frames.shape)} hold"
        )
    checks.check_tensor("sums", sums, (torch.int64,), (steps, envs, channels), frames.device)
    checks.check_tensor("history", history, (torch.uint8,), (steps - stacked + 1, envs), frames.device)
    checks.check_tensor("places", places, (torch.int64,), (None,), frames.device)
    checks.check_result(dtype)
    out = frames.new_empty((len(places), stacked * channels, *image), dtype=dtype)
    _gather_normalized(frames, sums, history, places, stacked, out)
    return out


@launch.operation("gather_normalized", mutates=("out",))
def _gather_normalized(
    frames: torch.Tensor,
    sums: torch.Tensor,
    history: torch.Tensor,
    places: torch.Tensor,
    stacked: int,
    out: torch.Tensor,
) -> None:
    checks.check_indices("places", places, history.numel())
    if not launch.are_words(frames) or history.numel() >= 2**31:
        images, image_sums = (gather(tensor, history, places, stacked) for tensor in (frames, sums))
        operations.normalize_by(images, image_sums, out)
        return
    channels, height, width = frames.shape[2:]
    lanes = launch.lanes_for(height * width // 4, kernels.WORDS, frames)
    launch.run(
        kernels.INTO[kernels.gather_normalized_words, launch.kind_of(out)],
        (len(places), stacked * channels, lanes),
        [
            launch.words_of(frames, 1), launch.array(sums.view(-1)), launch.array(history), launch.array(places), channels, stacked,
            height * width * 255.0, lanes, launch.array(out.view(-1, height * width)),
        ],
        frames.device,
    )  # fmt: skip


def gather(frames: torch.Tensor, history: torch.Tensor, places: torch.Tensor, stacked: int) -> torch.Tensor:
    """Return what `gather_normalized` does without normalization, for frames of any dtype: a new tensor [b, k * c, h, w].

    Raises:
        IndexError: for a place outside the rollout (on a GPU: CUDA's assertion).
    """
    return frames.flatten(0, 1)[frames_of(history, places, stacked)].flatten(1, 2)


def frames_of(history: torch.Tensor, places: torch.Tensor, stacked: int) -> torch.Tensor:
    """Return the frames of some transitions' stacks, oldest first: [b, k], indices into the flat frames [(t + k - 1) * n].

    Takes the arguments of `gather_normalized`.
    """
    back = torch.arange(stacked - 1, -1, -1, device=places.device)
    back = torch.minimum(back, history.view(-1)[places].unsqueeze(1))
    return places.unsqueeze(1) + (stacked - 1 - back) * history.shape[1]
