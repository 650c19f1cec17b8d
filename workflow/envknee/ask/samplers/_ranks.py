"""How Optuna sees a setting: as ranks on the ascending values of each axis, for doublings exponents. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from envknee.ask.question import AXES
from envknee.base.point import Point
from envknee.study import space
from envknee.study.model import Sweep


@dataclass(frozen=True)
class Ranks:
    """The axes of a sweep. One with a single value is no parameter."""

    sweep: Sweep

    @cached_property
    def axes(self) -> Mapping[str, tuple[Any, ...]]:
        """Ascending values by the name of the axis."""
        return dict(zip(AXES, space.axes(self.sweep), strict=True))

    @cached_property
    def distributions(self) -> dict[str, Any]:
        """Optuna's distributions by the name of the parameter."""
        from optuna.distributions import IntDistribution  # takes 0.3 s

        return {name: IntDistribution(0, len(axis) - 1) for name, axis in self.axes.items() if len(axis) > 1}

    def params(self, point: Point) -> dict[str, int]:
        """Return the parameters of a point."""
        return {name: self.axes[name].index(getattr(point, name)) for name in self.distributions}

    def point(self, params: Mapping[str, int]) -> Point:
        """Return the point of some parameters."""
        return Point(*(axis[params.get(name, 0)] for name, axis in self.axes.items()))
