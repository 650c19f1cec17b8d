"""Points spread evenly over the space: a scrambled Sobol sequence, the same for all arms."""

import functools
import math

from envknee.base.fields import Kind
from envknee.base.point import Point
from envknee.study import designs, space
from envknee.study.model import Study

MAX_DRAWS_LOG2 = 16


def order(study: Study, kind: Kind) -> list[Point]:
    """Return all legal points of one kind in Sobol order."""
    sweep = study.sections[kind]
    points = space.legal_points(sweep, study.world_sizes)
    axes = space.axes(sweep)
    ranks = _ranks(tuple(len(axis) for axis in axes), designs.derived_seed(study.seed, "sobol", kind))
    spread = [Point(axes[0][envs], axes[1][horizon], axes[2][batch]) for envs, horizon, batch in ranks]
    legal = set(points)
    # The sequence visits nearly every cell; the others follow in a shuffled order.
    rest = designs.shuffled(points, study.seed, "rest", kind)
    return list(dict.fromkeys([*(point for point in spread if point in legal), *rest]))


@functools.lru_cache(maxsize=8)
def _ranks(lengths: tuple[int, ...], seed: int) -> tuple[tuple[int, ...], ...]:
    """Return the cells of a grid of these lengths in the order in which a scrambled Sobol sequence first visits them."""
    free = [axis for axis, length in enumerate(lengths) if length > 1]
    if not free:
        return ((0,) * len(lengths),)
    import numpy as np  # with SciPy 0.7 s, which other designs do not need
    from scipy.stats import qmc

    draws_log2 = min(MAX_DRAWS_LOG2, (8 * math.prod(lengths)).bit_length())
    draws = qmc.Sobol(len(free), scramble=True, rng=seed).random_base2(draws_log2)
    cells = np.zeros((len(draws), len(lengths)), int)
    cells[:, free] = draws * [lengths[axis] for axis in free]  # rounded down
    return tuple(dict.fromkeys(map(tuple, cells.tolist())))
