"""Which first layers the CUDA kernels take, decided without a GPU."""

import pytest
from envknee.lean.first_layer import SHARED_BYTES, Shape, why_not

CARTPOLE = Shape(planes=6, height=96, width=96, outputs=8, kernel_height=5, kernel_width=5)
HOPPER = (9, 0)


def test_the_cart_poles_layer_fits_a_hopper():
    assert why_not(CARTPOLE, 2, HOPPER) is None
    assert (CARTPOLE.rows, CARTPOLE.columns, CARTPOLE.taps, CARTPOLE.tiles, CARTPOLE.depth) == (46, 46, (3, 3), 3, 80)
    # 14 folded rows of 6 planes as bytes, and of 49 x 24 numbers: four such blocks share a multiprocessor, or three with gradients.
    forward, weights = CARTPOLE.shared_bytes
    assert forward >= 6 * 2 * 14 * 96 + 14 * 49 * 24 * 2 and weights == forward + 2 * 12 * 46 * 8 * 2
    assert CARTPOLE.blocks == (4, 3) and 4 * forward < SHARED_BYTES and 3 * weights < SHARED_BYTES


@pytest.mark.parametrize(
    ("change", "stride", "capability", "reason"),
    [
        ({}, 2, (8, 9), "compute capability 8.9"),
        ({}, 4, HOPPER, "stride 4"),
        ({"planes": 3}, 2, HOPPER, "planes must be even"),
        ({"outputs": 12}, 2, HOPPER, "a multiple of 8"),
        ({"width": 84}, 2, HOPPER, "the width of 16"),
        ({"height": 95}, 2, HOPPER, "the height even"),
        ({"width": 320}, 2, HOPPER, "more than 128 output columns"),
        ({"height": 4}, 2, HOPPER, "or none"),
        ({"planes": 64}, 2, HOPPER, "KB of shared memory"),
    ],
)
def test_what_the_kernels_do_not_take_has_a_reason(change, stride, capability, reason):
    assert reason in (why_not(CARTPOLE._replace(**change), stride, capability) or "")
