"""The point that each trial of a block measures. Pure.

A block has all points of a repeat or some neighbours, so that most doublings have both ends in one process. Each repeat runs them in
another order of a Williams design, and then the first point once more.
"""

import itertools

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
    sweep = study.sections[kind]
    order = samplers.load(POINT_SAMPLERS, sweep.sampler).order(study, kind)
    chosen = sorted(
        order[: space.points_asked(sweep, study.world_sizes)],
        key=lambda point: (point.horizon, point.batch_size or 0, point.num_envs),
    )
    points = iter(chosen)
    return [list(itertools.islice(points, size)) for size in space.chunk_sizes(len(chosen), sweep.block)]
