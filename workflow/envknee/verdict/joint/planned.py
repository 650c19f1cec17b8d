"""Seconds of an arm as the search of another arm plans them. Pure.

It is the surface from which `ask.confirm` chose the arm's settings: frames of the other arm's search, and the arm's own throughput trials,
before any fresh seed. So what fresh seeds show can be held against it. It is a plan and no claim, whether both arms learn alike or not.
"""

import math
from collections.abc import Sequence

from envknee.record.schema import Record
from envknee.verdict.joint.frames import factors_at
from envknee.verdict.joint.model import Model
from envknee.verdict.joint.shape import shape_of
from envknee.verdict.joint.transfer import factors_of
from envknee.verdict.schema.joint import JointPlan
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
    if model.surface.is_rough:
        return JointPlan(arm=joint.learns_like, is_rough=True, likely=[], mini_batches=[], shape=None)
    return JointPlan(
        arm=joint.learns_like,
        is_rough=False,
        likely=model.likely,
        mini_batches=model.mini_batches(world_size, delta),
        shape=shape_of(model, lambda settings: factors_at(settings, *factors, confidence), regret=[]),
    )
