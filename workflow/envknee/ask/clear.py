"""Points that decide nothing: all their doublings clearly gain more than delta. Pure.

The first repeat measures every point. Later repeats measure those that decide the verdict: the ends of the largest doubling and of each
doubling that may gain less than delta.
"""

import math
from collections.abc import Sequence

from envknee.base.point import Point
from envknee.record.schema import Record
from envknee.study.model import Decide
from envknee.study.sweep import UntilDecided
from envknee.verdict.measurements import measurements_of


def clear_points(records: Sequence[Record], rule: UntilDecided) -> set[Point]:
    """Return the points with doublings that all clearly gain more than delta, and of which none is the largest."""
    from envknee.verdict import noise, throughput

    clear: set[Point] = set()
    on_cpu = any(r.outcome.environment and r.outcome.environment.device.type == "cpu" for r in records)
    for limit in throughput.analyse(measurements_of(records), Decide(delta=rule.delta, confidence=rule.confidence)):
        half = limit.law.half_saturation_num_envs if limit.law else None
        cvs = {
            measured.num_envs: (noise.CPU_CV if on_cpu else noise.assumed_cv(measured.num_envs, half))
            / math.sqrt(len(measured.fps_repeats))
            for measured in limit.points
        }
        gains_more = {
            gain.num_envs: gain is not limit.gains[-1]
            and noise.gain_interval(math.log1p(gain.gain), (cvs[gain.num_envs], cvs[gain.doubled]), rule.confidence)[0]
            > math.log1p(rule.delta)
            for gain in limit.gains
        }
        for size in cvs:
            doublings = [more for smaller, more in gains_more.items() if size in (smaller, 2 * smaller)]
            if doublings and all(doublings):
                clear.add(Point(size, limit.horizon, limit.batch_size))
    return clear
