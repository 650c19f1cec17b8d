"""A profile: ln cost along one axis, with all other axes at their best for each value. Pure.

In a drawn surface the profile at a value is the least ln cost of all settings with it. Its distribution over draws counts that another
setting may be the best one there (Ginsbourger et al. 2014, "Bayesian adaptive reconstruction of profile optima and optimizers").
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from envknee.base.point import Point
from envknee.verdict.joint.prior import Array

Axis = Callable[[Point], int]
"""The value of a setting on an axis: of num_envs, horizon, or a number of mini-batches."""


@dataclass(frozen=True)
class Profile:
    """Draws of the profile along an axis."""

    values: Sequence[int]
    """On the axis, ascending."""
    log_costs: Array
    """Shape (draws, values)."""

    def at(self, value: int) -> Array:
        """Return the draws at a value: shape (draws,)."""
        return self.log_costs[:, self.values.index(value)]

    def savings(self, value: int, other: int) -> Array:
        """Return draws of ln cost at a value less that at another one, shape (draws,): above 0 the other costs less."""
        return self.at(value) - self.at(other)


def profile_of(draws: Array, settings: Sequence[Point], axis: Axis) -> Profile:
    """Return the profile along an axis; `draws` have the shape (draws, settings)."""
    groups = places_by(settings, axis)
    return Profile(list(groups), np.stack([draws[:, places].min(axis=1) for places in groups.values()], axis=1))


def places_by(settings: Sequence[Point], axis: Axis) -> Mapping[int, list[int]]:
    """Return value -> places of the settings that have it, by ascending value."""
    groups: dict[int, list[int]] = {}
    for place, setting in enumerate(settings):
        groups.setdefault(axis(setting), []).append(place)
    return dict(sorted(groups.items()))


def best_by(mean: Array, settings: Sequence[Point], axis: Axis) -> dict[int, int]:
    """Return value -> place of the setting with the least mean ln cost there, by ascending value."""
    groups = places_by(settings, axis)
    return {value: min(places, key=lambda place: (float(mean[place]), place)) for value, places in groups.items()}
