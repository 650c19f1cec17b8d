"""Seeds and shuffles that depend on a key alone.

Input: words that say what a seed is for. Output: seeds, points in order. Pure. They come from sha256, so they do not depend on
Python's version or on the order of a set.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence

from envknee.base.point import Point


def derived_seed(*key: int | str | None) -> int:
    """Return a seed in 0 .. 2**31 - 1 that depends on `key` and on nothing else."""
    return int.from_bytes(_digest(*key)[:4]) >> 1


def shuffled(points: Iterable[Point], *key: int | str | None) -> list[Point]:
    """Return `points` in an order that depends on `key` and on nothing else, not even on their order."""
    return sorted(points, key=lambda point: _digest(*key, point.num_envs, point.horizon, point.batch_size))


def williams(points: Sequence[Point], row: int, *key: int | str | None) -> list[Point]:
    """Return `points` in the order of one row of a Williams design: over all rows, each point follows each other one equally often.

    So what a size leaves behind in a process affects every other size alike. `key` alone decides the order of the rows and the
    place of each point.

    Source: E. J. Williams, Experimental designs balanced for the estimation of residual effects of treatments, 1949. For an even
    number of points it has as many rows; for an odd number each is followed by its reverse.
    """
    labelled = shuffled(points, *key, "labels")
    count = len(labelled)
    rows = count if count % 2 == 0 else 2 * count
    number = sorted(range(rows), key=lambda place: _digest(*key, "row", place))[row % rows]
    shift, is_reversed = (number, False) if count % 2 == 0 else (number // 2, number % 2 == 1)
    zigzag = [place // 2 if place % 2 == 0 else count - 1 - place // 2 for place in range(count)]
    order = [labelled[(place + shift) % count] for place in zigzag]
    return order[::-1] if is_reversed else order


def _digest(*key: int | str | None) -> bytes:
    return hashlib.sha256(json.dumps(key).encode()).digest()
