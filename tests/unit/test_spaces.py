"""The space of many environments without copies is Gymnasium's own, but for its memory."""

from typing import Any

import numpy
import pytest
from envknee.tasks.spaces import repeat_without_copies, repeated
from gymnasium.spaces import Box
from gymnasium.vector.utils import batch_space

UPSTREAM = batch_space.dispatch(Box)


@pytest.mark.parametrize(
    "space",
    [
        Box(-1.0, 1.0, (2, 3)),
        Box(-numpy.inf, numpy.inf, (4,)),
        Box(0, 255, (3, 4, 4), numpy.uint8),
        Box(numpy.array([-numpy.inf, 0.0], numpy.float32), numpy.array([1.0, numpy.inf], numpy.float32)),
    ],
)
def test_it_is_the_space_that_gymnasium_makes(space: Box):
    ours: Any = repeated(space, 5)
    theirs: Any = UPSTREAM(space, 5)
    assert ours == theirs and ours.shape == theirs.shape and repr(ours) == repr(theirs)
    for manner in ("below", "above", "both"):
        assert ours.is_bounded(manner) == theirs.is_bounded(manner)
    assert numpy.array_equal(ours.sample(), theirs.sample())
    assert ours.contains(theirs.sample())


def test_a_billion_environments_with_cameras_take_no_memory():
    frames: Any = Box(-numpy.inf, numpy.inf, (6, 96, 96))
    repeat_without_copies()
    try:
        assert batch_space(frames, 10**9).shape == (10**9, 6, 96, 96)
    finally:
        batch_space.register(Box, UPSTREAM)
