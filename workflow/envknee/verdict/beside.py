"""Two series of plain FPS side by side: ratios at equal sizes, and what more GPUs bring. Works without records. Pure.

With two repeats or more on both sides, the interval is Welch's t on ln FPS; otherwise the noise between processes is assumed.
"""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence

from envknee.verdict.noise import gain_interval
from envknee.verdict.rule.contrasts import of_levels
from envknee.verdict.rule.doublings import Level, interval
from envknee.verdict.schema.table import Beside, GpuEfficiency, GpuScaling, SizeRatio

Fps = Mapping[int, Sequence[float]]
"""FPS of each repeat, by num_envs."""


def beside(
    first: str,
    second: str,
    a: Fps,
    b: Fps,
    failed: tuple[Sequence[int], Sequence[int]],
    cv: Callable[[int], float],
    confidence: float,
) -> Beside:
    """Return FPS of `b` over those of `a` at every size that both have. `failed` are sizes that did not fit there."""
    return Beside(
        first=first,
        second=second,
        sizes=[_ratio(size, a[size], b[size], cv(size), confidence) for size in sorted(a.keys() & b.keys())],
        only_first=sorted(a.keys() - b.keys()),
        only_second=sorted(b.keys() - a.keys()),
        failed_first=sorted(failed[0]),
        failed_second=sorted(failed[1]),
    )


def scaling(
    labels: tuple[tuple[str, str], ...], by_gpus: Mapping[int, Fps], cv: Callable[[int], float], confidence: float
) -> GpuScaling | None:
    """Return the efficiency of every number of GPUs against the smallest, at equal sizes on each; None without a common size."""
    base, *more = sorted(by_gpus)
    points = []
    for gpus in more:
        for size in sorted(by_gpus[base].keys() & by_gpus[gpus].keys()):
            ratio = _ratio(size, by_gpus[base][size], by_gpus[gpus][size], cv(size), confidence)
            share = base / gpus
            points.append(
                GpuEfficiency(
                    gpus=gpus, num_envs=size, efficiency=ratio.ratio * share,
                    efficiency_lower=ratio.ratio_lower * share, efficiency_upper=ratio.ratio_upper * share,
                )
            )  # fmt: skip
    return GpuScaling(labels=labels, base_gpus=base, points=points) if points else None


def _ratio(num_envs: int, a: Sequence[float], b: Sequence[float], cv: float, confidence: float) -> SizeRatio:
    change = of_levels(num_envs, Level.of(a), Level.of(b))
    lower, upper = interval(change.log_gain, change.variance, change.degrees, confidence)
    if lower is None or upper is None:
        ends = gain_interval(change.log_gain, [cv / math.sqrt(len(a)), cv / math.sqrt(len(b))], confidence)
        lower, upper = (math.exp(end) for end in ends)
    ratio = statistics.geometric_mean(b) / statistics.geometric_mean(a)
    return SizeRatio(num_envs=num_envs, ratio=ratio, ratio_lower=lower, ratio_upper=upper, repeats=change.repeats)
