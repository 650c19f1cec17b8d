"""What a surface of ln cost says of each setting: chances, intervals, and the profile over mini-batches. Pure."""

import math
from typing import Any

import numpy as np

from envknee.verdict.joint.prior import Array
from envknee.verdict.joint.profile import Axis, best_by, profile_of
from envknee.verdict.joint.surface import DRAWS, Surface, chances_of_best, credible_set
from envknee.verdict.schema.joint import LikelySetting, MiniBatches

SEED = 0
"""Of the draws: the same records give the same answer."""


class Model:
    """What a surface says of each setting."""

    def __init__(self, surface: Surface, confidence: float) -> None:
        """Take a surface; intervals and credible sets have this confidence."""
        self.surface = surface
        self.draws = surface.draws(DRAWS, SEED)
        self.chances = chances_of_best(self.draws)
        self._confidence = confidence

    def interval(self, draws: Array) -> dict[str, Any]:
        """Return the median and the two-sided interval of draws of ln cost, as costs."""
        tail = (1.0 - self._confidence) / 2
        lower, middle, upper = np.exp(np.quantile(draws, [tail, 0.5, 1.0 - tail])).tolist()
        return {"cost": middle, "cost_lower": lower, "cost_upper": upper}

    @property
    def likely(self) -> list[LikelySetting]:
        """The fewest settings that hold the best one."""
        return [
            LikelySetting(
                **vars(self.surface.settings[place]),
                chance=float(self.chances[place]),
                **self.interval(self.draws[:, place]),
            )
            for place in credible_set(self.chances, self._confidence)
        ]

    def mini_batches(self, world_size: int, delta: float) -> list[MiniBatches]:
        """Return the profile over the number of mini-batches; empty with the library's own batch."""
        settings = self.surface.settings
        if any(setting.batch_size is None for setting in settings):
            return []
        valley = profile_of(self.draws, settings, _mini_batches(world_size))
        least = self.draws.min(axis=1)
        return [
            MiniBatches(
                value=value,
                **self.interval(valley.at(value)),
                not_slower=float((valley.at(value) - least > math.log1p(delta)).mean()) < self._confidence,
            )
            for value in valley.values
        ]

    def best_by_mini_batches(self, world_size: int) -> dict[int, int]:
        """Return mini-batches -> place of the setting with the least mean cost there."""
        return best_by(self.surface.mean, self.surface.settings, _mini_batches(world_size))


def _mini_batches(world_size: int) -> Axis:
    """Return how many mini-batches an epoch of a setting has, whose batch is not the library's own."""
    return lambda setting: setting.rollout * world_size // (setting.batch_size or 1)
