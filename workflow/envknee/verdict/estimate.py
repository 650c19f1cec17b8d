"""The best estimate of a throughput limit without repeats. It is called an estimate, never "reached". Pure.

Input: one FPS for each num_envs, and their assumed noise. Output: an `Estimate`.

Sizes may have any ratio. A step goes from each num_envs to the larger one whose ratio is nearest to 2, and its gain is per doubling. The
estimate is the smallest num_envs from which a doubling gains less than delta.
"""

import math
from collections.abc import Callable, Mapping, Sequence

from envknee.verdict.noise import gain_interval
from envknee.verdict.schema.table import Estimate, Rounded, Step
from envknee.verdict.schema.throughput import Law

SUPERLINEAR = 1.15
"""Gain of a doubling, with room for noise, above which FPS are not throughput: twice the environments cannot make more than twice."""

COARSE = 0.05
"""Half of a rounding step, as a share of FPS, from which it alone may leave an estimate undecided. Finer steps widen intervals."""


def estimate(
    fps: Mapping[int, float],
    cv: Callable[[int], float],
    delta: float,
    confidence: float,
    law: Law | None,
    assumed_cv: float | None = None,
    rounding: Mapping[int, float] | None = None,
) -> Estimate | None:
    """Return the best estimate, or None with fewer than two num_envs.

    `cv` returns the coefficient of variation of FPS at a num_envs. `assumed_cv` is the user's, if `cv` comes from it.
    `rounding` is half of the step to which FPS are rounded, as a share of them, by num_envs.
    """
    rounding = rounding or {}
    sizes = sorted(fps)
    if len(sizes) < 2:
        return None

    def noise(num_envs: int) -> float:
        return math.hypot(cv(num_envs), rounding.get(num_envs, 0.0) / math.sqrt(3.0))

    steps = [_step(size, sizes, fps, noise, confidence) for size in sizes[:-1]]
    below = [step for step in steps if step.gain < delta]
    dips = [
        b
        for a, b, c in zip(sizes, sizes[1:], sizes[2:], strict=False)
        if fps[b] < min(fps[a], fps[c] / (1.0 + delta / 2.0))
    ]
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
    _, most = gain_interval(math.log(fps[last] / fps[peak]), [noise(peak), noise(last)], confidence)
    # From there on FPS fall by more than the assumed noise, and stay lower.
    falls_beyond = peak if most < 0.0 else None
    after_fall = [step for step in steps if falls_beyond is not None and step.num_envs > falls_beyond]
    is_flat = bool(after_fall) and all(abs(step.gain) < delta / 2.0 for step in after_fall)
    last_step = steps[-1]
    return Estimate(
        num_envs=below[0].num_envs if below else None,
        lowest=next((step.num_envs for step in steps if step.gain_lower < delta), None),
        highest=next((step.num_envs for step in steps if step.gain_upper < delta), None),
        by_law=by_law,
        steps=steps,
        dips=dips,
        jumps=jumps,
        falls_beyond=falls_beyond,
        is_near=not below and last_step.gain_lower < delta and last_step.gain < 1.5 * delta,
        flat_from=after_fall[0].num_envs if is_flat else None,
        superlinear=[step.num_envs for step in steps if step.gain > SUPERLINEAR],
        rounded=_rounded(steps, rounding, delta),
        assumed_cv=assumed_cv,
    )


def _rounded(steps: Sequence[Step], rounding: Mapping[int, float], delta: float) -> Rounded | None:
    """Return the coarser size of the step that decides, if rounding alone may put its gain on the other side of delta."""
    step = next((step for step in steps if step.gain < delta), steps[-1])
    ends = (step.num_envs, step.to_num_envs)
    most = sum(-math.log1p(-min(rounding.get(size, 0.0), 0.9)) for size in ends)
    doublings = math.log2(step.to_num_envs / step.num_envs)
    if abs(math.log1p(step.gain) - math.log1p(delta)) * doublings > most:
        return None
    if max(rounding.get(end, 0.0) for end in ends) < COARSE:
        return None
    size = max(ends, key=lambda size: rounding.get(size, 0.0))
    return (
        Rounded(num_envs=size, share=rounding[size], largest_share=max(rounding.values()))
        if rounding.get(size)
        else None
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
