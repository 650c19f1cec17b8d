"""The gain of one doubling, within statistical blocks: machines, and processes that measured several sizes. Pure.

Input: ln(value) of each repeat at N and at 2N, by block. Output: a `Contrast`.

A block with only one end says nothing about a gain. Its repeats are left out, so that a machine's effect never looks like an effect of
num_envs. Blocks with both ends give differences d_j, combined with weights n1 n2 / (n1 + n2), the inverse variances for equal noise. The
weights do not depend on the values, so the variance of the sum is exact, with Welch-Satterthwaite degrees of freedom:

    several repeats of an end within machines   that end's variance is pooled over the machines
    one repeat of each end on each machine      paired t on the d_j, k - 1 degrees
    processes with both ends (`Process`)        paired t on the d_j, k - 1 degrees; repeats within a process are averaged first

Where other processes took CPU time that varies, gains are those beside the least load (`rule.loads`).

A process has one d_j, however often it measured an end: its repeats share the process's own effect, which a variance within the process
would miss.
"""

import math
import statistics
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

from scipy.special import fdtrc

from envknee.verdict.rule.doublings import Level, summed
from envknee.verdict.rule.loads import LEAST_LOADED, Corrected, columns, corrected, is_calm, vary
from envknee.verdict.rule.schedule import LEAST_REPEATS

DISAGREE = 0.05
"""Machines disagree about a gain at this p-value or below. Then each must show that it is below the limit (`union`)."""

FEWEST_PAIRED = 2
"""Fewest processes with both ends for a paired t; a single one counts as one repeat of its machine."""


@dataclass(frozen=True)
class Process:
    """A block: one process that measured several sizes one after the other, on one machine."""

    machine: Hashable
    number: int


Blocks = Mapping[Hashable, Sequence[float]]
"""Block -> ln(value) of its repeats at one num_envs. A block other than a `Process` is a machine."""


@dataclass(frozen=True)
class Contrast:
    """ln(value at 2N) - ln(value at N), with its variance."""

    num_envs: int
    log_gain: float
    variance: float | None
    """Variance of `log_gain`; None if unknown."""
    degrees: float
    repeats: int
    """Repeats of the end with fewer, in blocks with both ends."""
    blocks: int = 1
    """Machines with both ends; 0: none, and `log_gain` may be an effect of the machines."""
    disagreement: float | None = None
    """p-value of the hypothesis that all machines gain the same; None with one machine."""
    parts: tuple["Contrast", ...] = ()
    """Each machine's own contrast, if they disagree."""
    processes: int = 0
    """Processes with both ends, compared in pairs; `repeats` includes them."""
    decides: bool = True
    """Whether a decision is allowed; too many censored seeds forbid it, or too few repeats beside a load that varies."""
    least_repeats: int = LEAST_REPEATS
    """Fewest repeats with which a decision is allowed."""
    loaded: bool = False
    """Whether the load of other processes varied, so that the gain is that beside the least one."""
    of_calm: bool = False
    """With `loaded`, whether there were too few repeats to correct, so that only those beside little load tell the gain."""
    margin: float = 0.0
    """What `log_gain` may be off by in either direction, however many repeats there are: added to every bound."""


def of_levels(num_envs: int, smaller: Level, larger: Level) -> Contrast:
    """Return the contrast of two levels without blocks: Welch's t."""
    log_gain, repeats = larger.log_value - smaller.log_value, (smaller.repeats, larger.repeats)
    if smaller.variance is None or larger.variance is None:
        return Contrast(num_envs, log_gain, None, math.nan, min(repeats))
    noise = summed((smaller.variance, larger.variance), [count - 1 for count in repeats])
    return Contrast(num_envs, log_gain, *noise, min(repeats))


def within_blocks(
    num_envs: int, smaller: Blocks, larger: Blocks, step: float = 0.0, loads: tuple[Blocks, Blocks] | None = None
) -> Contrast:
    """Return the gain of doubling within processes, and within machines for the other trials.

    `step` is the step to which all values are rounded; a variance is at least that of rounding. `loads` has the cores that others took
    during each repeat of either end, in the order of the values; None: unknown of some, and taken as noise.
    """
    both = [block for block in smaller if isinstance(block, Process) and block in larger]
    if len(both) < FEWEST_PAIRED:
        both = []
    machines = [_machines(end, both) for end in (smaller, larger)]
    least = _least_of_varying(loads)
    beside = None if loads is None or least is None else [_machines(end, both) for end in loads]
    common = [machine for machine in machines[0] if machine in machines[1]]

    def of_fresh() -> Contrast:
        if beside is None or least is None or not common:
            return _within_machines(num_envs, machines[0], machines[1], step)
        return _fresh_beside_load(num_envs, machines, beside, step, least)

    if not both:
        return of_fresh()
    gains = {block: statistics.fmean(larger[block]) - statistics.fmean(smaller[block]) for block in both}
    if loads is None or least is None:
        paired = _paired(num_envs, gains)
    else:
        ends = [[statistics.fmean(end[block]) for block in both] for end in loads]
        paired = _paired_beside_load(num_envs, gains, ends, least)
    alone = of_fresh() if common else None
    if alone is None or alone.variance is None:
        return paired
    weight = sum(_weight(machines[0][machine], machines[1][machine]) for machine in common)
    blocks = {*common} | {block.machine for block in both}
    return _together(paired, len(both) / 2, alone, weight, len(blocks))


def _least_of_varying(loads: tuple[Blocks, Blocks] | None) -> float | None:
    """Return the least load of a doubling's trials, if loads vary."""
    every = [load for end in loads or () for own in end.values() for load in own]
    return min(every) if every and vary(every) else None


def _paired_beside_load(
    num_envs: int, gains: Mapping[Process, float], ends: Sequence[Sequence[float]], least: float
) -> Contrast:
    """Return the paired t of the processes' gains beside the least load. `ends` has the load at each end, in the order of the gains."""
    slopes = columns(ends, least)
    mean = None
    if len(gains) >= LEAST_LOADED and slopes is not None:
        mean = corrected(list(gains.values()), slopes)
    if slopes is None or mean is None:
        calm = {
            process: gain
            for (process, gain), loads in zip(gains.items(), zip(*ends, strict=True), strict=True)
            if is_calm(max(loads), least)
        }
        return _of_calm(_paired(num_envs, calm) if len(calm) >= LEAST_REPEATS else None, _paired(num_envs, gains))
    # Machines are compared by what is left without the load, which has fewer degrees of freedom.
    of_machines = _paired(num_envs, dict(zip(gains, mean.values, strict=True)), lost=len(slopes))
    return replace(of_machines, log_gain=mean.mean, variance=mean.variance, degrees=mean.degrees, loaded=True)


def _fresh_beside_load(
    num_envs: int, ends: Sequence[Blocks], beside: Sequence[Blocks], step: float, least: float
) -> Contrast:
    """Return the gain of fresh trials beside the least load: each end corrected for its own, where one machine has enough repeats."""
    everything = _within_machines(num_envs, ends[0], ends[1], step)
    common = [machine for machine in ends[0] if machine in ends[1]]
    levels: list[Corrected] = []
    if len(common) == 1 and everything.repeats >= LEAST_LOADED:
        for end, loads in zip(ends, beside, strict=True):
            slopes = columns([loads[common[0]]], least)
            level = None if slopes is None else corrected(end[common[0]], slopes)
            levels += [] if level is None else [level]
    if len(levels) == 2:
        variance, degrees = summed([level.variance for level in levels], [level.degrees for level in levels])
        gain = levels[1].mean - levels[0].mean
        return replace(everything, log_gain=gain, variance=variance, degrees=degrees, loaded=True)
    smaller, larger = (_calm(end, loads, least) for end, loads in zip(ends, beside, strict=True))
    of_calm = None
    if set(smaller) & set(larger):
        of_calm = _within_machines(num_envs, smaller, larger, step)
    enough = of_calm is not None and of_calm.variance is not None and of_calm.repeats >= LEAST_REPEATS
    return _of_calm(of_calm if enough else None, everything)


def _calm(end: Blocks, loads: Blocks, least: float) -> dict[Hashable, list[float]]:
    """Return an end's logarithms of the trials beside little load, without the machines that have none."""
    calm = {
        machine: [log for log, load in zip(logs, loads[machine], strict=True) if is_calm(load, least)]
        for machine, logs in end.items()
    }
    return {machine: logs for machine, logs in calm.items() if logs}


def _of_calm(calm: Contrast | None, everything: Contrast) -> Contrast:
    """Return the contrast of the calm repeats, which may decide, or else of all, which may not."""
    if calm is None:
        return replace(everything, loaded=True, decides=False, least_repeats=LEAST_LOADED)
    return replace(calm, loaded=True, of_calm=True)


def by_block(values: Sequence[float], blocks: Sequence[Hashable] | None) -> dict[Hashable, list[float]]:
    """Return block -> ln(value) of its repeats, each value above 0; without blocks, all are of one machine."""
    logs: dict[Hashable, list[float]] = {}
    for value, block in zip(values, [None] * len(values) if blocks is None else blocks, strict=True):
        logs.setdefault(block, []).append(math.log(value))
    return logs


def loads_by_block(loads: Sequence[float], blocks: Sequence[Hashable] | None) -> dict[Hashable, list[float]]:
    """Return block -> the cores that others took during each of its repeats, in the order of `by_block`."""
    grouped: dict[Hashable, list[float]] = {}
    for load, block in zip(loads, [None] * len(loads) if blocks is None else blocks, strict=True):
        grouped.setdefault(block, []).append(load)
    return grouped


def independent(values: Sequence[float], blocks: Sequence[Hashable]) -> list[float]:
    """Return one value (above 0) per process: the geometric mean of its measurements at this num_envs."""
    by_process: dict[Hashable, list[float]] = {}
    for place, (value, block) in enumerate(zip(values, blocks, strict=True)):
        by_process.setdefault(block if isinstance(block, Process) else place, []).append(value)
    return [own[0] if len(own) == 1 else statistics.geometric_mean(own) for own in by_process.values()]


def _machines(end: Blocks, without: Sequence[Process]) -> dict[Hashable, list[float]]:
    """Return machine -> logarithms, in which a process is one repeat of its machine."""
    by_machine: dict[Hashable, list[float]] = {}
    for block, logs in end.items():
        if not isinstance(block, Process):
            by_machine.setdefault(block, []).extend(logs)
        elif block not in without:
            by_machine.setdefault(block.machine, []).append(statistics.fmean(logs))
    return by_machine


def _weight(smaller: Sequence[float], larger: Sequence[float]) -> float:
    """Return the inverse of the variance of a difference of means, in units of one repeat's."""
    return len(smaller) * len(larger) / (len(smaller) + len(larger))


def _paired(num_envs: int, gains: Mapping[Process, float], lost: int = 0) -> Contrast:
    """Return the paired t of the processes' gains, with a test whether their machines agree; `lost` degrees of freedom were used up."""
    count, mean = len(gains), statistics.fmean(gains.values())
    variance = statistics.variance(gains.values()) / count
    by_machine: dict[Hashable, list[float]] = {}
    for process, gain in gains.items():
        by_machine.setdefault(process.machine, []).append(gain)
    machines, free = len(by_machine), count - len(by_machine) - lost
    disagreement, parts = None, ()
    if machines > 1 and free > 0:
        means = [statistics.fmean(own) for own in by_machine.values()]
        within = sum((gain - own) ** 2 for own, gains in zip(means, by_machine.values(), strict=True) for gain in gains)
        disagreement, parts = _apart(
            [
                Contrast(num_envs, own, within / free / len(gains), free, len(gains), processes=len(gains))
                for own, gains in zip(means, by_machine.values(), strict=True)
            ]
        )
    return Contrast(num_envs, mean, variance, count - 1, count, machines, disagreement, parts, processes=count)


def _together(paired: Contrast, weight: float, alone: Contrast, weight_alone: float, machines: int) -> Contrast:
    """Return the combined contrast, with weights that do not depend on the values."""
    assert paired.variance is not None and alone.variance is not None
    whole = weight + weight_alone
    shares = [(weight / whole) ** 2 * paired.variance, (weight_alone / whole) ** 2 * alone.variance]
    p_values = [p for p in (paired.disagreement, alone.disagreement) if p is not None]
    return Contrast(
        paired.num_envs,
        (weight * paired.log_gain + weight_alone * alone.log_gain) / whole,
        *summed(shares, (paired.degrees, alone.degrees)),
        paired.repeats + alone.repeats,
        machines,
        min(p_values, default=None),
        (*paired.parts, *alone.parts),
        processes=paired.processes,
        decides=paired.decides and alone.decides,
        least_repeats=max(paired.least_repeats, alone.least_repeats),
        loaded=paired.loaded or alone.loaded,
        of_calm=paired.of_calm or alone.of_calm,
    )


def _within_machines(num_envs: int, smaller: Blocks, larger: Blocks, step: float) -> Contrast:
    """Return the gain of doubling within machines, whose repeats are independent."""
    common = [block for block in smaller if block in larger]
    if not common:
        means = [statistics.fmean(value for values in end.values() for value in values) for end in (smaller, larger)]
        fewest = min(sum(map(len, end.values())) for end in (smaller, larger))
        return Contrast(num_envs, means[1] - means[0], None, math.nan, fewest, blocks=0)
    ends = [[end[block] for block in common] for end in (smaller, larger)]
    if len(common) == 1:
        levels = [Level.of([math.exp(log) for log in end[0]], step) for end in ends]
        return of_levels(num_envs, levels[0], levels[1])
    gains = [statistics.fmean(b) - statistics.fmean(a) for a, b in zip(*ends, strict=True)]
    weights = [_weight(a, b) for a, b in zip(*ends, strict=True)]
    whole = sum(weights)
    log_gain = sum(weight * gain for weight, gain in zip(weights, gains, strict=True)) / whole
    free = [sum(len(values) - 1 for values in end) for end in ends]
    repeats = min(sum(map(len, end)) for end in ends)
    if min(free) == 0:
        squares = sum(weight * (gain - log_gain) ** 2 for weight, gain in zip(weights, gains, strict=True))
        degrees = len(common) - 1
        return Contrast(num_envs, log_gain, squares / degrees / whole, degrees, repeats, blocks=len(common))
    pooled = [_pooled(end, degrees, step) for end, degrees in zip(ends, free, strict=True)]
    shares = [
        variance * sum((weight / whole) ** 2 / len(values) for weight, values in zip(weights, end, strict=True))
        for variance, end in zip(pooled, ends, strict=True)
    ]
    variance, degrees = summed(shares, free)
    disagreement, parts = _apart(
        [
            Contrast(num_envs, gain, pooled[0] / len(a) + pooled[1] / len(b), degrees, min(len(a), len(b)))
            for gain, a, b in zip(gains, *ends, strict=True)
        ]
    )
    return Contrast(num_envs, log_gain, variance, degrees, repeats, len(common), disagreement, parts)


def _pooled(end: Sequence[Sequence[float]], degrees: int, step: float) -> float:
    """Return the variance of single repeats within blocks, at least that of rounding."""
    squares = sum((value - statistics.fmean(values)) ** 2 for values in end for value in values)
    largest_step = max(step / math.exp(statistics.fmean(values)) for values in end)
    return max(squares / degrees, largest_step**2 / 12)


def _apart(machines: Sequence[Contrast]) -> tuple[float | None, tuple[Contrast, ...]]:
    """Return the p-value of Cochran's Q, as an F with the degrees of freedom of the noise, and `machines` if they disagree.

    The p-value is None without noise.
    """
    weights = [1.0 / own.variance for own in machines if own.variance]
    if len(weights) < len(machines):
        return None, ()
    gains, degrees, free = [own.log_gain for own in machines], machines[0].degrees, len(machines) - 1
    mean = sum(weight * gain for weight, gain in zip(weights, gains, strict=True)) / sum(weights)
    q = sum(weight * (gain - mean) ** 2 for weight, gain in zip(weights, gains, strict=True))
    p_value = float(fdtrc(free, degrees, q / free))
    return p_value, tuple(machines) if p_value <= DISAGREE else ()
