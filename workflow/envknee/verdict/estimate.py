"""The best estimate of a throughput limit without repeats. It is called an estimate, never "reached". Pure.

Input: one FPS for each num_envs, and their assumed noise. Output: an `Estimate`.

Sizes may have any ratio. A step goes from each num_envs to the larger one whose ratio is nearest to 2, and its gain is per doubling. The
estimate is the smallest num_envs from which a doubling gains less than delta.
"""

import math
from collections.abc import Callable, Mapping, Sequence

from envknee.verdict.noise import gain_interval
from envknee.verdict.schema.table import Estimate, Step
from envknee.verdict.schema.throughput import Law


def estimate(
    fps: Mapping[int, float],
    cv: Callable[[int], float],
    delta: float,
    confidence: float,
    law: Law | None,
    assumed_cv: float | None = None,
) -> Estimate | None:
    """Return the best estimate, or None with fewer than two num_envs.

    `cv` returns the coefficient of variation of FPS at a num_envs. `assumed_cv` is the user's, if `cv` comes from it.
    """
    sizes = sorted(fps)
    if len(sizes) < 2:
        return None
    steps = [_step(size, sizes, fps, cv, confidence) for size in sizes[:-1]]
    below = [step for step in steps if step.gain < delta]
    dips = [b for a, b, c in zip(sizes, sizes[1:], sizes[2:], strict=False) if fps[b] < min(fps[a], fps[c])]
    jumps = [
        larger.num_envs
        for smaller, larger in zip(steps, steps[1:], strict=False)
        if larger.gain_lower > smaller.gain_upper and smaller.gain < delta <= larger.gain
    ]
    by_law = None
    if law is not None and law.used and law.half_saturation_num_envs is not None:
        # The law's gain t0 / (t0 + 2 c N) is below delta from N = N_half (1 / delta - 1) / 2 on.
        by_law = law.half_saturation_num_envs * (1.0 / delta - 1.0) / 2.0
    peak, last = max(sizes, key=lambda size: fps[size]), sizes[-1]
    _, most = gain_interval(math.log(fps[last] / fps[peak]), [cv(peak), cv(last)], confidence)
    # From there on FPS fall by more than the assumed noise, and stay lower.
    falls_beyond = peak if most < 0.0 else None
    return Estimate(
        num_envs=below[0].num_envs if below else None,
        lowest=next((step.num_envs for step in steps if step.gain_lower < delta), None),
        highest=next((step.num_envs for step in steps if step.gain_upper < delta), None),
        by_law=by_law,
        steps=steps,
        dips=dips,
        jumps=jumps,
        falls_beyond=falls_beyond,
        assumed_cv=assumed_cv,
    )


def _step(
    size: int, sizes: Sequence[int], fps: Mapping[int, float], cv: Callable[[int], float], confidence: float
) -> Step:
    larger = min((other for other in sizes if other > size), key=lambda other: abs(math.log2(other / size) - 1.0))
    doublings = math.log2(larger / size)
    log_gain = math.log(fps[larger] / fps[size])
    ends = gain_interval(log_gain, [cv(size), cv(larger)], confidence)
    gain, lower, upper = (math.expm1(min(log / doublings, 700.0)) for log in (log_gain, *ends))
    return Step(num_envs=size, to_num_envs=larger, gain=gain, gain_lower=lower, gain_upper=upper)
