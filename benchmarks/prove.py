"""How often the limits are right: simulated studies whose truth is known, through the code that decides real ones.

Input: scenarios (below) and a seed. Output: a table of how often each promise was kept, and the time of a verdict.

    python -m envknee prove                                    2,000 studies per scenario, some minutes
    python -m envknee prove --studies 200 --output proof.md    fewer, and into a file (.md or .json)
    python -m envknee prove --output docs/verdicts.md          into a page that has a place for the table

Promised: at most 5% of studies say "reached" where one more doubling truly pays, and 95% intervals cover the truth in at least
93% of cases. Many scenarios lie at the very limit, so a share counts as missed where chance in as many studies does not explain it.
`in_scope` is False where a scenario breaks an assumption on purpose: shown, so that a reader knows the price.
"""

import argparse
import itertools
import math
import time
import zlib
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from envknee.ask import search
from envknee.record.schema import Frozen
from envknee.study.errors import UserError, run_command
from envknee.study.files import canonical_json, write_atomically
from envknee.study.model import Adaptive, Decide
from envknee.study.parts import parts_of
from envknee.study.space import Point
from envknee.verdict import learning, memory_limit, throughput
from envknee.verdict.composed import Composition
from envknee.verdict.estimate import estimate
from envknee.verdict.learning_cost import Seeds
from envknee.verdict.memory_sample import Room, Sample
from envknee.verdict.noise import assumed_cv
from envknee.verdict.rule.contrasts import Process
from envknee.verdict.rule.union import Decision
from envknee.verdict.series import Series
from numpy.typing import NDArray
from rich import box
from rich.console import Console
from rich.table import Table
from scipy.stats import binom

LARGEST_FALSE_SHARE = 0.05
LEAST_COVERAGE = 0.93

CHANCE = 0.01
"""Below which probability of a row, were its promise just kept, the promise counts as missed."""

DELTA = 0.10
LEARNING_DELTA = 0.25
SETTINGS = Decide(delta=DELTA, delta_learning=LEARNING_DELTA, confidence=0.95)

STUDIES = 2000


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
        """Return which promises were not kept, beyond chance and whatever the scope.

        Intervals of one study lean on the same points, so there are as many independent ones as studies.
        """
        most = float(binom.ppf(1.0 - CHANCE, self.studies, LARGEST_FALSE_SHARE)) / self.studies
        least = float(binom.ppf(CHANCE, self.studies, LEAST_COVERAGE)) / self.studies
        missed = ["false_reached"] if self.false_reached is not None and self.false_reached.share > most else []
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


@dataclass(frozen=True)
class Scenario:
    """Studies whose truth is known."""

    name: str
    in_scope: bool = field(default=True, kw_only=True)

    @property
    def pays(self) -> dict[int, bool]:
        """Whether doubling truly pays, by num_envs; nothing where the truth is no threshold."""
        return {}

    @property
    def still_paying(self) -> set[int]:
        """Every num_envs whose doubling truly pays."""
        return {num_envs for num_envs, pays in self.pays.items() if pays}

    @property
    def true_threshold(self) -> int | None:
        """The smallest num_envs measured whose doubling truly does not pay."""
        return next((num_envs for num_envs, pays in self.pays.items() if not pays), None)


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

    def study(
        self, fps: Sequence[float], generator: np.random.Generator, repeats: int
    ) -> tuple[dict[int, list[float]], dict[int, list[Hashable]]]:
        """Return FPS and blocks of one study by num_envs."""
        measured: dict[int, list[float]] = {size: [] for size in SIZES}
        blocks: dict[int, list[Hashable]] = {size: [] for size in SIZES}
        speeds = 0.08 * generator.standard_normal(self.machines) if self.machines > 1 else np.zeros(1)
        slow = int(generator.integers(repeats)) if self.slowest else None
        for number, order in enumerate(orders(self.order, len(SIZES), repeats, generator)):
            machine = number % self.machines
            own = self.spread * math.sqrt(self.rho) * generator.standard_normal() + speeds[machine]
            own -= self.slowest * (number == slow)
            tilt = self.tilt * generator.standard_normal()
            for position, place in enumerate([*order, order[0]]):
                noise = self.spread * math.sqrt(1.0 - self.rho) * generator.standard_normal()
                log = own + tilt * place + noise - self.step_cost * position
                measured[SIZES[place]].append(fps[place] * math.exp(log))
                blocks[SIZES[place]].append(Process(machine, number) if self.paired else machine)
        return measured, blocks


@dataclass(frozen=True)
class Composed:
    """Each repeat is one process that measures all `SIZES` at a horizon, from which FPS at the double horizon are composed.

    The first process measures two sizes there, too, which test the law. One that was too far off is measured again. Half of an iteration
    at the largest size is learning.
    """

    rho: float = 0.5
    """Share of the variance between processes that all trials of a process have in common."""
    spread: float = 0.02
    """Standard deviation between processes of the logarithm of a trial's times."""
    off: float = 0.0
    """Composed FPS are off by up to this share, in all processes alike, at each size by another one."""

    def study(
        self, fps: Sequence[float], generator: np.random.Generator, repeats: int
    ) -> tuple[dict[int, list[float]], dict[int, list[Hashable]], dict[int, float]]:
        """Return FPS, blocks and margins of one study by num_envs."""
        horizon, points = 2, [Point(size, horizon, None) for horizon in (1, 2) for size in SIZES]
        parts = {point.num_envs: own for point, own in parts_of(points).items()}
        learns_s = 0.5 / max(fps)
        off = dict(zip(SIZES, self.off * generator.uniform(-1.0, 1.0, len(SIZES)), strict=True))
        found: dict[int, list[float]] = {size: [] for size in SIZES}
        tests: dict[Point, list[float]] = {Point(size, horizon, None): [] for size in (SIZES[-3], SIZES[-1])}
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
                own_fps, point = (
                    horizon * size / (collecting_s + learning_s) * math.exp(off[size]),
                    Point(size, horizon, None),
                )
                if point in (Composition(tests=tests).doubted if number else tests):
                    tests[point].append(math.log(own_fps / (true / measured[size])))
                    own_fps = true / measured[size]
                found[size].append(own_fps)
        blocks: dict[int, list[Hashable]] = {size: [Process(0, number) for number in range(repeats)] for size in SIZES}
        return found, blocks, dict.fromkeys(SIZES, Composition(tests=tests).margin)


def orders(order: Order, sizes: int, blocks: int, generator: np.random.Generator) -> list[list[int]]:
    """Return the places of the sizes in the order in which each block measures them.

    Williams 1949 (Aust. J. Sci. Res. A 2:149): each size stands at each position, and follows each other one, equally often over a whole
    design; of it each study takes rows by chance.
    """
    if order == "ascending":
        return [list(range(sizes))] * blocks
    if order == "random":
        return [generator.permutation(sizes).tolist() for _ in range(blocks)]
    first = [place // 2 if place % 2 == 0 else sizes - (place + 1) // 2 for place in range(sizes)]
    design = [[(place + shift) % sizes for place in first] for shift in range(sizes)]
    design += [row[::-1] for row in design] if sizes % 2 else []
    names = generator.permutation(sizes)
    rows = [generator.permutation(len(design)) for _ in range(-(-blocks // len(design)))]
    return [[int(names[place]) for place in design[row]] for row in np.concatenate(rows)[:blocks]]


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

    fps: Sequence[float]
    """True FPS at `SIZES`."""
    noise: Noise
    repeats: tuple[int, ...] = (3, 5)
    follows_law: bool = False
    fits: int = len(SIZES)
    """How many of `SIZES` fit the memory; the others end as out of memory."""
    machines: Machines | None = None
    processes: Processes | None = None
    """Of several sizes each, instead of `noise`."""
    composed: Composed | None = None
    """Composed repeats, instead of measured ones."""

    @property
    def log_gains(self) -> list[float]:
        """True gains of every doubling measured, as logarithms."""
        fps = self.fps[: self.fits]
        return [math.log(larger / smaller) for smaller, larger in zip(fps[:-1], fps[1:], strict=True)]

    def study(
        self, generator: np.random.Generator, repeats: int
    ) -> tuple[dict[int, list[float]], Mapping[int, Sequence[Hashable]] | None, Mapping[int, float] | None]:
        """Return the FPS of one study by num_envs, their blocks, and what they may be off by."""
        if self.composed is not None:
            return self.composed.study(self.fps, generator, repeats)
        if self.processes is not None:
            return *self.processes.study(self.fps, generator, repeats), None
        sizes = SIZES[: self.fits]
        fps = np.array(self.fps)[:, None] * np.exp(self.noise(generator, repeats))
        measured = dict(zip(sizes, fps[: self.fits].tolist(), strict=True))
        return measured, dict(zip(sizes, self.machines(repeats), strict=False)) if self.machines else None, None

    @property
    def pays(self) -> dict[int, bool]:
        """Whether doubling truly gains delta or more, by num_envs."""
        return {n: gain >= math.log1p(DELTA) - 1e-9 for n, gain in zip(SIZES, self.log_gains, strict=False)}


PROCESS_BLOCKS: tuple[tuple[str, Sequence[float], Processes, bool], ...] = (
    *((f"at delta, rho {rho}", ALL_AT_DELTA, Processes(rho), True) for rho in (0.0, 0.5, 0.8)),
    *((f"plateau, rho {rho}", FALLING, Processes(rho), True) for rho in (0.0, 0.5, 0.8)),
    *(
        (f"plateau, rho {rho}, taken as fresh ones", FALLING, Processes(rho, paired=False), rho == 0.0)
        for rho in (0.0, 0.5, 0.8)
    ),
    ("at delta, effect differs with N", ALL_AT_DELTA, Processes(0.5, 0.02, tilt=0.03), True),
    (
        "at delta, effect differs with N, taken as fresh ones",
        ALL_AT_DELTA,
        Processes(0.5, 0.02, tilt=0.03, paired=False),
        False,
    ),
    ("at delta, one slow process", ALL_AT_DELTA, Processes(0.0, 0.02, slowest=0.15), True),
    ("plateau, one slow process", FALLING, Processes(0.0, 0.02, slowest=0.15), True),
    ("at delta, two machines", ALL_AT_DELTA, Processes(0.5, 0.02, machines=2), True),
    ("plateau, two machines", FALLING, Processes(0.5, 0.02, machines=2), True),
    *(
        (
            f"{what}, each size costs 1%, {order} order",
            fps,
            Processes(0.5, 0.02, step_cost=0.01, order=order),
            order != "ascending",
        )
        for what, fps in (("at delta", ALL_AT_DELTA), ("plateau", FALLING))
        for order in ORDERS
    ),
)
"""Name, true FPS, processes, and whether all assumptions hold."""

THROUGHPUT: tuple[ThroughputScenario, ...] = (
    ThroughputScenario("saturating", SATURATING, normal(0.02), (2, 3, 5), follows_law=True),
    ThroughputScenario("clear plateau", FALLING, normal(0.01)),
    ThroughputScenario("linear", LINEAR, normal(0.02)),
    ThroughputScenario("non-monotone, falling", FALLING, normal(0.02)),
    ThroughputScenario("non-monotone, resuming", RESUMING, normal(0.02)),
    ThroughputScenario("noisy", SATURATING, normal(0.10), follows_law=True),
    ThroughputScenario("every doubling at delta", ALL_AT_DELTA, normal(0.02), (2, 3, 5)),
    ThroughputScenario("at delta, noise falls with N", ALL_AT_DELTA, normal(0.06, 0.06, 0.03, 0.02, 0.01, 0.01, 0.005)),
    ThroughputScenario("at delta, some repeats slow", ALL_AT_DELTA, sometimes_slow),
    ThroughputScenario("at delta, one straggler", ALL_AT_DELTA, one_straggler),
    ThroughputScenario("one straggler", SATURATING, one_straggler, follows_law=True),
    ThroughputScenario("outliers", SATURATING, outliers, follows_law=True),
    ThroughputScenario("out of memory at the top", SATURATING, normal(0.02), follows_law=True, fits=5),
    ThroughputScenario("at delta, two machines", ALL_AT_DELTA, on(two_machines, 0.08), machines=two_machines),
    ThroughputScenario("clear plateau, two machines", FALLING, on(two_machines, 0.08), (3, 5), machines=two_machines),
    ThroughputScenario(
        "at delta, each num_envs on a machine of its own", ALL_AT_DELTA, on(own_machines, 0.05), machines=own_machines
    ),
    ThroughputScenario(
        "at delta, gains of two machines differ", ALL_AT_DELTA, disagreeing, machines=two_machines, in_scope=False
    ),
    ThroughputScenario("at delta, slow for a while, no blocks", ALL_AT_DELTA, slow_block),
    ThroughputScenario("clear plateau, slow for a while, no blocks", FALLING, slow_block),
    ThroughputScenario("at delta, drift in random order", ALL_AT_DELTA, partial(drifting, at_random=True)),
    ThroughputScenario("at delta, drift in ascending order", ALL_AT_DELTA, drifting, in_scope=False),
    ThroughputScenario("one repeat", SATURATING, normal(0.02), (1,), follows_law=True),
    *(
        ThroughputScenario(
            f"process blocks, {what}", fps, normal(0.0), (3, 5, 8), processes=processes, in_scope=in_scope
        )
        for what, fps, processes, in_scope in PROCESS_BLOCKS
    ),
    *(
        ThroughputScenario(f"composed horizon, {what}{said}", fps, normal(0.0), (3, 5), composed=Composed(off=off))
        for what, fps in (("at delta", ALL_AT_DELTA), ("plateau", FALLING))
        for said, off in (("", 0.0), (", law 1% off", 0.01), (", law 2% off", 0.02))
    ),
)


def prove_throughput(scenario: ThroughputScenario, repeats: int, studies: int, seed: int) -> ProofRow:
    """Return how often throughput limits of a scenario's studies were right."""
    generator = _generator(seed, scenario.name, repeats)
    count: Counter[str] = Counter()
    seconds = 0.0
    for _ in range(studies):
        measured, blocks, margins = scenario.study(generator, repeats)
        start = time.process_time()
        decision = throughput.decision_of(measured, DELTA, SETTINGS.confidence, blocks=blocks, margins=margins)
        law = throughput.fit_law(measured, 1, SETTINGS.confidence) if scenario.follows_law else None
        seconds += time.process_time() - start
        _judge(decision.threshold, scenario, count)
        _judge_gains(decision, scenario, count)
        beyond = math.inf if scenario.true_threshold is None else scenario.true_threshold
        assert decision.lowest is not None
        count["threshold"] += decision.lowest <= beyond <= (decision.highest or math.inf)
        if law is not None:
            count["half"] += _within(
                HALF_SATURATION, law.half_saturation_num_envs_lower, law.half_saturation_num_envs_upper
            )
            count["asymptote"] += _within(HALF_SATURATION, law.asymptote_fps_lower, law.asymptote_fps_upper)
    shares = _decisions(count, studies, scenario)
    shares["threshold"] = Share(hits=count["threshold"], of=studies)
    if scenario.follows_law:
        shares["half_saturation"] = Share(hits=count["half"], of=studies)
        shares["asymptote"] = Share(hits=count["asymptote"], of=studies)
    return _row("throughput", scenario, repeats, studies, seconds, shares)


LEAST_NAMED = 100
"""Studies that named a doubling, below which a share of them says little."""

ADAPTIVE = ("saturating", "clear plateau", "linear", "every doubling at delta", "at delta, noise falls with N")
"""Scenarios in which `sampler: adaptive` chooses the trials, too."""


def prove_adaptive(scenario: ThroughputScenario, repeats: int, studies: int, seed: int) -> ProofRow:
    """Return how often the verdict was right where trials are chosen one by one, until it seems decided.

    Each point has `repeats` at most.
    """
    scenario = replace(scenario, name=f"adaptive: {scenario.name}")
    generator = _generator(seed, scenario.name, repeats)
    settings = Adaptive(delta=DELTA, confidence=SETTINGS.confidence)
    rule, confirm = search.rule_of("throughput", settings, repeats), settings.confirm
    count: Counter[str] = Counter()
    seconds = 0.0
    for _ in range(studies):
        fps = np.array(scenario.fps)[:, None] * np.exp(scenario.noise(generator, repeats + confirm))
        start = time.process_time()
        tried = {num_envs: search.Tried() for num_envs in SIZES}
        while (step := search.next_step(SIZES, tried, rule, None, search.law(1, DELTA))).num_envs is not None:
            tries = tried[step.num_envs]
            tries.fps.append(float(fps[SIZES.index(step.num_envs), tries.asked]))
            tries.asked += 1
        fresh: dict[int, list[float]] = {num_envs: [] for num_envs in SIZES}
        while (size := search.fresh(step, tried, confirm)) is not None:
            fresh[size].append(float(fps[SIZES.index(size), repeats + tried[size].confirming]))
            tried[size].confirming += 1
        measured = {size: [*tries.fps, *fresh[size]] for size, tries in tried.items() if tries.fps}
        confirms = {size: [False] * len(tried[size].fps) + [True] * len(fresh[size]) for size in measured}
        decision = throughput.decision_of(measured, DELTA, SETTINGS.confidence)
        decision = throughput.confirmed(decision, measured, confirms, SETTINGS.confidence)
        seconds += time.process_time() - start
        _judge(decision.threshold, scenario, count)
        _judge_gains(decision, scenario, count)
        count["trials"] += sum(map(len, measured.values()))
    shares = _decisions(count, studies, scenario)
    if count["named"] >= LEAST_NAMED:
        shares["told"] = Share(hits=count["told"], of=count["named"])
    shares["trials"] = Share(hits=count["trials"], of=studies * repeats * len(SIZES))
    return _row("throughput", scenario, repeats, studies, seconds, shares)


def _judge_gains(decision: Decision, scenario: ThroughputScenario, count: Counter[str]) -> None:
    """Count the intervals of single doublings, and those that hold the true gain; and of the doubling that is named, apart."""
    truths = dict(zip(SIZES, scenario.log_gains, strict=False))
    for doubling in decision.doublings:
        if doubling.lower is not None and doubling.upper is not None:
            covers = doubling.lower <= truths[doubling.num_envs] <= doubling.upper
            count["intervals"] += 1
            count["gain"] += covers
            count["named"] += doubling.num_envs == decision.threshold
            count["told"] += covers and doubling.num_envs == decision.threshold


def _within(truth: float, lower: float | None, upper: float | None) -> bool:
    """Tell whether an interval covers a finite truth; an upper end of None is open."""
    return lower is not None and lower <= truth <= (math.inf if upper is None else upper)


# --- Tables without repeats

TABLES: Mapping[str, tuple[Sequence[float], float | None, bool]] = {
    "saturating, noise as published": (SATURATING, None, True),
    "falling, noise as published": (FALLING, None, True),
    "linear, noise as published": (LINEAR, None, True),
    "saturating, twice the noise assumed": (SATURATING, 2.0, False),
}
"""Name -> true FPS, the factor by which noise exceeds what is assumed, and whether the assumption holds."""


def prove_table(name: str, studies: int, seed: int) -> ProofRow:
    """Return how often the estimate of a table without repeats names the true limit, and its intervals the true gains."""
    fps, factor, in_scope = TABLES[name]
    truth = ThroughputScenario(name, fps, normal(0.0), in_scope=in_scope)
    generator = _generator(seed, f"table: {name}", 1)
    cvs = np.array([assumed_cv(size, HALF_SATURATION) for size in SIZES])
    count: Counter[str] = Counter()
    seconds = 0.0
    for _ in range(studies):
        noise = (factor or 1.0) * cvs * generator.standard_normal(len(SIZES))
        measured = dict(zip(SIZES, (np.array(fps) * np.exp(noise)).tolist(), strict=True))
        start = time.process_time()
        answer = estimate(
            measured, lambda size: assumed_cv(size, HALF_SATURATION), "published", DELTA, SETTINGS.confidence, None
        )
        decision = throughput.decision_of(
            {size: [value] for size, value in measured.items()}, DELTA, SETTINGS.confidence
        )
        seconds += time.process_time() - start
        assert answer is not None
        _judge(decision.threshold, truth, count)
        count["named"] += answer.num_envs == truth.true_threshold
        beyond = math.inf if truth.true_threshold is None else truth.true_threshold
        count["threshold"] += (answer.lowest or math.inf) <= beyond <= (answer.highest or math.inf)
        for step, gain in zip(answer.steps, truth.log_gains, strict=True):
            count["gain"] += step.gain_lower <= math.expm1(gain) <= step.gain_upper
    hits = {"false_reached": "false", "found": "named", "threshold": "threshold"}
    shares = {share: Share(hits=count[counted], of=studies) for share, counted in hits.items()}
    shares["gain"] = Share(hits=count["gain"], of=studies * (len(SIZES) - 1))
    return _row("table", truth, 1, studies, seconds, shares)


# --- Learning

LEARNING_SIZES = [16, 32, 64, 128]


@dataclass(frozen=True)
class LearningScenario(Scenario):
    """Seconds to the target whose truth is known: log-normal over seeds."""

    seconds: Sequence[float]
    """True medians at `LEARNING_SIZES`."""
    noise: float
    """Standard deviation of the logarithm."""
    budget_s: float = math.inf
    """Seeds that take longer are censored."""
    second_hump: float = 0.0
    """A seed in three takes exp of this times as long."""
    seeds: tuple[int, ...] = (3, 10)

    @property
    def savings(self) -> list[float]:
        """True savings of every doubling."""
        return [1 - larger / smaller for smaller, larger in zip(self.seconds[:-1], self.seconds[1:], strict=True)]

    @property
    def pays(self) -> dict[int, bool]:
        """Whether doubling truly saves delta or more, by num_envs."""
        return {n: saving >= LEARNING_DELTA - 1e-9 for n, saving in zip(LEARNING_SIZES, self.savings, strict=False)}


SECONDS_AT_DELTA = [40.0 * (1 - LEARNING_DELTA) ** i for i in range(len(LEARNING_SIZES))]

LEARNING: tuple[LearningScenario, ...] = (
    LearningScenario("saturating", [40.0, 22.0, 20.0, 19.5], 0.15),
    LearningScenario("clear plateau", [80.0, 40.0, 39.0, 39.0], 0.05),
    LearningScenario("linear", [80.0, 40.0, 20.0, 10.0], 0.15),
    LearningScenario("non-monotone", [40.0, 38.0, 20.0, 30.0], 0.15),
    LearningScenario("noisy", [40.0, 22.0, 20.0, 19.5], 0.50),
    LearningScenario("every doubling at delta", SECONDS_AT_DELTA, 0.20),
    LearningScenario("at delta, every fourth seed of the first point censored", SECONDS_AT_DELTA, 0.20, 46.0),
    LearningScenario("at delta, half the seeds of the first point censored", SECONDS_AT_DELTA, 0.20, 40.0),
    LearningScenario("censored at 2N", [40.0, 30.0, 35.0, 26.0], 0.20, 40.0, seeds=(3, 6, 10)),
    LearningScenario("at delta, two humps", SECONDS_AT_DELTA, 0.10, second_hump=0.8),
    LearningScenario("two seeds", [40.0, 22.0, 20.0, 19.5], 0.15, seeds=(2,)),
)


def prove_learning(scenario: LearningScenario, seeds: int, studies: int, seed: int) -> ProofRow:
    """Return how often learning limits of a scenario's studies were right."""
    generator = _generator(seed, scenario.name, seeds)
    series = Series("simulated", 1, None)
    count: Counter[str] = Counter()
    seconds = 0.0
    for _ in range(studies):
        costs = simulated_seeds(scenario, seeds, generator)
        start = time.process_time()
        points = [learning.point_of(num_envs, cost, SETTINGS.confidence) for num_envs, cost in costs.items()]
        limit = learning.limit_of(series, points, costs, SETTINGS)
        seconds += time.process_time() - start
        _judge(limit.threshold_num_envs, scenario, count)
        for gain, truth in zip(limit.gains, scenario.savings, strict=True):
            if gain.gain_lower is not None and gain.gain_upper is not None:
                count["intervals"] += 1
                count["gain"] += gain.gain_lower <= truth <= gain.gain_upper
    return _row("learning", scenario, seeds, studies, seconds, _decisions(count, studies, scenario))


def simulated_seeds(scenario: LearningScenario, seeds: int, generator: np.random.Generator) -> dict[int, Seeds]:
    """Return what the seeds of one study cost, by num_envs."""
    deviations = scenario.noise * generator.standard_normal((len(LEARNING_SIZES), seeds))
    deviations += scenario.second_hump * (generator.random(deviations.shape) < 1 / 3)
    seconds = np.array(scenario.seconds)[:, None] * np.exp(deviations)
    return {
        n: Seeds(
            tuple(row[row < scenario.budget_s]), tuple(np.full((row >= scenario.budget_s).sum(), scenario.budget_s))
        )
        for n, row in zip(LEARNING_SIZES, seconds, strict=True)
    }


# --- Memory

BASE_GB, PER_ENV_GB, PER_TRANSITION_GB, PER_BATCH_GB = 1.5, 2e-3, 2.2e-4, 5e-5
DEVICE_GB = 85.0
MEMORY_HORIZON, MEMORY_BATCH = 16, 128
"""Where the wall is judged."""


@dataclass(frozen=True)
class MemoryScenario(Scenario):
    """Peaks that follow the model, with noise."""

    sizes: Sequence[int]
    horizons: Sequence[int] = (MEMORY_HORIZON,)
    batches: Sequence[int] = (MEMORY_BATCH,)
    noise_gb: float = 0.0
    noise_share: float = 0.0
    """Standard deviation in parts of the peak."""
    repeats: tuple[int, ...] = (1, 3)


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


def prove_memory(scenario: MemoryScenario, repeats: int, studies: int, seed: int) -> ProofRow:
    """Return how often the interval of the largest num_envs held the wall that one more trial would meet."""
    generator = _generator(seed, scenario.name, repeats)
    free_gb = DEVICE_GB * (1.0 - SETTINGS.memory_margin)
    per_env = PER_ENV_GB + PER_TRANSITION_GB * MEMORY_HORIZON
    fixed = peak_gb(0, 0, MEMORY_BATCH)
    covered, seconds = 0, 0.0
    for _ in range(studies):
        samples = list(simulated_peaks(scenario, repeats, generator))
        start = time.process_time()
        limit = memory_limit.limit_of("simulated", samples, Room(DEVICE_GB), SETTINGS)
        seconds += time.process_time() - start
        wall = limit.wall(MEMORY_HORIZON, MEMORY_BATCH)
        assert wall is not None
        # One more trial, with noise of its own: it meets the memory where truth and noise together fill it.
        noise = scenario.noise_gb + scenario.noise_share * free_gb
        met = math.floor((free_gb - fixed - noise * generator.standard_normal()) / per_env)
        covered += _within(met, wall.largest_num_envs_lower, wall.largest_num_envs_upper)
    return _row("memory", scenario, repeats, studies, seconds, {"wall": Share(hits=covered, of=studies)})


def simulated_peaks(scenario: MemoryScenario, repeats: int, generator: np.random.Generator) -> Iterator[Sample]:
    """Yield the trials of one study; what needs more than the device has ends as out of memory."""
    for point in itertools.product(scenario.sizes, scenario.horizons, scenario.batches):
        truth = peak_gb(*point)
        scale = scenario.noise_gb + scenario.noise_share * truth
        for peak in truth + scale * generator.standard_normal(repeats):
            status, peak_or_none = ("ok", float(peak)) if peak <= DEVICE_GB else ("oom", None)
            yield Sample("throughput", *point, None, status, peak_or_none)


# --- All of it


def _judge(named: int | None, scenario: Scenario, count: Counter[str]) -> None:
    """Count whether a study named a threshold wrongly, and whether it named the true one."""
    count["false"] += named in scenario.still_paying
    count["found"] += named is not None and named == scenario.true_threshold


def _decisions(count: Counter[str], studies: int, scenario: Scenario) -> dict[str, Share]:
    """Return the shares that throughput and learning have in common."""
    shares = {"false_reached": Share(hits=count["false"], of=studies)}
    if scenario.true_threshold is not None:
        shares["found"] = Share(hits=count["found"], of=studies)
    if count["intervals"]:
        shares["gain"] = Share(hits=count["gain"], of=count["intervals"])
    return shares


def _row(
    limit: Limit, scenario: Scenario, repeats: int, studies: int, seconds: float, shares: Mapping[str, Share]
) -> ProofRow:
    """Return a row; `seconds` is the processor time of all verdicts."""
    return ProofRow(
        limit=limit,
        scenario=scenario.name,
        repeats=repeats,
        studies=studies,
        in_scope=scenario.in_scope,
        ms_per_verdict=1e3 * seconds / studies,
        **shares,
    )


def prove(studies: int, seed: int, tell: Callable[[ProofRow], None] = lambda row: None) -> Proof:
    """Simulate `studies` of each scenario and number of repeats; the same numbers for the same arguments, times apart.

    `tell` is called with each row as it is done.
    """
    rows = []
    for simulation in wanted():
        row = simulation.prove(studies, seed)
        tell(row)
        rows.append(row)
    return Proof(seed=seed, studies=studies, delta=SETTINGS.delta, confidence=SETTINGS.confidence, rows=rows)


class Wanted(NamedTuple):
    """A row, and what simulates it for a number of studies and a seed."""

    limit: str
    scenario: str
    repeats: int
    prove: Callable[[int, int], ProofRow]


def wanted() -> list[Wanted]:
    """Return every row of the table, in its order."""
    throughput = [(scenario, repeats) for scenario in THROUGHPUT for repeats in scenario.repeats]
    searched = [(scenario, repeats) for scenario, repeats in throughput if scenario.name in ADAPTIVE and repeats > 2]
    learned = [(scenario, seeds) for scenario in LEARNING for seeds in scenario.seeds]
    peaks = [(scenario, repeats) for scenario in MEMORY for repeats in scenario.repeats]
    return [
        *(Wanted("throughput", scenario.name, r, partial(prove_throughput, scenario, r)) for scenario, r in throughput),
        *(
            Wanted("throughput", f"adaptive: {scenario.name}", r, partial(prove_adaptive, scenario, r))
            for scenario, r in searched
        ),
        *(Wanted("table", name, 1, partial(prove_table, name)) for name in TABLES),
        *(
            Wanted("learning", scenario.name, seeds, partial(prove_learning, scenario, seeds))
            for scenario, seeds in learned
        ),
        *(Wanted("memory", scenario.name, r, partial(prove_memory, scenario, r)) for scenario, r in peaks),
    ]


def _generator(seed: int, name: str, repeats: int) -> np.random.Generator:
    """Return noise of a scenario's own: adding one changes no other."""
    return np.random.default_rng([seed, zlib.crc32(name.encode()), repeats])


SHARES: Mapping[str, str] = {
    "false_reached": "false reached",
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
        return "" if share is None else f"{share.share:.1%}{' !' if name in missed else ''}"

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
    lines = [summary(proof, "\n\n- ", "\n- "), "", f"| {' | '.join(HEADINGS)} |", "|" + " --- |" * len(HEADINGS)]
    lines += [f"| {' | '.join(cells(row))} |" for row in proof.rows]
    return "\n".join(lines) + "\n"


def within(page: str, table: str) -> str:
    """Return a page with the table in its place; the table alone where the page has none."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    return f"{before}{begin}\n{table}\n{end}{after}" if begin and end else table


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
