"""How much each axis matters: what its worst value costs, with the other axes at their best for each value. Pure.

A share of variance would need every combination of the axes' values, and many are not legal: the batch must divide the rollout.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

from envknee.verdict.schema.joint import ExpectedSetting, JointShape

AxisName = Literal["num_envs", "horizon", "batch size"]

AXES: dict[AxisName, Callable[[ExpectedSetting], int | None]] = {
    "num_envs": lambda setting: setting.num_envs,
    "horizon": lambda setting: setting.horizon,
    "batch size": lambda setting: setting.batch_size,
}


class Importance(NamedTuple):
    """What one axis changes."""

    axis: AxisName
    best: int
    """Its value with the least expected cost."""
    worst: int
    """Its value that costs most, with the other axes at their best for it."""
    times: float
    """The cost at `worst` over that at `best`; at least 1."""


def importance_of(shape: JointShape) -> list[Importance]:
    """Return every axis with several values, the most important first, by the model of all trials."""
    found = []
    for name, value_of in AXES.items():
        least: dict[int, float] = {}
        for setting in shape.expected:
            value = value_of(setting)
            if value is not None:  # the library's own batch is no axis
                least[value] = min(setting.cost, least.get(value, setting.cost))
        if len(least) > 1:
            best, worst = min(least, key=least.__getitem__), max(least, key=least.__getitem__)
            found.append(Importance(name, best, worst, least[worst] / least[best]))
    return sorted(found, key=lambda own: -own.times)
