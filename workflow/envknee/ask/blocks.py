"""Which point each trial of a block measures. Pure.

A block has a part of a repeat's points: all of them, or neighbours, so that most doublings have both ends in one process. It runs
them in an order of a Williams design, another one in each repeat, and the first point once more at the end.
"""

from envknee.ask import samplers
from envknee.study import designs, space
from envknee.study.model import Study
from envknee.study.rules import POINT_SAMPLERS, Kind
from envknee.study.space import Point, Slot


def point(study: Study, slot: Slot) -> Point:
    """Return the point of a slot in a section with `block:`."""
    chunk = chunks(study, slot.kind)[slot.chunk]
    order = designs.williams(chunk, slot.repeat, study.seed, "block", slot.kind, slot.chunk)
    return order[0 if slot.again else slot.position]


def chunks(study: Study, kind: Kind) -> list[list[Point]]:
    """Return the points of each part of a repeat, series by series."""
    sweep = study.sweep(kind)
    assert sweep is not None, "the plan has trials only of kinds that the study has"
    chosen = samplers.load(POINT_SAMPLERS, sweep.sampler).order(study, kind)[
        : space.points_asked(sweep, study.world_sizes)
    ]
    chosen.sort(key=lambda point: (point.horizon, point.batch_size or 0, point.num_envs))
    parts, begin = [], 0
    for size in space.chunk_sizes(len(chosen), sweep.block):
        parts.append(chosen[begin : begin + size])
        begin += size
    return parts
