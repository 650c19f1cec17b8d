"""What figures show of the surface: profiles, each setting's cost, its factors, and what a shorter search would have lost. Pure."""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import numpy as np

from envknee.base.point import Point
from envknee.verdict.joint.model import Model
from envknee.verdict.joint.profile import Axis, best_by, profile_of
from envknee.verdict.schema.joint import (
    AxisProfile,
    ExpectedSetting,
    FramesOfSetting,
    JointShape,
    ProfileValue,
    RegretStep,
)

AXES: Mapping[Literal["num_envs", "horizon"], Axis] = {
    "num_envs": lambda point: point.num_envs,
    "horizon": lambda point: point.horizon,
}


def shape_of(
    model: Model, frames_at: Callable[[Sequence[Point]], list[FramesOfSetting]], regret: list[RegretStep]
) -> JointShape:
    """Return what figures show.

    Args:
        model: of ln cost at every setting
        frames_at: returns both factors of the seconds at some settings; nothing where the cost is none of seconds
        regret: of the search; empty without one
    """
    settings, mean = model.surface.settings, model.surface.mean
    best = best_by(mean, settings, AXES["num_envs"])
    return JointShape(
        profiles=[_profile(name, model) for name, axis in AXES.items() if len({*map(axis, settings)}) > 1],
        expected=[
            ExpectedSetting(**vars(setting), **{**model.interval(model.draws[:, place]), "cost": float(cost)})
            for place, (setting, cost) in enumerate(zip(settings, np.exp(mean), strict=True))
        ],
        frames=frames_at([settings[place] for place in best.values()]),
        regret=regret,
    )


def _profile(name: Literal["num_envs", "horizon"], model: Model) -> AxisProfile:
    settings, axis = model.surface.settings, AXES[name]
    best = best_by(model.surface.mean, settings, axis)
    profile = profile_of(model.draws, settings, axis)
    return AxisProfile(
        axis=name,
        values=[
            ProfileValue(value=value, **vars(settings[best[value]]), **model.interval(profile.at(value)))
            for value in profile.values
        ],
    )
