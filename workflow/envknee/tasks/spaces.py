"""Gymnasium's space of all environments, whose bounds take no memory (`batch_space` of Gymnasium 1.4.0 copies them)."""

import copy

import numpy
from gymnasium.spaces import Box
from gymnasium.vector.utils import batch_space


def repeat_without_copies() -> None:
    """Make Gymnasium repeat the bounds of a box as views, in this process.

    Upstream copies and checks them for each environment: 3.6 GB for 8,192 environments with Isaac Lab's camera frames, and 4.7 of the
    11.5 s in which a profile on an H100's host made them.
    """
    batch_space.register(Box, repeated)


def repeated(space: Box, n: int = 1) -> Box:
    """Return the space of `n` environments, [n, ...]. Its bounds are views of one environment's, and cannot be written to."""
    whole = copy.copy(space)
    whole._shape = (n, *space.shape)
    for name in ("low", "high", "bounded_below", "bounded_above"):
        bound = getattr(space, name)
        setattr(whole, name, numpy.broadcast_to(bound, (n, *bound.shape)))
    whole.low_repr = whole.high_repr = None
    whole._np_random = copy.deepcopy(space.np_random)
    return whole
