"""True ln costs at the settings of the simulated studies, drawn anew for each study. Pure.

None has the model's form, except for `as_handed`: valleys have a kink in place of a curve, deviations another length or none, some costs
jump. Where a doubling must save exactly delta, the least cost of each value of the axis is set by hand (`with_profile`), whatever the
landscape is otherwise.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
from envknee.verdict.joint.prior import Array
from envknee.verdict.joint.profile import places_by

from benchmarks.joint.handed import AXES, SETTINGS, fitted

Axis = Literal["num_envs", "horizon"]

Landscape = Callable[[np.random.Generator], Array]
"""generator -> true ln costs, shape (settings,)."""

OCTAVES = np.log2([(setting.num_envs, setting.horizon, setting.batch_size or 1) for setting in SETTINGS])
"""Shape (settings, axes)."""
MINI_BATCHES = OCTAVES[:, 0] + OCTAVES[:, 1] - OCTAVES[:, 2]
"""log2 of the number of mini-batches, shape (settings,)."""

BEST_MINI_BATCHES, VALLEY = 3.5, 0.22
"""log2 of the best number of mini-batches, and what an octave beside it costs."""
BEST_HORIZON, BESIDE_HORIZON = 4.5, 0.12
BEST_ENVS, BESIDE_ENVS = 9.5, 0.10
FIRST_CLIFF, CLIFF = 2.0, 0.8
"""log2 of the number of mini-batches from which down the cost jumps, and by how much in ln cost: 2.2 times."""
STEP_S, FRAME_S, MINI_BATCH_S, LEARNING_FRAME_S, ITERATION_S = 2e-3, 2e-6, 2e-3, 1e-6, 5e-3
"""Parts of an iteration's time where FPS saturate."""


def as_handed(_: np.random.Generator) -> Array:
    """Return the data's own fit."""
    return fitted().mean


def valley(_: np.random.Generator) -> Array:
    """Return a valley with a kink: ln cost rises by the same amount with each octave from its bottom."""
    return (
        VALLEY * np.abs(MINI_BATCHES - BEST_MINI_BATCHES)
        + BESIDE_HORIZON * np.abs(OCTAVES[:, 1] - BEST_HORIZON)
        + BESIDE_ENVS * np.abs(OCTAVES[:, 0] - BEST_ENVS)
    )


def cliffs(generator: np.random.Generator) -> Array:
    """Return the valley, with jumps of the cost at few mini-batches, and at the longest horizon with the largest batches."""
    few = MINI_BATCHES <= FIRST_CLIFF
    large = (OCTAVES[:, 1] >= math.log2(64)) & (OCTAVES[:, 2] >= math.log2(8192))
    return valley(generator) + CLIFF * few + CLIFF * large


def saturating(_: np.random.Generator) -> Array:
    """Return ln seconds per frame of FPS that saturate: each step takes t0 + c N, and learning adds to it by mini-batch and by frame."""
    num_envs, horizon, batch_size = 2.0**OCTAVES.T
    collecting_s = horizon * (STEP_S + FRAME_S * num_envs)
    learning_s = num_envs * horizon * (MINI_BATCH_S / batch_size + LEARNING_FRAME_S)
    return np.log((collecting_s + learning_s + ITERATION_S) / (num_envs * horizon))


@dataclass(frozen=True)
class Deviating:
    """A landscape with smooth random deviations."""

    around: Landscape
    amplitude: float
    """Standard deviation, in ln cost."""
    octaves: float
    """Length over which deviations are alike."""

    def __call__(self, generator: np.random.Generator) -> Array:
        """Draw one."""
        return self.around(generator) + self.amplitude * smooth(self.octaves) @ generator.standard_normal(len(SETTINGS))


@cache
def smooth(octaves: float) -> Array:
    """Return a factor whose product with normal numbers has variance 1 and this length. Shape (settings, settings)."""
    squares = ((OCTAVES[:, None] - OCTAVES[None]) ** 2).sum(axis=2)
    return np.linalg.cholesky(np.exp(-squares / (2.0 * octaves**2)) + 1e-9 * np.eye(len(SETTINGS)))


@dataclass(frozen=True)
class WithProfile:
    """A landscape whose doublings along one axis save what they should, with the other axes at their best for each value."""

    landscape: Landscape
    axis: Axis
    savings: Sequence[float]
    """What each doubling saves, in ln cost."""

    def __call__(self, generator: np.random.Generator) -> Array:
        """Draw one."""
        costs = self.landscape(generator).copy()
        levels = -np.concatenate([[0.0], np.cumsum(self.savings)])
        groups = places_by(SETTINGS, lambda setting: getattr(setting, self.axis)).values()
        for level, places in zip(levels.tolist(), groups, strict=True):
            costs[places] += level - costs[places].min()
        return costs


def profile(costs: Array, axis: Axis) -> dict[int, float]:
    """Return the true profile of an axis: value -> least ln cost, by ascending value."""
    groups = places_by(SETTINGS, lambda setting: getattr(setting, axis))
    return {value: float(costs[places].min()) for value, places in groups.items()}


def savings(costs: Array, axis: Axis) -> dict[int, float]:
    """Return what each doubling truly saves, in ln cost, by the smaller value."""
    own = profile(costs, axis)
    return {value: least - own[2 * value] for value, least in own.items() if 2 * value in own}


def doublings(axis: Axis) -> int:
    """Return how many doublings an axis has."""
    return len(AXES[axis]) - 1


def everywhere(axis: Axis, log_limit: float, landscape: Landscape = valley) -> Landscape:
    """Return a landscape of which every doubling saves exactly the limit: the worst case of a rule that looks for any that does not."""
    return WithProfile(landscape, axis, [log_limit] * doublings(axis))


def at_place(axis: Axis, log_limit: float, place: int, landscape: Landscape = valley) -> Landscape:
    """Return a landscape whose doublings before a place save twice the limit, the one there the limit, and later ones nothing."""
    later = doublings(axis) - place - 1
    return WithProfile(landscape, axis, [2 * log_limit] * place + [log_limit] + [0.0] * later)
