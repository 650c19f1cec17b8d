"""What figures show of the surface: profiles, each setting's cost, its factors, and what a shorter search would have lost. Pure."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from envknee.record.schema import Record
from envknee.verdict.joint.frames import frames_at
from envknee.verdict.joint.posterior import Trials
from envknee.verdict.joint.prior import Array
from envknee.verdict.joint.profile import Axis, best_by, profile_of
from envknee.verdict.joint.regret import regret_of
from envknee.verdict.joint.surface import Surface
from envknee.verdict.schema.joint import AxisProfile, ExpectedSetting, JointShape, ProfileValue

AXES: Mapping[Literal["num_envs", "horizon"], Axis] = {
    "num_envs": lambda point: point.num_envs,
    "horizon": lambda point: point.horizon,
}

Interval = Callable[[Array], dict[str, Any]]
"""Median and two-sided interval of draws of ln cost, as costs."""


def shape_of(
    surface: Surface,
    draws: Array,
    interval: Interval,
    searched: Trials,
    records: Sequence[Record],
    confidence: float,
) -> JointShape:
    """Return what figures show.

    Args:
        surface: by all trials
        draws: of it; shape (draws, settings)
        interval: of draws
        searched: the trials of the search, in their order
        records: of all trials of one kind
        confidence: of the study
    """
    settings = surface.settings
    best = best_by(surface.mean, settings, AXES["num_envs"])
    learned = [record for record in records if record.request.kind == "learning"]
    return JointShape(
        profiles=[
            _profile(name, surface, draws, interval) for name, axis in AXES.items() if len({*map(axis, settings)}) > 1
        ],
        expected=[
            ExpectedSetting(**vars(setting), **{**interval(draws[:, place]), "cost": float(cost)})
            for place, (setting, cost) in enumerate(zip(settings, np.exp(surface.mean), strict=True))
        ],
        frames=frames_at([settings[place] for place in best.values()], learned, confidence),
        regret=regret_of(surface, draws, searched, confidence) if searched.places else [],
    )


def _profile(name: Literal["num_envs", "horizon"], surface: Surface, draws: Array, interval: Interval) -> AxisProfile:
    settings, axis = surface.settings, AXES[name]
    best = best_by(surface.mean, settings, axis)
    profile = profile_of(draws, settings, axis)
    return AxisProfile(
        axis=name,
        values=[
            ProfileValue(value=value, **vars(settings[best[value]]), **interval(profile.at(value)))
            for value in profile.values
        ],
    )
