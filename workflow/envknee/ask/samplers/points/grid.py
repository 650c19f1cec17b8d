"""Every legal point, in a shuffled order that all arms share."""

from envknee.base.fields import Kind
from envknee.base.point import Point
from envknee.study import designs, space
from envknee.study.model import Study


def order(study: Study, kind: Kind, sampler: str = "grid") -> list[Point]:
    """Return all legal points of one kind in the order in which they are measured."""
    return designs.shuffled(space.legal_points(study.sections[kind], study.world_sizes), study.seed, sampler, kind)
