"""Writes a trial's pictures and policy for people: frames.png for the first repeat of each point, policy.pt for learning trials.

It runs after the result is written: nothing here is timed, and no error here changes the result.
"""

import sys
from collections.abc import Callable, Mapping
from itertools import accumulate
from pathlib import Path

import numpy
import torch
from PIL import Image

from envknee.record.schema import Request
from envknee.record.status import TRAINED, Status
from envknee.study.paths import TrialFolder

MOST_ENVS = 3
MOST_STEPS = 4
"""Most rows and columns of the sheet: it fits on a screen and takes a few kB."""

MOST_PX = 144
"""Most pixels of a frame's width on the sheet: larger frames are thinned out, by whole factors."""


def leave(
    trial: TrialFolder,
    request: Request,
    status: Status,
    rollout: Mapping[str, torch.Tensor],
    export_policy: Callable[[Path], None] | None,
) -> None:
    """Write the files of a trial that trained to its end; print errors to its log.

    `rollout` has, by group, the observations of its last rollout [horizon, num_envs, ...]. `export_policy` writes the policy to a
    file; None if the trainer cannot export it.
    """
    if status not in TRAINED:  # broken trials leave a dump instead; trials out of memory have none to spare
        return
    cameras = {group: tensor for group, tensor in rollout.items() if tensor.ndim == 5}
    if request.repeat == 0 and cameras:
        _try("what the policy saw", trial.frames, lambda path: contact_sheets(cameras).save(path, "PNG", optimize=True))
    if request.kind == "learning" and export_policy is not None:
        _try("the policy", trial.policy, export_policy)
    elif request.kind == "learning":
        print(f"the policy was not written: trainer {request.trainer} has no export")


def contact_sheets(cameras: Mapping[str, torch.Tensor]) -> Image.Image:
    """Return the sheets of all cameras in one picture, one below the other."""
    sheets = [contact_sheet(rollout) for rollout in cameras.values()]
    *tops, height = accumulate((sheet.height for sheet in sheets), initial=0)
    whole = Image.new("RGB", (max(sheet.width for sheet in sheets), height))
    for sheet, top in zip(sheets, tops, strict=True):
        whole.paste(sheet, (0, top))
    return whole


def contact_sheet(rollout: torch.Tensor) -> Image.Image:
    """Return a picture of a camera's frames: a row per environment, a column per step, stacked frames side by side.

    Args:
        rollout: camera observations [horizon, num_envs, frames x channels, height, width] of any dtype and scale: the
            smallest value shown becomes black and the largest white. If the number of channels is a multiple of three,
            frames are shown in colour, else channel by channel.
    """
    horizon, num_envs, channels, _, width = rollout.shape
    steps, envs = (
        numpy.linspace(0, count - 1, min(count, most)).round().astype(int).tolist()
        for count, most in ((horizon, MOST_STEPS), (num_envs, MOST_ENVS))
    )
    thinner = -(-width // MOST_PX)
    # Only the pixels on the sheet leave the device.
    shown = rollout[steps][:, envs][..., ::thinner, ::thinner].float().cpu()
    low, high = float(shown.min()), float(shown.max())
    levels = (shown - low) * (255 / (high - low) if high > low else 0)
    # [step, env, frame, colour, y, x] -> [env, y, step, frame, x, colour] -> [y, x, RGB]
    frames = levels.round().to(torch.uint8).unflatten(2, (-1, 3 if channels % 3 == 0 else 1))
    pixels = frames.permute(1, 4, 0, 2, 5, 3).flatten(2, 4).flatten(0, 1).expand(-1, -1, 3)
    return Image.fromarray(pixels.numpy())


def _try(what: str, path: Path, write: Callable[[Path], None]) -> None:
    """Write a file, whole or not at all; print the error if that fails."""
    unfinished = path.with_name(f".{path.name}")
    try:
        write(unfinished)
        unfinished.replace(path)
    except Exception as error:
        # Any error of a library: the trial's result stands, and the launcher reports the missing file.
        unfinished.unlink(missing_ok=True)
        print(f"{path.name} ({what}) was not written: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
