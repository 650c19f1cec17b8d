"""Fixed designs: the order in which points are asked when no record has a say, and the seeds of everything.

Input: a study and words that say what a seed is for. Output: points in order, seeds. Pure; sha256 throughout, so that
nothing depends on the version of Python or the order of a set.
"""

import functools
import hashlib
import json
import math
from collections.abc import Iterable

from envknee import space
from envknee.config import Kind, Study, Sweep
from envknee.space import Point

MAX_SOBOL_DRAWS_LOG2 = 16


def derived_seed(*key: int | str | None) -> int:
    """Return a seed in 0 .. 2**31 - 1 that depends on `key` and on nothing else."""
    return int.from_bytes(_digest(*key)[:4]) >> 1


def shuffled(points: Iterable[Point], *key: int | str | None) -> list[Point]:
    """Return `points` in an order that depends on `key` and on nothing else, not even on their order."""
    return sorted(points, key=lambda point: _digest(*key, point.num_envs, point.horizon, point.batch_size))


def block_order(points: Iterable[Point], study: Study, arm: str, kind: Kind, repeat: int) -> list[Point]:
    """Return the points of repeat 0 in the order in which a later repeat of an arm runs them: a randomized block."""
    return shuffled(points, study.seed, "block", arm, kind, repeat)


def trial_seed(study: Study, kind: Kind, repeat: int, point: Point) -> int:
    """Return the seed of a trial: the same for all arms, another for each repeat."""
    return derived_seed(study.seed, "trial", kind, repeat, point.num_envs, point.horizon, point.batch_size)


def fixed_design(study: Study, kind: Kind, sweep: Sweep) -> list[Point]:
    """Return all legal points of one kind in the order of its design, the same for every arm.

    For grid and random a shuffle of the legal points; for sobol, and as the start of tpe and gp, Sobol order.
    """
    points = space.legal_points(sweep, study.world_sizes)
    if sweep.sampler in ("grid", "random"):
        return shuffled(points, study.seed, sweep.sampler, kind)
    axes = space.axes(sweep)
    ranks = _sobol_ranks(tuple(len(axis) for axis in axes), derived_seed(study.seed, "sobol", kind))
    spread = [Point(axes[0][envs], axes[1][horizon], axes[2][batch]) for envs, horizon, batch in ranks]
    legal = set(points)
    # Sobol comes by nearly every cell; those that it missed follow in a shuffle.
    rest = shuffled(points, study.seed, "rest", kind)
    return list(dict.fromkeys([*(point for point in spread if point in legal), *rest]))


@functools.lru_cache(maxsize=8)
def _sobol_ranks(lengths: tuple[int, ...], seed: int) -> tuple[tuple[int, ...], ...]:
    """Return the cells of a grid of these lengths in the order in which a scrambled Sobol sequence first comes by."""
    free = [axis for axis, length in enumerate(lengths) if length > 1]
    if not free:
        return ((0,) * len(lengths),)
    from scipy.stats import qmc  # 0.7 s that a grid should not pay

    draws_log2 = min(MAX_SOBOL_DRAWS_LOG2, (8 * math.prod(lengths)).bit_length())
    draws = qmc.Sobol(len(free), scramble=True, rng=seed).random_base2(draws_log2)
    ranks: dict[tuple[int, ...], None] = {}
    for draw in draws.tolist():
        cell = [0] * len(lengths)
        for axis, share in zip(free, draw, strict=True):
            cell[axis] = int(share * lengths[axis])
        ranks[tuple(cell)] = None
    return tuple(ranks)


def _digest(*key: int | str | None) -> bytes:
    return hashlib.sha256(json.dumps(key).encode()).digest()
