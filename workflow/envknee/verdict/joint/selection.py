"""Which settings have fresh seeds: the best one of each num_envs, then the next best. Pure.

The best one of each num_envs makes a threshold of num_envs testable, with horizon and batch size at their best for each.
"""

from collections.abc import Sequence

from envknee.verdict.joint.profile import best_by
from envknee.verdict.joint.surface import Surface


def to_confirm(surface: Surface, allowed: Sequence[int], count: int) -> list[int]:
    """Return at most `count` places in `surface.settings`, all of `allowed`, by the means of ln cost.

    If there are more num_envs than `count`, those with the least cost have a setting.
    """

    def mean(place: int) -> tuple[float, int]:
        return float(surface.mean[place]), place

    best = best_by(
        surface.mean[list(allowed)], [surface.settings[place] for place in allowed], lambda own: own.num_envs
    )
    of_each = sorted((allowed[own] for own in best.values()), key=mean)
    return list(dict.fromkeys([*of_each, *sorted(allowed, key=mean)]))[:count]
