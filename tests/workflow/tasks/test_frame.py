"""What the policy sees: a frame of the shipped cart-pole against the one that was looked at and found right."""

import functools
from pathlib import Path
from typing import Literal

import gymnasium
import numpy
import pytest
import quick
import torch
import warp
from envknee.study.errors import UserError
from envknee.tasks.frames import PerFrameStack, use
from isaaclab.utils.images import CameraFrameStack, normalize_camera_image
from PIL import Image
from places import ROOT

GOLDEN = ROOT / "tests/golden/cartpole.png"


def test_the_cartpole_looks_as_it_did(tmp_path: Path):
    rendered = tmp_path / "frame.png"
    quick.run_script("render_frame.py", rendered, folder=tmp_path)
    frame, golden = (numpy.asarray(Image.open(path), dtype=float) for path in (rendered, GOLDEN))
    assert frame.shape == golden.shape == (96, 96, 3)
    # Rounding differs between processors and GPUs and may move a pixel of an edge. The cart and the pole are
    # about 25 pixels each: one that is missing, moved or recoloured is many more than 6.
    different = (numpy.abs(frame - golden).max(axis=2) > 32).sum()
    assert different <= 6, f"{different} pixels differ: compare {rendered} with {GOLDEN}"


def test_the_golden_frame_shows_a_blue_cart_and_a_brown_pole():
    red, _, blue = numpy.moveaxis(numpy.asarray(Image.open(GOLDEN), dtype=float), 2, 0)
    assert 15 <= (blue > red + 30).sum() <= 60
    assert 15 <= (red > blue + 30).sum() <= 60


@pytest.mark.numerics
@pytest.mark.parametrize("channel_first", [True, False])
@pytest.mark.parametrize("frames", [1, 2, 5])
def test_frames_normalized_one_by_one_are_what_isaac_lab_gives(frames: int, channel_first: bool):
    warp.init()
    normalize = functools.partial(normalize_camera_image, data_type="rgb")
    stock = CameraFrameStack(6, "cpu", frames, channel_first=channel_first)
    ours = PerFrameStack(6, frames, 1 if channel_first else -1)
    random = torch.Generator().manual_seed(1)
    kept = []
    for step in range(2 * frames + 2):
        images = torch.randint(0, 256, (6, 7, 9, 3), dtype=torch.uint8, generator=random)
        expected, given = stock(images, normalize), ours(images, normalize)
        assert given.shape == expected.shape and given.dtype == torch.float32
        torch.testing.assert_close(given, expected, rtol=0, atol=2e-7)
        kept.append((given, given.clone()))
        if step % 3 == 2:
            gone = None if step == 5 else [0, step % 6]
            stock.reset(gone)
            ours.reset(gone)
    assert all(torch.equal(now, then) for now, then in kept)  # what a trainer keeps is nobody else's


@pytest.mark.parametrize("observations", ["per_frame", "lean"])
def test_a_task_without_a_stack_of_frames_says_so(observations: Literal["per_frame", "lean"]):
    words = (
        f"observations: {observations}: a task must stack camera frames.*CartPoleEnv has no.*Or use observations: stock"
    )
    with pytest.raises(UserError, match=words):
        use(observations, gymnasium.make("CartPole-v1"))
