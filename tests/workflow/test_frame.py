"""What the policy sees: a frame of the shipped cart-pole against the one that was looked at and found right."""

import sys

import numpy
from conftest import ROOT, Workspace
from PIL import Image

GOLDEN = ROOT / "tests/golden/cartpole.png"


def test_the_cartpole_looks_as_it_did(workspace: Workspace):
    rendered = workspace.folder / "frame.png"
    result = workspace.run([sys.executable, str(ROOT / "tests/workflow/render_frame.py"), str(rendered)], 240)
    assert result.returncode == 0, result.stdout
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
