"""How often the limits are right: simulated studies whose truth is known, through the code that decides real ones.

Input: scenarios (below) and a seed. Output: a table of how often each promise was kept, and the time of a verdict.

    python -m envknee prove                                    2,000 studies per scenario: an hour of one core; it uses all
    python -m envknee prove --studies 200 --output proof.md    fewer, and into a file (.md or .json)
    python -m envknee prove --output docs/verdicts.md          into a page that has a place for the table

Promised: at most 5% of studies say "reached" where one more doubling truly pays, and 95% intervals cover the truth in at least
93% of cases. Many scenarios lie at the very limit, so a share counts as missed where chance in as many studies does not explain it.
`in_scope` is False where a scenario breaks an assumption on purpose: shown, so that a reader knows the price.
"""

import argparse
import itertools
import math
import os
import time
import zlib
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from envknee.ask import economy, search
from envknee.base.parts import parts_of
from envknee.base.point import Point
from envknee.record.schema import Frozen
from envknee.run import quiet
from envknee.study.designs import williams
from envknee.study.errors import UserError, run_command
from envknee.study.files import canonical_json, write_atomically
from envknee.study.model import Decide
from envknee.study.sweep import Adaptive
from envknee.verdict import learning, memory_limit, throughput
from envknee.verdict.composed import Composition
from envknee.verdict.estimate import estimate
from envknee.verdict.learning_cost import Seeds
from envknee.verdict.memory_sample import Sample
from envknee.verdict.noise import assumed_cv
from envknee.verdict.rule import union
from envknee.verdict.rule.contrasts import Process
from envknee.verdict.rule.looks import Looked
from envknee.verdict.rule.schedule import EVERY_REPEAT, LEAST_REPEATS, Schedule, as_planned
from envknee.verdict.rule.union import Decision
from envknee.verdict.series import Series
from numpy.typing import NDArray
from rich import box
from rich.console import Console
from rich.table import Table
from scipy.stats import binom

from benchmarks import asked

LARGEST_FALSE_SHARE = 0.05
LEAST_COVERAGE = 0.93

CHANCE = 0.01
"""Below which probability of a row, were its promise just kept, the promise counts as missed."""

DELTA = 0.10
LEARNING_DELTA = 0.25
SETTINGS = Decide(delta=DELTA, delta_learning=LEARNING_DELTA, confidence=0.95)

STUDIES = 2000

LEAST_NAMED = 100
"""Studies that named a doubling, below which a share of them says little."""


class Share(Frozen):
    """How often something was so."""

    hits: int
    of: int

    @property
    def share(self) -> float:
        """Return hits / of."""
        return self.hits / self.of


Limit = Literal["throughput", "table", "learning", "memory"]


class ProofRow(Frozen):
    """What one scenario showed; None where it has no such truth."""

    limit: Limit
    scenario: str
    repeats: int
    """Repeats or seeds of each point."""
    studies: int
    in_scope: bool
    false_reached: Share | None = None
    """Studies that said "reached" at a num_envs whose doubling truly gains delta or more."""
    false_pays: Share | None = None
    """Studies that said "still pays" where the largest doubling truly gains delta or less."""
    found: Share | None = None
    """Studies that named the true threshold: not promised, but a rule that never decides would be right too."""
    gain: Share | None = None
    """Coverage of the intervals of single doublings: FPS gains, or savings of seconds to the target."""
    threshold: Share | None = None
    """Coverage of the threshold's own interval."""
    half_saturation: Share | None = None
    asymptote: Share | None = None
    wall: Share | None = None
    """Coverage of the interval of the largest num_envs, for one more trial."""
    told: Share | None = None
    """Coverage of the interval of the doubling that is named, where trials are chosen one by one."""
    trials: Share | None = None
    """Trials that `sampler: adaptive` ran, of those of the whole grid."""
    ms_per_verdict: float
    """Of processor time, so that a busy machine does not tell."""

    @property
    def missed(self) -> list[str]:
        """Which promises were not kept, beyond chance and whatever the scope."""
        return self.missed_beyond(CHANCE)

    def missed_beyond(self, chance: float) -> list[str]:
        """Return which promises were not kept, if a row of a kept one looks so with this probability at most.

        Intervals of one study lean on the same points, so there are as many independent ones as studies.
        """
        most = float(binom.ppf(1.0 - chance, self.studies, LARGEST_FALSE_SHARE)) / self.studies
        least = float(binom.ppf(chance, self.studies, LEAST_COVERAGE)) / self.studies
        falls = ("false_reached", "false_pays")
        missed = [name for name in falls if (share := getattr(self, name)) and share.share > most]
        covers = ("gain", "threshold", "half_saturation", "asymptote", "wall", "told")
        return missed + [name for name in covers if (coverage := getattr(self, name)) and coverage.share < least]


class Proof(Frozen):
    """All scenarios."""

    seed: int
    studies: int
    delta: float
    confidence: float
    largest_false_share: float = LARGEST_FALSE_SHARE
    least_coverage: float = LEAST_COVERAGE
    rows: list[ProofRow]


class Tally:
    """How often something was so in the studies of a scenario, and the processor time of their verdicts."""

    def __init__(self) -> None:
        self.hits: Counter[str] = Counter()
        self.of: Counter[str] = Counter()
        self.seconds = 0.0

    def count(self, share: str, hits: int, of: int = 1) -> None:
        """Count hits of a share, by the name of its field in `ProofRow`."""
        self.hits[share] += hits
        self.of[share] += of

    def covers(self, share: str, truth: float, lower: float | None, upper: float | None) -> None:
        """Count whether an interval covers the truth; an upper end of None is open."""
        self.count(share, lower is not None and lower <= truth <= (math.inf if upper is None else upper))

    @contextmanager
    def verdict(self) -> Iterator[None]:
        """Time what decides."""
        start = time.process_time()
        yield
        self.seconds += time.process_time() - start


@dataclass(frozen=True)
class Scenario:
    """Studies whose truth is known."""

    limit: ClassVar[Limit]
    log_delta: ClassVar[float] = math.log1p(DELTA)
    """The gain from which on a doubling pays, as a logarithm."""

    name: str
    repeats: tuple[int, ...] = field(default=(3, 5), kw_only=True)
    """Repeats or seeds of each point, a row of the table each."""
    in_scope: bool = field(default=True, kw_only=True)

    @property
    def gains(self) -> dict[int, float]:
        """True gains of every doubling measured, as logarithms, by num_envs; nothing where the truth is no threshold."""
        return {}

    @property
    def pays(self) -> dict[int, bool]:
        """Whether doubling truly pays, by num_envs."""
        return {n: gain >= self.log_delta - 1e-9 for n, gain in self.gains.items()}

    @property
    def still_paying(self) -> set[int]:
        """Every num_envs whose doubling truly pays."""
        return {num_envs for num_envs, pays in self.pays.items() if pays}

    @property
    def true_threshold(self) -> int | None:
        """The smallest num_envs measured whose doubling truly does not pay."""
        return next((num_envs for num_envs, pays in self.pays.items() if not pays), None)

    def study(self, generator: np.random.Generator, repeats: int, tally: Tally) -> None:
        """Simulate one study, decide it, and count what was right."""
        raise NotImplementedError

    def judge(self, named: int | None, tally: Tally) -> None:
        """Count whether a study named a threshold wrongly, and whether it named the true one."""
        tally.count("false_reached", named in self.still_paying)
        if self.true_threshold is not None:
            tally.count("found", named == self.true_threshold)

    def judge_gains(self, decision: Decision, tally: Tally) -> None:
        """Judge the threshold of a decision, whether it still pays, and the intervals of its doublings."""
        self.judge(decision.threshold, tally)
        if self.gains[decision.doublings[-1].num_envs] <= self.log_delta + 1e-9:
            tally.count("false_pays", decision.state == "still pays")
        for doubling in decision.doublings:
            if doubling.lower is not None and doubling.upper is not None:
                tally.covers("gain", self.gains[doubling.num_envs], doubling.lower, doubling.upper)

    def prove(self, repeats: int, studies: int, seed: int) -> ProofRow:
        """Return how often the verdicts of `studies` with `repeats` were right."""
        # Noise of a scenario's own: adding one changes no other.
        generator = np.random.default_rng([seed, zlib.crc32(self.name.encode()), repeats])
        tally = Tally()
        for _ in range(studies):
            self.study(generator, repeats, tally)
        return ProofRow(
            limit=self.limit,
            scenario=self.name,
            repeats=repeats,
            studies=studies,
            in_scope=self.in_scope,
            ms_per_verdict=1e3 * tally.seconds / studies,
            **{
                share: Share(hits=tally.hits[share], of=of)
                for share, of in tally.of.items()
                if share != "told" or of >= LEAST_NAMED
            },
        )


# --- Throughput

SIZES = [16, 32, 64, 128, 256, 512, 1024]

Noise = Callable[[np.random.Generator, int], NDArray[np.float64]]
"""(generator, repeats) -> deviations of ln FPS, shape (sizes, repeats)."""


def normal(*scales: float) -> Noise:
    """Return noise of these standard deviations, one per num_envs and over again."""
    per_size = np.resize(np.array(scales), len(SIZES))[:, None]
    return lambda generator, repeats: per_size * generator.standard_normal((len(SIZES), repeats))


def sometimes_slow(generator: np.random.Generator, repeats: int) -> NDArray[np.float64]:
    """One repeat in twelve shares the machine and loses 14%."""
    shape = (len(SIZES), repeats)
    return 0.01 * generator.standard_normal(shape) - 0.15 * (generator.random(shape) < 0.08)


def one_straggler(generator: np.random.Generator, repeats: int) -> NDArray[np.float64]:
    """One repeat of the whole study loses a quarter."""
    deviations = 0.02 * generator.standard_normal((len(SIZES), repeats))
    deviations[generator.integers(len(SIZES)), generator.integers(repeats)] += math.log(0.75)
    return deviations


def outliers(generator: np.random.Generator, repeats: int) -> NDArray[np.float64]:
    """Student's t with 3 degrees of freedom: now and then a repeat far off, on either side."""
    return 0.02 * generator.standard_t(3, size=(len(SIZES), repeats))


def slow_block(generator: np.random.Generator, repeats: int) -> NDArray[np.float64]:
    """One repeat of every num_envs runs while the machine is slow: it loses 14%."""
    deviations = 0.02 * generator.standard_normal((len(SIZES), repeats))
    deviations[:, generator.integers(repeats)] += math.log(0.86)
    return deviations


def drifting(generator: np.random.Generator, repeats: int, at_random: bool = False) -> NDArray[np.float64]:
    """The machine loses 8% over the study, which runs from the smallest num_envs to the largest, or in random order."""
    trials = len(SIZES) * repeats
    order = generator.permutation(trials) if at_random else np.arange(trials)
    deviations = 0.02 * generator.standard_normal((len(SIZES), repeats))
    return deviations - 0.08 * (order.reshape(len(SIZES), repeats) / trials)


def following(generator: np.random.Generator, repeats: int, rho: float = 0.3) -> NDArray[np.float64]:
    """Each repeat of a size resembles the one before (AR(1)): the machine drifts while a study runs."""
    deviations = generator.standard_normal((len(SIZES), repeats))
    for repeat in range(1, repeats):
        deviations[:, repeat] = rho * deviations[:, repeat - 1] + math.sqrt(1 - rho**2) * deviations[:, repeat]
    return 0.02 * deviations


def skewed(generator: np.random.Generator, repeats: int) -> NDArray[np.float64]:
    """Most repeats lose little, some lose much: an exponential, as where others use the machine now and then."""
    return -0.02 * generator.exponential(size=(len(SIZES), repeats))


Machines = Callable[[int], list[list[int]]]
"""Repeats -> machine of each repeat of each num_envs."""


def two_machines(repeats: int) -> list[list[int]]:
    """Every second repeat of each num_envs runs on another machine."""
    return [[repeat % 2 for repeat in range(repeats)] for _ in SIZES]


def own_machines(repeats: int) -> list[list[int]]:
    """Each num_envs runs on a machine of its own."""
    return [[place] * repeats for place, _ in enumerate(SIZES)]


def on(machines: Machines, apart: float) -> Noise:
    """Return 2% of noise, and machines whose speeds differ by a standard deviation of `apart`."""

    def noise(generator: np.random.Generator, repeats: int) -> NDArray[np.float64]:
        where = np.array(machines(repeats))
        speeds = apart * generator.standard_normal(where.max() + 1)
        return 0.02 * generator.standard_normal((len(SIZES), repeats)) + speeds[where]

    return noise


def disagreeing(generator: np.random.Generator, repeats: int) -> NDArray[np.float64]:
    """Two machines whose gains differ, by 3% at each num_envs."""
    where = np.array(two_machines(repeats))
    return 0.02 * generator.standard_normal(where.shape) + where * 0.03 * generator.standard_normal((len(SIZES), 1))


class Measured(NamedTuple):
    """The measurements of one study, by num_envs."""

    fps: dict[int, list[float]]
    blocks: Mapping[int, Sequence[Hashable]] | None = None
    margins: Mapping[int, float] | None = None
    """What composed FPS may be off by."""
    repeats: Mapping[int, Sequence[int]] | None = None
    """The number of each repeat; None: its place in the list."""
    loads: Mapping[int, Sequence[float]] | None = None
    """The cores that others took during each repeat."""


@dataclass(frozen=True)
class Fresh:
    """Each repeat of each size is a process of its own."""

    noise: Noise
    machines: Machines | None = None

    def measure(self, fps: Sequence[float], generator: np.random.Generator, repeats: int) -> Measured:
        """Return the measurements of one study."""
        measured = np.array(fps)[:, None] * np.exp(self.noise(generator, repeats))
        blocks = dict(zip(SIZES, self.machines(repeats), strict=True)) if self.machines else None
        return Measured(dict(zip(SIZES, measured.tolist(), strict=True)), blocks)


Order = Literal["ascending", "random", "Williams"]
ORDERS: tuple[Order, ...] = ("ascending", "random", "Williams")


@dataclass(frozen=True)
class Processes:
    """Each repeat is one process that measures all `SIZES`, one after the other, and the first of them once more at the end."""

    rho: float = 0.0
    """Share of the variance between processes that all sizes of a process have in common."""
    spread: float = 0.05
    """Standard deviation of ln FPS of a size between processes."""
    tilt: float = 0.0
    """Standard deviation between processes of what each doubling gains there beyond the truth."""
    step_cost: float = 0.0
    """What each further size costs all later ones in ln FPS: memory that fragments, a card that warms up."""
    order: Order = "random"
    machines: int = 1
    """On which processes lie by turns, with speeds 8% apart."""
    slowest: float = 0.0
    """What one process of each study loses in ln FPS at all of its sizes: it shared the machine."""
    paired: bool = True
    """False: the decision is told nothing of processes and takes all repeats as fresh ones."""

    def measure(self, fps: Sequence[float], generator: np.random.Generator, repeats: int) -> Measured:
        """Return the measurements of one study."""
        measured: dict[int, list[float]] = {size: [] for size in SIZES}
        blocks: dict[int, list[Hashable]] = {size: [] for size in SIZES}
        numbers: dict[int, list[int]] = {size: [] for size in SIZES}
        speeds = 0.08 * generator.standard_normal(self.machines) if self.machines > 1 else np.zeros(1)
        slow = int(generator.integers(repeats)) if self.slowest else None
        for number, order in enumerate(orders(self.order, repeats, generator)):
            machine = number % self.machines
            own = self.spread * math.sqrt(self.rho) * generator.standard_normal() + speeds[machine]
            own -= self.slowest * (number == slow)
            tilt = self.tilt * generator.standard_normal()
            for position, place in enumerate([*order, order[0]]):
                noise = self.spread * math.sqrt(1.0 - self.rho) * generator.standard_normal()
                log = own + tilt * place + noise - self.step_cost * position
                measured[SIZES[place]].append(fps[place] * math.exp(log))
                blocks[SIZES[place]].append(Process(machine, number) if self.paired else machine)
                numbers[SIZES[place]].append(number)
        return Measured(measured, blocks, repeats=numbers)


@dataclass(frozen=True)
class Beside:
    """Somebody else's program comes and goes while a study runs, and takes a core, more or less, from the trials beside it.

    Each repeat measures all `SIZES` in random order, in one process or in fresh ones.
    """

    costs: Sequence[float]
    """What a core costs each of `SIZES` in ln FPS."""
    share: float = 0.45
    """Of the time that the other program runs."""
    trials: float = 6.0
    """For which it runs at a time, in the mean."""
    waits: bool = False
    """Whether trials wait for it, as `run.quiet` does."""
    in_processes: bool = True
    spread: float = 0.05
    rho: float = 0.5
    """Share of the variance that all sizes of a process have in common."""

    def measure(self, fps: Sequence[float], generator: np.random.Generator, repeats: int) -> Measured:
        """Return the measurements of one study."""
        measured: dict[int, list[float]] = {size: [] for size in SIZES}
        loads: dict[int, list[float]] = {size: [] for size in SIZES}
        runs, waited = generator.random() < self.share, 0.0

        def go_on(length: float) -> None:
            """Let a part of a trial's length pass."""
            nonlocal runs
            ends, begins = 1.0 / self.trials, self.share / (1.0 - self.share) / self.trials
            if generator.random() < length * (ends if runs else begins):
                runs = not runs

        for repeat in range(repeats):
            of_process = self.spread * math.sqrt(self.rho) * generator.standard_normal() if self.in_processes else 0.0
            of_trial = self.spread * math.sqrt(1.0 - self.rho if self.in_processes else 1.0)
            for position, place in enumerate(generator.permutation(len(SIZES)).tolist()):
                done = repeat * len(SIZES) + position
                left = min(quiet.LONGEST, quiet.SHARE * done - waited) if self.waits else 0.0
                while runs and left >= WAIT_STEP:
                    go_on(WAIT_STEP)
                    left, waited = left - WAIT_STEP, waited + WAIT_STEP
                load = abs(0.03 * generator.standard_normal()) + runs * (1.0 + 0.15 * generator.standard_normal())
                # What a core costs is not quite the same each time.
                cost = self.costs[place] * load * (1.0 + 0.2 * generator.standard_normal())
                log = of_process + of_trial * generator.standard_normal() - cost
                measured[SIZES[place]].append(fps[place] * math.exp(log))
                loads[SIZES[place]].append(load)
                go_on(1.0)
        processes: dict[int, list[Hashable]] = {
            size: [Process(0, number) for number in range(repeats)] for size in SIZES
        }
        return Measured(measured, processes if self.in_processes else None, loads=loads)


WAIT_STEP = 0.25
"""Part of a trial's length between two looks at the load."""


@dataclass(frozen=True)
class Composed:
    """Each repeat is one process that measures all `SIZES` at a horizon, from which FPS at the double horizon are composed.

    The first process measures the largest size there, too, which tests the law. If it was too far off, it is measured again. Half of an
    iteration at the largest size is learning.
    """

    rho: float = 0.5
    """Share of the variance between processes that all trials of a process have in common."""
    spread: float = 0.02
    """Standard deviation between processes of the logarithm of a trial's times."""
    off: float = 0.0
    """Composed FPS are off by up to this share, in all processes alike, at each size by another one."""

    def measure(self, fps: Sequence[float], generator: np.random.Generator, repeats: int) -> Measured:
        """Return the measurements of one study."""
        horizon, points = 2, [Point(size, horizon, None) for horizon in (1, 2) for size in SIZES]
        parts = {point.num_envs: own for point, own in parts_of(points).items()}
        learns_s = 0.5 / max(fps)
        off = dict(zip(SIZES, self.off * generator.uniform(-1.0, 1.0, len(SIZES)), strict=True))
        found: dict[int, list[float]] = {size: [] for size in SIZES}
        tests: dict[Point, list[float]] = {Point(size, horizon, None): [] for size in SIZES[-1:]}
        for number in range(repeats):
            common = self.spread * math.sqrt(self.rho) * generator.standard_normal()
            own = self.spread * math.sqrt(1.0 - self.rho) * generator.standard_normal((3, len(SIZES)))
            collects, learns, measured = (dict(zip(SIZES, np.exp(common + row).tolist(), strict=True)) for row in own)
            for size, true in zip(SIZES, fps, strict=True):
                learning_s = sum(
                    weight * part.num_envs * learns_s * learns[part.num_envs]
                    for part, weight in parts[size].learns.items()
                )
                collecting_s = horizon * size * (1.0 / true - learns_s) * collects[size]
                own_fps = horizon * size / (collecting_s + learning_s) * math.exp(off[size])
                point = Point(size, horizon, None)
                if point in (Composition(tests=tests).doubted if number else tests):
                    tests[point].append(math.log(own_fps / (true / measured[size])))
                    own_fps = true / measured[size]
                found[size].append(own_fps)
        blocks: dict[int, list[Hashable]] = {size: [Process(0, number) for number in range(repeats)] for size in SIZES}
        return Measured(found, blocks, dict.fromkeys(SIZES, Composition(tests=tests).margin))


def orders(order: Order, blocks: int, generator: np.random.Generator) -> list[list[int]]:
    """Return the places of `SIZES` in the order in which each block measures them."""
    if order == "ascending":
        return [list(range(len(SIZES)))] * blocks
    if order == "random":
        return [generator.permutation(len(SIZES)).tolist() for _ in range(blocks)]
    key, points = int(generator.integers(2**31)), [Point(place, 1, None) for place in range(len(SIZES))]
    return [[point.num_envs for point in williams(points, row, key)] for row in range(blocks)]


HALF_SATURATION = 64.0
SATURATING = [n / (1 + n / HALF_SATURATION) for n in SIZES]
"""Follows t0 + c N: FPS tend to 64, half of which is at N = 64."""
LINEAR = [float(n) for n in SIZES]
FALLING = [1.0, 1.8, 3.0, 4.0, 4.1, 3.6, 3.5]
RESUMING = [1.0, 1.8, 1.9, 1.95, 3.2, 3.3, 3.4]
ALL_AT_DELTA = [(1 + DELTA) ** i for i in range(len(SIZES))]
"""The worst case: every doubling gains exactly delta, so that every rejection is wrong."""


@dataclass(frozen=True)
class ThroughputScenario(Scenario):
    """FPS whose truth is known."""

    limit = "throughput"

    fps: Sequence[float]
    """True FPS at `SIZES`."""
    trials: Fresh | Processes | Composed | Beside
    follows_law: bool = False
    fits: int = len(SIZES)
    """How many of `SIZES` fit the memory; the others end as out of memory."""

    @property
    def gains(self) -> dict[int, float]:
        """True gains of every doubling measured, as logarithms, by num_envs."""
        fps = self.fps[: self.fits]
        return {n: math.log(larger / smaller) for n, smaller, larger in zip(SIZES, fps, fps[1:], strict=False)}

    def study(self, generator: np.random.Generator, repeats: int, tally: Tally) -> None:
        """Judge the limit of a whole grid."""
        fps, blocks, margins, *_ = self.trials.measure(self.fps, generator, repeats)
        fps = {size: fps[size] for size in SIZES[: self.fits]}
        with tally.verdict():
            decision = throughput.decision_of(fps, DELTA, SETTINGS.confidence, blocks=blocks, margins=margins)
            law = throughput.fit_law(fps, 1, SETTINGS.confidence) if self.follows_law else None
        self.judge_gains(decision, tally)
        assert decision.lowest is not None
        tally.covers("threshold", self.true_threshold or math.inf, decision.lowest, decision.highest)
        if law is not None:
            half = law.half_saturation_num_envs_lower, law.half_saturation_num_envs_upper
            tally.covers("half_saturation", HALF_SATURATION, *half)
            tally.covers("asymptote", HALF_SATURATION, law.asymptote_fps_lower, law.asymptote_fps_upper)


def in_blocks(what: str, fps: Sequence[float], processes: Processes, in_scope: bool = True) -> ThroughputScenario:
    """Return a scenario of processes that measure all sizes."""
    return ThroughputScenario(f"process blocks, {what}", fps, processes, repeats=(3, 5, 8), in_scope=in_scope)


RHOS = (0.0, 0.5, 0.8)

PROCESS_BLOCKS: tuple[ThroughputScenario, ...] = (
    *(in_blocks(f"at delta, rho {rho}", ALL_AT_DELTA, Processes(rho)) for rho in RHOS),
    *(in_blocks(f"plateau, rho {rho}", FALLING, Processes(rho)) for rho in RHOS),
    *(
        in_blocks(f"plateau, rho {rho}, taken as fresh ones", FALLING, Processes(rho, paired=False), rho == 0.0)
        for rho in RHOS
    ),
    in_blocks("at delta, effect differs with N", ALL_AT_DELTA, Processes(0.5, 0.02, tilt=0.03)),
    in_blocks(
        "at delta, effect differs with N, taken as fresh ones",
        ALL_AT_DELTA, Processes(0.5, 0.02, tilt=0.03, paired=False), in_scope=False,
    ),
    in_blocks("at delta, one slow process", ALL_AT_DELTA, Processes(0.0, 0.02, slowest=0.15)),
    in_blocks("plateau, one slow process", FALLING, Processes(0.0, 0.02, slowest=0.15)),
    in_blocks("at delta, two machines", ALL_AT_DELTA, Processes(0.5, 0.02, machines=2)),
    in_blocks("plateau, two machines", FALLING, Processes(0.5, 0.02, machines=2)),
    *(
        in_blocks(
            f"{what}, each size costs 1%, {order} order",
            fps, Processes(0.5, 0.02, step_cost=0.01, order=order), order != "ascending",
        )
        for what, fps in (("at delta", ALL_AT_DELTA), ("plateau", FALLING))
        for order in ORDERS
    ),
)  # fmt: skip

THROUGHPUT: tuple[ThroughputScenario, ...] = (
    ThroughputScenario("saturating", SATURATING, Fresh(normal(0.02)), repeats=(2, 3, 5), follows_law=True),
    ThroughputScenario("clear plateau", FALLING, Fresh(normal(0.01))),
    ThroughputScenario("linear", LINEAR, Fresh(normal(0.02))),
    ThroughputScenario("non-monotone, falling", FALLING, Fresh(normal(0.02))),
    ThroughputScenario("non-monotone, resuming", RESUMING, Fresh(normal(0.02))),
    ThroughputScenario("noisy", SATURATING, Fresh(normal(0.10)), follows_law=True),
    ThroughputScenario("every doubling at delta", ALL_AT_DELTA, Fresh(normal(0.02)), repeats=(2, 3, 5)),
    ThroughputScenario(
        "at delta, noise falls with N", ALL_AT_DELTA, Fresh(normal(0.06, 0.06, 0.03, 0.02, 0.01, 0.01, 0.005))
    ),
    ThroughputScenario("at delta, some repeats slow", ALL_AT_DELTA, Fresh(sometimes_slow)),
    ThroughputScenario("at delta, one straggler", ALL_AT_DELTA, Fresh(one_straggler)),
    ThroughputScenario("one straggler", SATURATING, Fresh(one_straggler), follows_law=True),
    ThroughputScenario("outliers", SATURATING, Fresh(outliers), follows_law=True),
    ThroughputScenario("out of memory at the top", SATURATING, Fresh(normal(0.02)), follows_law=True, fits=5),
    ThroughputScenario("at delta, two machines", ALL_AT_DELTA, Fresh(on(two_machines, 0.08), two_machines)),
    ThroughputScenario("clear plateau, two machines", FALLING, Fresh(on(two_machines, 0.08), two_machines)),
    ThroughputScenario(
        "at delta, each num_envs on a machine of its own", ALL_AT_DELTA, Fresh(on(own_machines, 0.05), own_machines)
    ),
    ThroughputScenario(
        "at delta, gains of two machines differ", ALL_AT_DELTA, Fresh(disagreeing, two_machines), in_scope=False
    ),
    ThroughputScenario("at delta, slow for a while, no blocks", ALL_AT_DELTA, Fresh(slow_block)),
    ThroughputScenario("clear plateau, slow for a while, no blocks", FALLING, Fresh(slow_block)),
    ThroughputScenario("at delta, drift in random order", ALL_AT_DELTA, Fresh(partial(drifting, at_random=True))),
    ThroughputScenario("at delta, drift in ascending order", ALL_AT_DELTA, Fresh(drifting), in_scope=False),
    ThroughputScenario("one repeat", SATURATING, Fresh(normal(0.02)), repeats=(1,), follows_law=True),
    *PROCESS_BLOCKS,
    *(
        ThroughputScenario(f"composed horizon, {what}{said}", fps, Composed(off=off))
        for what, fps in (("at delta", ALL_AT_DELTA), ("plateau", FALLING))
        for said, off in (("", 0.0), (", law 1% off", 0.01), (", law 2% off", 0.02))
    ),
)


@dataclass(frozen=True)
class AdaptiveScenario(ThroughputScenario):
    """Trials that are chosen one by one until the limit seems decided, `repeats` of each point at most."""

    ascending: bool = False
    """Whether one trial of each size comes first, from the smallest on."""

    def study(self, generator: np.random.Generator, repeats: int, tally: Tally) -> None:
        """Judge the limit of the trials that were chosen."""
        settings = Adaptive(delta=DELTA, confidence=SETTINGS.confidence, ascending=self.ascending)
        rule = search.Rule("throughput", settings, repeats)
        fps = self.trials.measure(self.fps, generator, repeats + settings.confirm).fps
        with tally.verdict():
            tried = {num_envs: search.Tried() for num_envs in SIZES}
            fresh: dict[int, list[float]] = {num_envs: [] for num_envs in SIZES}
            while (size := (step := search.next_step(SIZES, tried, rule, None)).num_envs) is not None:
                if step.confirms:
                    fresh[size].append(fps[size][repeats + tried[size].confirming])
                    tried[size].confirming += 1
                else:
                    tried[size].fps.append(fps[size][tried[size].asked])
                    tried[size].asked += 1
            measured = {size: [*tries.fps, *fresh[size]] for size, tries in tried.items() if tries.fps}
            confirms = {size: [False] * len(tried[size].fps) + [True] * len(fresh[size]) for size in measured}
            decision = throughput.decision_of(
                measured, DELTA, SETTINGS.confidence, confirms=confirms, schedule=EVERY_REPEAT
            )
        self.judge_gains(decision, tally)
        for named in decision.doublings:
            if named.num_envs == decision.threshold and named.lower is not None:
                tally.covers("told", self.gains[named.num_envs], named.lower, named.upper)
        tally.count("trials", sum(map(len, measured.values())), repeats * len(SIZES))


SEARCHED = ("saturating", "clear plateau", "linear", "every doubling at delta", "at delta, noise falls with N")

ADAPTIVE: tuple[AdaptiveScenario, ...] = tuple(
    AdaptiveScenario(
        f"adaptive{', ascending' if ascending else ''}: {own.name}", own.fps, own.trials, ascending=ascending
    )
    for ascending in (False, True)
    for own in THROUGHPUT
    if own.name in SEARCHED
)


# --- Every way in which a study can end

DecisionAfter = Callable[[int], Decision]
"""Whole repeats -> what the verdict would be."""


@dataclass(frozen=True)
class Ending:
    """A way in which a study ends, and how often it is looked at."""

    name: str
    schedule: Callable[[int], Schedule]
    """Most repeats -> the schedule of the verdict."""
    end: Callable[[DecisionAfter, int, np.random.Generator], Decision]
    """Returns the verdict with which a study ends that may have as many repeats."""


def until_decided(after: DecisionAfter, most: int, _: np.random.Generator) -> Decision:
    """Stop at the first look that decides, as `ask.enough` does."""
    for repeats in range(LEAST_REPEATS, most):
        if (decision := after(repeats)).state != "undecided":
            return decision
    return after(most)


def out_of_time(after: DecisionAfter, most: int, generator: np.random.Generator) -> Decision:
    """Stop as `until_decided` does, or when the time is over, which is after any number of repeats."""
    return until_decided(after, int(generator.integers(LEAST_REPEATS, most + 1)), generator)


def more_when_undecided(after: DecisionAfter, most: int, _: np.random.Generator) -> Decision:
    """Measure the repeats that were planned, and go on with `more_repeats` from look to look while it is undecided."""
    looks = [number for number in as_planned(PLANNED).numbers if number <= most]
    for repeats in looks[:-1]:
        if (decision := after(repeats)).state != "undecided":
            return decision
    return after(looks[-1])


PLANNED = 5

UNTIL_DECIDED = Ending("until decided", lambda _: EVERY_REPEAT, until_decided)

ENDINGS: tuple[Ending, ...] = (
    UNTIL_DECIDED,
    Ending("until decided or out of time", lambda _: EVERY_REPEAT, out_of_time),
    Ending(f"{PLANNED} repeats, then more while undecided", lambda _: as_planned(PLANNED), more_when_undecided),
    Ending("repeats as planned", as_planned, lambda after, most, _: after(most)),
)


def cut(seen: Sequence[Looked], most: Mapping[int, int]) -> list[Looked]:
    """Return doublings as they stood after fewer looks: `most` has how many of each."""
    looks = [doubling.looks[: most[doubling.num_envs]] for doubling in seen]
    return [Looked(own[-1].contrast if own else one.latest, own) for one, own in zip(seen, looks, strict=True)]


@dataclass(frozen=True)
class EndedScenario(ThroughputScenario):
    """A study that ends in one of the ways above, with `repeats` of each point at most."""

    ending: Ending = UNTIL_DECIDED

    def study(self, generator: np.random.Generator, repeats: int, tally: Tally) -> None:
        """Judge the verdict with which a study ends."""
        fps, blocks, margins, numbers, loads = self.trials.measure(self.fps, generator, repeats)
        schedule = self.ending.schedule(repeats)
        with tally.verdict():
            seen = throughput.looks_at(fps, 0.0, blocks, margins, repeats=numbers, schedule=schedule, loads=loads)

            def after(whole: int) -> Decision:
                looks = sum(not math.isinf(schedule.factor(number)) for number in range(1, whole + 1))
                known = cut(seen, dict.fromkeys(SIZES, looks))
                return union.decide(known, SIZES, self.log_delta, SETTINGS.confidence, schedule)

            decision = self.ending.end(after, repeats, generator)
        self.judge_gains(decision, tally)
        assert decision.lowest is not None
        tally.covers("threshold", self.true_threshold or math.inf, decision.lowest, decision.highest)


def gaining(times: float) -> list[float]:
    """Return FPS at `SIZES` of which each doubling gains so many times delta."""
    return [(1 + times * DELTA) ** place for place in range(len(SIZES))]


MOST = 13
"""Most repeats of the studies below."""

NOTHING, ALL_ALIKE = [0.0] * len(SIZES), [0.29] * len(SIZES)
BENDS = [0.43, 0.385, 0.34, 0.295, 0.25, 0.205, 0.16]
"""A core costs the smallest size 35%, the largest 15%: on two cores, 64 to 512 environments gained 58% on an idle machine, and 86 to 128%
beside a busy core."""

MOST_BESIDE = 10

OTHERS: tuple[tuple[str, Sequence[float], Beside], ...] = (
    *(
        (f"at delta, beside others {what}{said}", ALL_AT_DELTA, Beside(costs, waits=waits))
        for what, costs in (
            ("who cost nothing", NOTHING),
            ("who cost all alike", ALL_ALIKE),
            ("who bend the curve", BENDS),
        )
        for said, waits in (("", False), (", waiting", True))
    ),
    *(
        (
            f"{truth}, beside others who bend the curve{said}",
            fps,
            Beside(BENDS, waits=waits, in_processes=blocks, spread=spread),
        )
        for truth, fps, blocks, spread in (
            ("at delta, fresh processes", ALL_AT_DELTA, False, 0.05),
            ("clear plateau", FALLING, True, 0.02),
        )
        for said, waits in (("", False), (", waiting", True))
    ),
)

ALIKE, IN_BLOCKS = Fresh(normal(0.02)), Processes(0.5, 0.05)

ENDED: tuple[EndedScenario, ...] = (
    *(
        EndedScenario(f"{ending.name}, {what}", gaining(times), ALIKE, repeats=(MOST,), ending=ending)
        for ending in ENDINGS
        for what, times in (("at delta", 1.0), ("at half of delta", 0.5), ("at twice delta", 2.0))
    ),
    *(
        EndedScenario(
            f"until decided, {what}", ALL_AT_DELTA, trials, repeats=(MOST,), in_scope=in_scope, ending=UNTIL_DECIDED
        )
        for what, trials, in_scope in (
            ("at delta, process blocks", IN_BLOCKS, True),
            ("at delta, process blocks, two machines", Processes(0.5, 0.02, machines=2), True),
            ("at delta, two machines", Fresh(on(two_machines, 0.08), two_machines), True),
            ("at delta, little noise", Fresh(normal(0.003)), True),
            ("at delta, much noise", Fresh(normal(0.10)), True),
            ("at delta, noise falls with N", Fresh(normal(0.06, 0.06, 0.03, 0.02, 0.01, 0.01, 0.005)), True),
            ("at delta, one straggler", Fresh(one_straggler), True),
            ("at delta, repeats follow AR(1), 0.3", Fresh(following), False),
            ("at delta, skewed", Fresh(skewed), False),
        )
    ),
    *(EndedScenario(f"until decided, {said}", fps, trials, repeats=(MOST_BESIDE,)) for said, fps, trials in OTHERS),
    EndedScenario("until decided, clear plateau", FALLING, Fresh(normal(0.01)), repeats=(MOST,)),
    EndedScenario("until decided, saturating", SATURATING, ALIKE, repeats=(MOST,)),
    EndedScenario("until decided, up to 34 repeats, at delta", ALL_AT_DELTA, ALIKE, repeats=(34,)),
)


# --- Whole studies, asked and decided by the code of real ones


@dataclass(frozen=True)
class AskedScenario(ThroughputScenario):
    """A study whose requests are asked for, measured and decided as in a sweep, in processes that measure all sizes."""

    section: Mapping[str, Any] = field(default_factory=dict)
    """Of the study file's throughput section."""

    def study(self, generator: np.random.Generator, repeats: int, tally: Tally) -> None:
        """Judge the verdict of a whole study."""
        sizes = SIZES[: len(self.fps)]
        of_process = 0.05 * math.sqrt(0.5) * generator.standard_normal(repeats)

        def log_fps(repeat: int, num_envs: int) -> float:
            place = sizes.index(num_envs)
            # The first size of a process comes once more, with noise of its own.
            return math.log(self.fps[place]) + of_process[repeat] + 0.05 * math.sqrt(0.5) * generator.standard_normal()

        settings = {"repeats": repeats, "block": "all", "until_decided": {"delta": DELTA}, **self.section}
        with tally.verdict(), asked.quickly():
            limit = asked.play(asked.study_of(sizes, **settings), log_fps).limit
        self.judge(limit.threshold_num_envs, tally)
        if self.gains[sizes[-2]] <= self.log_delta + 1e-9:
            tally.count("false_pays", limit.state == "still pays")
        for gain in limit.gains:
            if gain.gain_lower is not None:
                tally.covers("gain", math.expm1(self.gains[gain.num_envs]), gain.gain_lower, gain.gain_upper)


def five(*gains: float) -> list[float]:
    """Return FPS of which each doubling gains these shares."""
    return [1e4 * math.prod(1.0 + gain for gain in gains[:place]) for place in range(len(gains) + 1)]


MOST_ASKED = 8

ASKED: tuple[AskedScenario, ...] = tuple(
    AskedScenario(f"as asked, until decided{said}", fps, IN_BLOCKS, repeats=(MOST_ASKED,), section=section)
    for said, fps, section in (
        (", at delta", five(*[DELTA] * 4), {}),
        (", at half of delta", five(*[DELTA / 2] * 4), {}),
        (", at twice delta", five(*[2 * DELTA] * 4), {}),
        # The repeats of sizes that clearly pay are left out.
        (", two steep doublings, then at delta", five(0.6, 0.4, DELTA, DELTA), {}),
        (" or out of time, at delta", five(*[DELTA] * 4), {"time_limit_s": 5.5 * 6 * asked.TRIAL_S}),
    )
)


# --- Tables without repeats


@dataclass(frozen=True)
class TableScenario(ThroughputScenario):
    """One FPS for each size, whose noise is that of published records, or more."""

    limit = "table"

    def study(self, generator: np.random.Generator, repeats: int, tally: Tally) -> None:
        """Judge the estimate."""
        fps = {size: values[0] for size, values in self.trials.measure(self.fps, generator, repeats).fps.items()}
        with tally.verdict():
            answer = estimate(fps, cv_of, DELTA, SETTINGS.confidence, None)
            decision = throughput.decision_of({n: [value] for n, value in fps.items()}, DELTA, SETTINGS.confidence)
        assert answer is not None
        tally.count("false_reached", decision.threshold in self.still_paying)
        tally.count("found", answer.num_envs == self.true_threshold)
        lowest = answer.lowest or math.inf
        tally.covers("threshold", self.true_threshold or math.inf, lowest, answer.highest)
        for step in answer.steps:
            tally.covers("gain", math.expm1(self.gains[step.num_envs]), step.gain_lower, step.gain_upper)


def cv_of(num_envs: int) -> float:
    """Return the coefficient of variation that is assumed of the simulated FPS."""
    return assumed_cv(num_envs, HALF_SATURATION)


AS_PUBLISHED = Fresh(normal(*map(cv_of, SIZES)))

TABLES: tuple[TableScenario, ...] = (
    TableScenario("saturating, noise as published", SATURATING, AS_PUBLISHED, repeats=(1,)),
    TableScenario("falling, noise as published", FALLING, AS_PUBLISHED, repeats=(1,)),
    TableScenario("linear, noise as published", LINEAR, AS_PUBLISHED, repeats=(1,)),
    TableScenario(
        "saturating, twice the noise assumed", SATURATING, Fresh(normal(*(2 * cv_of(size) for size in SIZES))), repeats=(1,),
        in_scope=False,
    ),
)  # fmt: skip


# --- Learning

LEARNING_SIZES = [16, 32, 64, 128]


@dataclass(frozen=True)
class LearningScenario(Scenario):
    """Seconds to the target whose truth is known: log-normal over seeds."""

    limit = "learning"
    log_delta = -math.log1p(-LEARNING_DELTA)

    seconds: Sequence[float]
    """True medians at `LEARNING_SIZES`."""
    noise: float
    """Standard deviation of the logarithm."""
    budget_s: float = math.inf
    """Seeds that take longer are censored."""
    second_hump: float = 0.0
    """A seed in three takes exp of this times as long."""
    repeats: tuple[int, ...] = field(default=(3, 10), kw_only=True)

    @property
    def gains(self) -> dict[int, float]:
        """True savings of every doubling, as logarithms, by num_envs."""
        pairs = zip(LEARNING_SIZES, itertools.pairwise(self.seconds), strict=False)
        return {n: math.log(smaller / larger) for n, (smaller, larger) in pairs}

    def study(self, generator: np.random.Generator, repeats: int, tally: Tally) -> None:
        """Judge the learning limit."""
        costs = self.seeds(generator, repeats)
        with tally.verdict():
            decision = learning.decision_of(costs, LEARNING_DELTA, SETTINGS.confidence)
        self.judge_gains(decision, tally)

    def seeds(self, generator: np.random.Generator, repeats: int) -> dict[int, Seeds]:
        """Return what the seeds of one study cost, by num_envs."""
        return {n: self.costs(row) for n, row in self.seconds_of_seeds(generator, repeats).items()}

    def seconds_of_seeds(self, generator: np.random.Generator, repeats: int) -> dict[int, NDArray[np.float64]]:
        """Return the seconds that each seed would take without a budget, by num_envs, each of shape (repeats,)."""
        deviations = self.noise * generator.standard_normal((len(LEARNING_SIZES), repeats))
        deviations += self.second_hump * (generator.random(deviations.shape) < 1 / 3)
        seconds = np.array(self.seconds)[:, None] * np.exp(deviations)
        return dict(zip(LEARNING_SIZES, seconds, strict=True))

    def costs(self, seconds: NDArray[np.float64]) -> Seeds:
        """Return the costs of seeds that take so long, within the budget."""
        late = seconds >= self.budget_s
        return Seeds(tuple(seconds[~late]), (self.budget_s,) * int(late.sum()))


@dataclass(frozen=True)
class EndedLearningScenario(LearningScenario):
    """Seeds are added until every doubling is decided, with `repeats` of each size at most."""

    skips: bool = False
    """Whether a size that is shown slower than another gets no more seeds (`skip_decided`)."""
    repeats: tuple[int, ...] = field(default=(13,), kw_only=True)

    def study(self, generator: np.random.Generator, repeats: int, tally: Tally) -> None:
        """Judge the verdict with which a study ends."""
        seconds = self.seconds_of_seeds(generator, repeats)
        with tally.verdict():
            most = {size: self.measured(seconds, size, repeats) if self.skips else repeats for size in LEARNING_SIZES}
            known = {size: own[: most[size]] for size, own in seconds.items()}
            costs = {size: self.costs(own) for size, own in known.items()}
            seen = learning.looks_at(costs, {size: self.numbers(own) for size, own in known.items()}, EVERY_REPEAT)

            def after(whole: int) -> Decision:
                both = {size: min(whole, most[size], most.get(2 * size, whole)) for size in LEARNING_SIZES}
                looks = {size: max(0, count + 1 - LEAST_REPEATS) for size, count in both.items()}
                return union.decide(cut(seen, looks), LEARNING_SIZES, self.log_delta, SETTINGS.confidence, EVERY_REPEAT)

            decision = until_decided(after, repeats, generator)
        self.judge_gains(decision, tally)

    def numbers(self, seconds: NDArray[np.float64]) -> learning.SeedRepeats:
        """Return which repeat gave each seed."""
        return learning.SeedRepeats.of(enumerate((seconds < self.budget_s).tolist()))

    def measured(self, seconds: Mapping[int, NDArray[np.float64]], size: int, most: int) -> int:
        """Return how many seeds a size gets: those before it is shown slower than another one, which has as many."""
        for count in range(LEAST_REPEATS, most):
            so_far = {other: self.costs(own[:count]) for other, own in seconds.items()}
            if economy.slower_than_another(so_far, size) is not None:
                return count
        return most


def seconds_saving(times: float) -> list[float]:
    """Return seconds at `LEARNING_SIZES` of which each doubling saves so many times delta."""
    return [40.0 * (1 - times * LEARNING_DELTA) ** place for place in range(len(LEARNING_SIZES))]


SECONDS_AT_DELTA = seconds_saving(1.0)

LEARNING: tuple[LearningScenario, ...] = (
    LearningScenario("saturating", [40.0, 22.0, 20.0, 19.5], 0.15),
    LearningScenario("clear plateau", [80.0, 40.0, 39.0, 39.0], 0.05),
    LearningScenario("linear", [80.0, 40.0, 20.0, 10.0], 0.15),
    LearningScenario("non-monotone", [40.0, 38.0, 20.0, 30.0], 0.15),
    LearningScenario("noisy", [40.0, 22.0, 20.0, 19.5], 0.50),
    LearningScenario("every doubling at delta", SECONDS_AT_DELTA, 0.20),
    LearningScenario("at delta, every fourth seed of the first point censored", SECONDS_AT_DELTA, 0.20, 46.0),
    LearningScenario("at delta, half the seeds of the first point censored", SECONDS_AT_DELTA, 0.20, 40.0),
    LearningScenario("censored at 2N", [40.0, 30.0, 35.0, 26.0], 0.20, 40.0, repeats=(3, 6, 10)),
    LearningScenario("at delta, two humps", SECONDS_AT_DELTA, 0.10, second_hump=0.8),
    LearningScenario("two seeds", [40.0, 22.0, 20.0, 19.5], 0.15, repeats=(2,)),
    EndedLearningScenario("until decided, at delta", SECONDS_AT_DELTA, 0.20),
    EndedLearningScenario("until decided, at half of delta", seconds_saving(0.5), 0.20),
    EndedLearningScenario("until decided, at twice delta", seconds_saving(2.0), 0.20),
    EndedLearningScenario("until decided, at delta, some seeds censored", SECONDS_AT_DELTA, 0.20, 46.0),
    EndedLearningScenario("until decided, slower sizes skipped, at delta", SECONDS_AT_DELTA, 0.20, skips=True),
    EndedLearningScenario(
        "until decided, slower sizes skipped, saturating", [40.0, 22.0, 20.0, 19.5], 0.15, skips=True
    ),
)


# --- Memory

BASE_GB, PER_ENV_GB, PER_TRANSITION_GB, PER_BATCH_GB = 1.5, 2e-3, 2.2e-4, 5e-5
DEVICE_GB = 85.0
MEMORY_HORIZON, MEMORY_BATCH = 16, 128
"""Where the wall is judged."""


@dataclass(frozen=True)
class MemoryScenario(Scenario):
    """Peaks that follow the model, with noise."""

    limit = "memory"

    sizes: Sequence[int]
    horizons: Sequence[int] = (MEMORY_HORIZON,)
    batches: Sequence[int] = (MEMORY_BATCH,)
    noise_gb: float = 0.0
    noise_share: float = 0.0
    """Standard deviation in parts of the peak."""
    repeats: tuple[int, ...] = field(default=(1, 3), kw_only=True)

    def study(self, generator: np.random.Generator, repeats: int, tally: Tally) -> None:
        """Judge the interval of the largest num_envs by the wall that one more trial would meet."""
        samples = list(self.samples(generator, repeats))
        with tally.verdict():
            limit = memory_limit.limit_of(samples, DEVICE_GB, SETTINGS)
        wall = limit.wall(Series("", MEMORY_HORIZON, MEMORY_BATCH))
        assert wall is not None
        # One more trial, with noise of its own: it meets the memory where truth and noise together fill it.
        free_gb = DEVICE_GB * (1.0 - SETTINGS.memory_margin)
        noise = (self.noise_gb + self.noise_share * free_gb) * generator.standard_normal()
        per_env = PER_ENV_GB + PER_TRANSITION_GB * MEMORY_HORIZON
        met = math.floor((free_gb - peak_gb(0, 0, MEMORY_BATCH) - noise) / per_env)
        tally.covers("wall", met, wall.largest_num_envs_lower, wall.largest_num_envs_upper)

    def samples(self, generator: np.random.Generator, repeats: int) -> Iterator[Sample]:
        """Yield the trials of one study; what needs more than the device has ends as out of memory."""
        for num_envs, horizon, batch in itertools.product(self.sizes, self.horizons, self.batches):
            truth = peak_gb(num_envs, horizon, batch)
            scale = self.noise_gb + self.noise_share * truth
            for peak in truth + scale * generator.standard_normal(repeats):
                status, peak_or_none = ("ok", float(peak)) if peak <= DEVICE_GB else ("oom", None)
                yield Sample(num_envs=num_envs, horizon=horizon, batch_size=batch, status=status, peak_gb=peak_or_none)


MEMORY: tuple[MemoryScenario, ...] = (
    MemoryScenario("one horizon", (256, 512, 1024, 2048, 4096, 8192), noise_gb=0.05),
    MemoryScenario("two horizons and batches", (64, 256, 1024), (8, 16), (128, 256), noise_gb=0.05, repeats=(1,)),
    MemoryScenario("out of memory at the top", (2048, 4096, 8192, 16384, 32768), noise_gb=0.05),
    MemoryScenario("far extrapolation", (64, 128, 256, 512), noise_gb=0.01),
    MemoryScenario("noise grows with the peak", (256, 512, 1024, 2048, 4096, 8192), noise_share=0.01, in_scope=False),
)


def peak_gb(num_envs: int, horizon: int, batch: float) -> float:
    """Return the true peak."""
    return BASE_GB + PER_ENV_GB * num_envs + PER_TRANSITION_GB * num_envs * horizon + PER_BATCH_GB * batch


# --- All of it

SCENARIOS: tuple[Scenario, ...] = (*THROUGHPUT, *ENDED, *ASKED, *ADAPTIVE, *TABLES, *LEARNING, *MEMORY)
"""In the order of the table, a row for each of their `repeats`."""


ROWS = [(scenario, repeats) for scenario in SCENARIOS for repeats in scenario.repeats]
"""Scenario and repeats of each row of the table, in its order."""


def prove_row(place: int, studies: int, seed: int) -> ProofRow:
    """Return a row of the table by its place. Scenarios hold functions, which another process cannot be sent."""
    scenario, repeats = ROWS[place]
    return scenario.prove(repeats, studies, seed)


def prove(studies: int, seed: int, tell: Callable[[ProofRow], None] = lambda row: None) -> Proof:
    """Simulate `studies` of each scenario and number of repeats; the same numbers for the same arguments, times apart.

    `tell` is called with each row as it is done.
    """
    rows: list[ProofRow] = []
    with ProcessPoolExecutor(max_workers=len(os.sched_getaffinity(0)), mp_context=get_context("spawn")) as processes:
        running = [processes.submit(prove_row, place, studies, seed) for place in range(len(ROWS))]
        for done in running:
            rows.append(done.result())
            tell(rows[-1])
    return Proof(seed=seed, studies=studies, delta=SETTINGS.delta, confidence=SETTINGS.confidence, rows=rows)


SHARES: Mapping[str, str] = {
    "false_reached": "false reached",
    "false_pays": "false still pays",
    "found": "true limit named",
    "gain": "gain or saving",
    "threshold": "threshold",
    "half_saturation": "N half",
    "asymptote": "asymptote",
    "wall": "memory wall",
    "told": "named gain",
    "trials": "trials",
}
"""Field of a row -> heading of its column."""

HEADINGS = ("limit", "scenario", "repeats", *SHARES.values(), "")

LEAST_WIDTH = 180
"""Characters of the table in a terminal, with whole words in its columns."""


def cells(row: ProofRow) -> list[str]:
    """Return a row's cells, in the order of `HEADINGS`; a missed promise is marked with !."""
    missed = row.missed

    def cell(name: str) -> str:
        share = getattr(row, name)
        if share is None:
            return ""
        return f"{share.share:.1%} !" if name in missed else f"{share.share:.1%}"

    note = "" if row.in_scope else "breaks an assumption"
    return [row.limit, row.scenario, str(row.repeats), *map(cell, SHARES), note]


def summary(proof: Proof, before_miss: str = " ", between: str = "; ") -> str:
    """Return in a few sentences what was promised, and which rows missed it: a list, where `before_miss` begins a line."""
    said = [
        f"{proof.studies:,} studies per row, seed {proof.seed}. Promised: false reached at most {proof.largest_false_share:.0%},"
        f" coverage of {proof.confidence:.0%} intervals at least {proof.least_coverage:.0%} (! marks a miss that chance does not"
        f" explain). A verdict takes {max(row.ms_per_verdict for row in proof.rows):.0f} ms at most."
    ]
    promised = [row for row in proof.rows if row.in_scope]
    missed = [row for row in promised if row.missed]
    elsewhere = [row for row in proof.rows if row.missed and not row.in_scope]
    said.append(
        f"Missed in {len(missed)} of {len(promised)} rows:{before_miss}{_misses(missed, between)}." if missed
        else f"Kept in all {len(promised)} rows."
    )  # fmt: skip
    if elsewhere:
        said.append(f"Where an assumption is broken on purpose:{before_miss}{_misses(elsewhere, between)}.")
    return " ".join(said)


def _misses(rows: Sequence[ProofRow], between: str) -> str:
    return between.join(f"{row.scenario} ({row.repeats}): {', '.join(row.missed)}" for row in rows)


BEGIN, END = "<!-- make prove -->\n", "<!-- end of make prove -->\n"
"""Between these a page holds the table (docs/verdicts.md)."""


def as_markdown(proof: Proof) -> str:
    """Return what was promised and the table as Markdown."""
    lines = [summary(proof, "\n\n- ", ".\n- "), "", f"| {' | '.join(HEADINGS)} |", "|" + " --- |" * len(HEADINGS)]
    lines += [f"| {' | '.join(cells(row))} |" for row in proof.rows]
    return "\n".join(lines) + "\n"


def within(page: str, table: str, begin: str = BEGIN, end: str = END) -> str:
    """Return a page with the table in its place, between two marks; the table alone where the page has none."""
    before, found, rest = page.partition(begin)
    _, closed, after = rest.partition(end)
    return f"{before}{begin}\n{table}\n{end}{after}" if found and closed else table


def print_proof(proof: Proof, console: Console) -> None:
    """Print the table and what it says."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for heading in HEADINGS:
        words = heading in ("limit", "scenario", "")
        table.add_column(heading, justify="left" if words else "right", overflow="fold")
    for row in proof.rows:
        table.add_row(*cells(row))
    console.print(table)
    console.print(summary(proof), soft_wrap=True)


def main() -> int:
    """Print how often verdicts are right in simulated studies with known truth; fail where a promise is not kept."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--studies", type=int, default=STUDIES, help="of each scenario (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of all noise (%(default)s)")
    parser.add_argument("--output", type=Path, help="write the table to this file too: .md or .json")
    arguments = parser.parse_args()
    for name, value, least in (("studies", arguments.studies, 1), ("seed", arguments.seed, 0)):
        if value < least:
            raise UserError(f"--{name} is {value}: expected a whole number of at least {least}.")
    output: Path | None = arguments.output
    if output is not None and output.suffix not in (".md", ".json"):
        raise UserError(f"--output is {output}: expected a name that ends in .md or .json.")
    progress = Console(stderr=True, markup=False, highlight=False)

    def tell(row: ProofRow) -> None:
        if progress.is_terminal:
            progress.print(f"{row.limit}: {row.scenario}, {row.repeats} repeats, {row.ms_per_verdict:.1f} ms each")

    proof = prove(arguments.studies, arguments.seed, tell)
    console = Console(markup=False, highlight=False, emoji=False)
    console.width = max(console.width, LEAST_WIDTH)  # a narrower terminal, or a pipe, would split words
    print_proof(proof, console)
    if output is not None:
        page = output.read_text(encoding="utf-8") if output.suffix == ".md" and output.exists() else ""
        write_atomically(output, within(page, as_markdown(proof)) if output.suffix == ".md" else canonical_json(proof))
    return int(any(row.missed for row in proof.rows if row.in_scope))


if __name__ == "__main__":
    run_command(main)
