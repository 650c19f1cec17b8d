"""Seconds of an arm as the search of another arm plans them. Pure.

It is the surface from which `ask.confirm` chose the arm's settings: frames of the other arm's search, and the arm's own throughput trials,
before any fresh seed. It is a plan and no claim, whether both arms learn alike or not.

Fresh seeds of single settings are held against it. So along an axis it tells the seconds of the very setting that it takes for the best at
each value. The profile of a model would be lower: it counts that another setting may be the best one there.
"""

import math
from collections.abc import Mapping, Sequence

from envknee.base.point import Point
from envknee.record.schema import Record
from envknee.verdict.joint.frames import factors_at
from envknee.verdict.joint.model import Model
from envknee.verdict.joint.shape import shape_of
from envknee.verdict.joint.transfer import factors_of
from envknee.verdict.schema.joint import AxisProfile, JointPlan, Setting
from envknee.verdict.settings import JointSettings


def planned(
    joint: JointSettings, records: Sequence[Record], arm: str, confidence: float, delta: float, world_size: int
) -> JointPlan | None:
    """Return the plan of `arm`; None before there are trials of the other arm's search and of this one's throughput.

    Args:
        joint: its learning section, with `learns_like`
        records: of both arms
        arm: its name
        confidence: of intervals and credible sets
        delta: how much slower a number of mini-batches may be
        world_size: ranks that train together
    """
    assert joint.learns_like is not None, "only an arm without a search is planned"
    stage = min(
        (own.request.number for own in records if own.request.confirms and own.request.kind == "learning"),
        default=math.inf,
    )
    before = sorted((own for own in records if own.request.number < stage), key=lambda own: own.request.number)
    learned = [own for own in before if (own.request.arm, own.request.kind) == (joint.learns_like, "learning")]
    timed = [own for own in before if (own.request.arm, own.request.kind) == (arm, "throughput")]
    factors = factors_of(joint.settings, learned, timed)
    if factors is None:
        return None
    model = Model(factors.seconds, confidence)
    settings = joint.settings
    if model.surface.is_rough:
        return JointPlan(arm=joint.learns_like, is_rough=True, likely=[], mini_batches=[], shape=None)
    shape = shape_of(model, lambda settings: factors_at(settings, *factors, confidence), regret=[])
    seconds_at = {
        Setting.at(own.num_envs, own): own.model_dump(include={"cost", "cost_lower", "cost_upper"})
        for own in shape.expected
    }
    valley = model.mini_batches(world_size, delta)
    best = model.best_by_mini_batches(world_size) if valley else {}
    return JointPlan(
        arm=joint.learns_like,
        is_rough=False,
        likely=model.likely,
        mini_batches=[own.model_copy(update=seconds_at[_setting(settings[best[own.value]])]) for own in valley],
        shape=shape.model_copy(update={"profiles": [_at_settings(own, seconds_at) for own in shape.profiles]}),
    )


def _at_settings(profile: AxisProfile, seconds_at: Mapping[Setting, dict[str, float]]) -> AxisProfile:
    """Return a profile with the seconds of the setting that stands at each value."""
    values = [own.model_copy(update=seconds_at[Setting.at(own.num_envs, own)]) for own in profile.values]
    return profile.model_copy(update={"values": values})


def _setting(point: Point) -> Setting:
    return Setting.at(point.num_envs, point)
