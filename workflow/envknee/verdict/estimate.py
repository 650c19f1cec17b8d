"""The best estimate of a throughput limit without repeats. It is called an estimate, never "reached". Pure.

Input: one FPS for each num_envs, and their assumed noise. Output: an `Estimate`.

Sizes may have any ratio. A step goes from each num_envs to the larger one whose ratio is nearest to 2, and its gain is per doubling. The
estimate is the smallest num_envs from which a doubling gains less than delta.
"""

import math
from collections.abc import Callable, Mapping, Sequence

from envknee.record.schema import Frozen
from envknee.verdict.noise import gain_interval
from envknee.verdict.schema.throughput import Law
from envknee.words.numbers import listed, percent


class Step(Frozen):
    """Gain of FPS from one num_envs to a larger one, per doubling: 0.25 is 25%."""

    num_envs: int
    to_num_envs: int
    gain: float
    gain_lower: float
    """Two-sided interval, with the assumed noise."""
    gain_upper: float


class Estimate(Frozen):
    """The best estimate of a throughput limit."""

    num_envs: int | None
    """The smallest measured num_envs from which a doubling gains less than delta; None: it still gains at the largest."""
    lowest: int | None
    """Smallest num_envs that the limit may have, with the assumed noise."""
    highest: int | None
    """Largest num_envs that the limit may have; None: no upper end."""
    by_law: float | None
    """The limit by the law t0 + c N; None if no law fits."""
    steps: list[Step]
    dips: list[int]
    """num_envs with FPS below both neighbours'."""
    jumps: list[int]
    """num_envs from which FPS gain more than in the step before, by more than noise, after a step below delta."""
    noise: str
    """The assumed noise, in words."""
    statement: str


def estimate(
    fps: Mapping[int, float], cv: Callable[[int], float], noise: str, delta: float, confidence: float, law: Law | None
) -> Estimate | None:
    """Return the best estimate, or None with fewer than two num_envs.

    `cv` returns the coefficient of variation of FPS at a num_envs, and `noise` is its source in words.
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
        noise=noise,
        statement=_statement(steps, below[0] if below else None, falls_beyond, jumps),
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


def _statement(steps: Sequence[Step], best: Step | None, falls_beyond: int | None, jumps: Sequence[int]) -> str:
    if best is None:
        return f"still gaining {percent(steps[-1].gain, 0)} a doubling at {steps[-1].to_num_envs:,}, the largest size"
    said = [f"a doubling gains {percent(best.gain)}" if best.gain >= 0.0 else f"a doubling loses {percent(-best.gain)}"]
    if falls_beyond is not None:
        said.append(f"FPS fall beyond {falls_beyond:,}")
    if jumps:
        again = [step for step in steps if step.num_envs in jumps]
        said.append(f"doubling {listed(jumps)} gains {' and '.join(percent(step.gain, 0) for step in again)} again")
    return f"estimate: {best.num_envs:,} environments ({'; '.join(said)})"
