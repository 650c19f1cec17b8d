"""Writes a trial's pictures and policy for people: frames.png and policy.pt in the trial's folder.

Input: a trained trial's last rollout and its policy. Output: frames.png for the first repeat of each point, policy.pt for learning
trials. It runs after the result is written: nothing here is timed, and no error here changes the result.
Knows torch, and nothing of Isaac Lab.
"""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy
import torch
from PIL import Image, ImageDraw

from envknee.record.schema import Request
from envknee.record.status import TRAINED, Status
from envknee.study.paths import TrialFolder

MOST_ENVS = 3
MOST_STEPS = 4
"""Most rows and columns of the sheet: it fits on a screen and takes a few kB."""

LEAST_PX, MOST_PX = 96, 144
"""Width of a camera frame on the sheet: smaller frames are enlarged, larger ones thinned out, by whole factors."""

FRAME_GAP_PX, STEP_GAP_PX = 2, 8
LABEL_PX = 16
PAPER = (96, 96, 96)
"""A grey that is neither sky nor ground, so that frames have edges."""
INK = (255, 255, 255)


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
    """Return the sheets of all cameras in one picture, one below the other. Several cameras are labelled by group."""
    sheets = [contact_sheet(rollout, name if len(cameras) > 1 else "") for name, rollout in cameras.items()]
    whole = Image.new(
        "RGB",
        (max(sheet.width for sheet in sheets), sum(sheet.height + STEP_GAP_PX for sheet in sheets) - STEP_GAP_PX),
        PAPER,
    )
    down = 0
    for sheet in sheets:
        whole.paste(sheet, (0, down))
        down += sheet.height + STEP_GAP_PX
    # Rendered scenes have few colours: a palette halves the file without a visible difference.
    return whole.quantize(256)


def contact_sheet(rollout: torch.Tensor, name: str = "") -> Image.Image:
    """Return a picture of a camera's frames: a row per environment, a column per step, stacked frames side by side.

    Args:
        rollout: camera observations [horizon, num_envs, frames x channels, height, width] of any dtype and scale: the
            smallest value shown becomes black and the largest white. If the number of channels is a multiple of three,
            frames are shown in colour, else channel by channel.
        name: the camera's name, shown before each step
    """
    horizon, num_envs, channels, _, width = rollout.shape
    steps, envs = spread_out(horizon, MOST_STEPS), spread_out(num_envs, MOST_ENVS)
    thinner, larger = -(-width // MOST_PX), max(1, MOST_PX // width if width < LEAST_PX else 1)
    # Only the pixels on the sheet leave the device.
    shown = rollout[steps][:, envs][..., ::thinner, ::thinner].float().cpu()
    low, high = float(shown.min()), float(shown.max())
    levels = (shown - low) * (255 / (high - low) if high > low else 0)
    colours = 3 if channels % 3 == 0 else 1
    # [step, env, frames x colours, y, x] -> [step, env, frame, y, x, RGB]
    frames = levels.round().to(torch.uint8).unflatten(2, (-1, colours)).movedim(3, -1).expand(*[-1] * 5, 3)
    pixels = frames.repeat_interleave(larger, dim=3).repeat_interleave(larger, dim=4).numpy()
    frame_y, frame_x = pixels.shape[3:5]
    right, down = frame_x + FRAME_GAP_PX, frame_y + FRAME_GAP_PX
    step_x = pixels.shape[2] * right - FRAME_GAP_PX + STEP_GAP_PX
    sheet = Image.new("RGB", (len(steps) * step_x - STEP_GAP_PX, LABEL_PX + len(envs) * down - FRAME_GAP_PX), PAPER)
    for column, row, frame in numpy.ndindex(pixels.shape[:3]):
        picture = Image.fromarray(numpy.ascontiguousarray(pixels[column, row, frame]))
        sheet.paste(picture, (column * step_x + frame * right, LABEL_PX + row * down))
    pen = ImageDraw.Draw(sheet)
    for column, step in enumerate(steps):
        pen.text((column * step_x + 3, 2), f"{name}, step {step}" if name else f"step {step}", fill=INK)
    return sheet


def spread_out(count: int, most: int) -> list[int]:
    """Return at most `most` of the numbers below `count`, evenly spread from the first to the last. Pure."""
    shown = min(count, most)
    return [round(index * (count - 1) / max(1, shown - 1)) for index in range(shown)]


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
