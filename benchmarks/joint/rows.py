"""The rows of the table: landscapes, noises and plans. Each runs by itself, in parts that other processes can take."""

import math
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.joint import landscapes
from benchmarks.joint.counts import Counting, Tally, limit_of
from benchmarks.joint.handed import AXES
from benchmarks.joint.landscapes import (
    Axis,
    Deviating,
    Landscape,
    as_handed,
    at_place,
    cliffs,
    everywhere,
    saturating,
    valley,
)
from benchmarks.joint.noises import Noise
from benchmarks.joint.studies import Plan, simulate

DELTAS = (0.25, 0.10)
"""Each answer is given at both."""

PART = 125
"""Studies of a part of a row."""

SECONDS = Noise(0.29)
"""Seeds of learning on a GPU."""


@dataclass(frozen=True)
class Row:
    """Studies whose truth is known."""

    name: str
    landscape: Landscape
    noise: Noise = SECONDS
    plan: Plan = Plan()
    in_scope: bool = True
    """False where a row breaks an assumption on purpose."""

    def part(self, number: int, studies: int, seed: int) -> Tally:
        """Return the counts of a part; the same numbers for the same arguments, processor time apart."""
        # Noise of a part's own: adding a row, or more parts, changes no other.
        generator = np.random.default_rng([seed, zlib.crc32(self.name.encode()), number])
        counting, start = Counting(), time.process_time()
        for _ in range(studies):
            costs = self.landscape(generator)
            simulated = simulate(self.plan, costs, self.noise, DELTAS, generator)
            counting.study(simulated, costs + self.noise.mean, self.plan.kind)
        return counting.tally(time.process_time() - start)


LIMITS = {delta: limit_of(delta, "learning") for delta in DELTAS}
AXIS_NAMES: Sequence[Axis] = ("num_envs", "horizon")


def plain() -> Iterator[Row]:
    """Yield rows of doublings that save exactly delta, one place at a time and all at once."""
    for delta, log_limit in LIMITS.items():
        for axis in AXIS_NAMES:
            yield Row(f"{axis} at {delta:.0%}", everywhere(axis, log_limit))
            for place in range(landscapes.doublings(axis)):
                yield Row(f"{axis} at {delta:.0%} from {AXES[axis][place]}", at_place(axis, log_limit, place))


def hard() -> Iterator[Row]:
    """Yield rows of landscapes and seeds unlike the model's, where every doubling of num_envs saves exactly delta."""
    kinds: Sequence[tuple[str, Landscape, Noise, bool]] = (
        ("cliffs", cliffs, SECONDS, False),
        ("deviations of 10% over 3 octaves", Deviating(valley, 0.1, 3.0), SECONDS, True),
        ("deviations of 30% over 3 octaves", Deviating(valley, 0.3, 3.0), SECONDS, True),
        ("deviations of 10% over 0.7 octaves", Deviating(valley, 0.1, 0.7), SECONDS, False),
        ("deviations of 30% over 0.7 octaves", Deviating(valley, 0.3, 0.7), SECONDS, False),
        ("noise falls with num_envs", valley, Noise(0.29, per_octave=-0.25), True),
        ("noise grows with num_envs", valley, Noise(0.29, per_octave=0.25), True),
        ("two humps", valley, Noise(0.15, slow_share=1 / 3, slow_log=0.8), True),
        ("one seed in ten stuck", valley, Noise(0.25, slow_share=0.1, slow_log=2.0, budget_times=5.0), False),
        ("budget of 3 times the best", valley, Noise(0.29, budget_times=3.0), True),
        ("much noise", valley, Noise(0.5), True),
    )
    for delta, log_limit in LIMITS.items():
        for what, landscape, noise, in_scope in kinds:
            whole = everywhere("num_envs", log_limit, landscape)
            yield Row(f"num_envs at {delta:.0%}, {what}", whole, noise, in_scope=in_scope)


def plans() -> Iterator[Row]:
    """Yield rows of other plans."""
    whole = everywhere("num_envs", LIMITS[0.25])
    yield Row("num_envs at 25%, 5 settings x 3 seeds", whole, plan=Plan(settings=5, seeds=3))
    yield Row("num_envs at 25%, 12 settings x 8 seeds", whole, plan=Plan(settings=12))
    yield Row("num_envs at 25%, 4 settings x 8 seeds", whole, plan=Plan(settings=4))
    yield Row("num_envs at 25%, 8 seeds, 13 while undecided", whole, plan=Plan(more_seeds=5))
    smooth = Deviating(valley, 0.1, 3.0)
    searches: Sequence[tuple[str, Landscape, bool]] = (
        ("the data's own fit", as_handed, True),
        ("num_envs at 25%", whole, True),
        ("num_envs at 10%", everywhere("num_envs", LIMITS[0.10]), True),
        ("num_envs at 25%, deviations of 10% over 3 octaves", everywhere("num_envs", LIMITS[0.25], smooth), True),
        ("num_envs at 25%, cliffs", everywhere("num_envs", LIMITS[0.25], cliffs), False),
    )
    for what, landscape, in_scope in searches:
        yield Row(f"profile: {what}", landscape, plan=Plan(search="profile"), in_scope=in_scope)


def throughput() -> Iterator[Row]:
    """Yield rows of FPS, whose noise is a tenth of that of seconds."""
    fps, plan, limit = Noise(0.02), Plan(kind="throughput"), limit_of(0.10, "throughput")
    at_delta = everywhere("num_envs", limit, saturating)
    rough = everywhere("num_envs", limit, Deviating(saturating, 0.03, 0.7))
    yield Row("FPS: saturating", saturating, fps, plan)
    yield Row("FPS: num_envs at 25%", everywhere("num_envs", limit_of(0.25, "throughput"), saturating), fps, plan)
    yield Row("FPS: num_envs at 10%", at_delta, fps, plan)
    yield Row("FPS: horizon at 10%", everywhere("horizon", limit, saturating), fps, plan)
    for what, noise in (("1% of noise", Noise(0.01)), ("3% of noise", Noise(0.03))):
        yield Row(f"FPS: num_envs at 10%, {what}", at_delta, noise, plan)
    yield Row("FPS: num_envs at 10%, noise falls with num_envs", at_delta, Noise(0.02, per_octave=-0.4), plan)
    one = Plan(kind="throughput", one_process=True)
    few = Plan(kind="throughput", one_process=True, settings=4, seeds=4)
    processes: Sequence[tuple[str, Noise, Plan]] = (
        ("", Noise(0.02), one),
        (" that deviates by 5%", Noise(0.02, of_process=0.05), one),
        (" that deviates by 5%, 4 settings x 4", Noise(0.02, of_process=0.05), few),
        (" that deviates by 5%, noise falls with num_envs", Noise(0.02, per_octave=-0.4, of_process=0.05), one),
    )
    for what, noise, of_rounds in processes:
        # The model takes what a round shares for noise of single repeats.
        yield Row(
            f"FPS: num_envs at 10%, a process for each round{what}", at_delta, noise, of_rounds, noise.of_process == 0.0
        )
    yield Row("FPS: num_envs at 10%, deviations of 3% over 0.7 octaves", rough, fps, plan, in_scope=False)
    kinked = everywhere("num_envs", limit, valley)
    yield Row("FPS: num_envs at 10%, a valley with a kink", kinked, fps, plan, in_scope=False)


ROWS: Mapping[str, Row] = {
    row.name: row for row in (Row("the data's own fit", as_handed), *plain(), *hard(), *plans(), *throughput())
}
"""In the order of the table."""


def parts(studies: int, size: int = PART) -> list[tuple[int, int]]:
    """Return number and size of each part of so many studies."""
    return [(number, min(size, studies - number * size)) for number in range(math.ceil(studies / size))]
