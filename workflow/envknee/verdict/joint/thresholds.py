"""From which value of an axis on does doubling it save less than delta, with the other axes at their best for each? Pure.

Two independent answers must agree, and the larger value counts:

    fresh   the union test (`rule.union`) between the confirmed settings that the search's model takes for the best ones
    model   P(a doubling of the profile saves delta or more), through the same union: a fixed sequence from the largest doubling down and
            Holm, alpha / 2 each

The fresh seeds alone would miss that another setting may be the best one of a value, and the model alone that it may be wrong. Likewise
both must agree that the axis's largest doubling still pays: on rough surfaces fresh seeds alone said so falsely in one study of ten.
"""

import math
from collections.abc import Mapping, Sequence

from envknee.base.point import Point
from envknee.verdict.joint.prior import Array
from envknee.verdict.joint.profile import Axis, Profile, best_by
from envknee.verdict.rule.doublings import holm

CLOSE = math.log(1.05)
"""A confirmed setting stands for a value if the model expects it at most 5% above the best one there."""


def stand_ins(mean: Array, settings: Sequence[Point], confirmed: Sequence[int], axis: Axis) -> dict[int, int]:
    """Return value -> place, among `confirmed`, of the setting that stands for a value of an axis, by ascending value.

    `mean` is ln cost by a model of the search alone, so that fresh seeds have no say in it. A value of which no setting near the best one
    was confirmed has none.
    """
    best = best_by(mean, settings, axis)
    of_confirmed = best_by(mean[list(confirmed)], [settings[place] for place in confirmed], axis)
    return {
        value: place
        for value, place in of_confirmed.items()
        if float(mean[confirmed[place]] - mean[best[value]]) <= CLOSE
    }


def by_model(profile: Profile, values: Sequence[int], log_limit: float, alpha: float) -> int | None:
    """Return the least value, of ascending doublings, that the model shows to save less than `log_limit` if doubled; None without one."""
    chances = {value: float((profile.savings(value, 2 * value) >= log_limit).mean()) for value in values}
    return first_shown(chances, alpha)


def still_pays(profile: Profile, values: Sequence[int], log_limit: float, alpha: float) -> bool:
    """Tell whether the model shows that the axis's largest doubling saves `log_limit` or more; not if it is none of the tested `values`."""
    largest = max((value for value in profile.values if 2 * value in profile.values), default=None)
    if largest is None or largest not in values:
        return False
    return float((profile.savings(largest, 2 * largest) < log_limit).mean()) <= alpha


def first_shown(p_values: Mapping[int, float], alpha: float) -> int | None:
    """Return the first value that the fixed sequence from the last one down, or Holm, shows; each has half of alpha."""
    values, chances = list(p_values), list(p_values.values())
    adjusted = holm(chances)
    for place, value in enumerate(values):
        in_sequence = all(chance <= alpha / 2 for chance in chances[place:])
        corrected = adjusted[place]
        if in_sequence or (corrected is not None and corrected <= alpha / 2):
            return value
    return None
