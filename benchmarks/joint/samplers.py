"""What samplers leave after as many trials: true cost above the best of the setting that the model picks, and of the best one seen.

Each sampler searches the same truths: the data's own fit with deviations of another length than the model's, drawn anew for each study.
Samplers of points try 64 different settings, and then each of them again with a seed of its own, as a study with `points: 64` and
`repeats: 4` does; requests are asked by the code of real studies. Sampler profile chooses each trial itself, and may repeat any setting.
"""

import math
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
from envknee.ask.ask import answer
from envknee.ask.history import History
from envknee.record.schema import Record, Request
from envknee.study import space
from envknee.study.designs import derived_seed
from envknee.study.load import parse_study
from envknee.study.model import Study
from envknee.study.value_types import ASK_VERSION
from envknee.verdict.joint import surface
from envknee.verdict.joint.observed import Observed
from envknee.verdict.joint.prior import Array

from benchmarks.joint import studies
from benchmarks.joint.counts import Counting, Tally
from benchmarks.joint.handed import AXES, SETTINGS
from benchmarks.joint.landscapes import Deviating, as_handed
from benchmarks.joint.noises import Noise
from benchmarks.joint.studies import ARM, PLACE_OF, Measure, recorded, trials_at

TRIALS = (64, 128, 256)
POINTS = 64
NEAR = 0.05
"""Regret up to which a pick counts as near the best."""

LANDSCAPE, NOISE = Deviating(as_handed, 0.10, 1.0), Noise(0.29)

Tried = Sequence[tuple[int, Observed]]
"""Place and cost of each trial, in order."""


def by_points(sampler: str) -> Callable[[Measure, int], Tried]:
    """Return the search of a sampler of points."""

    def search(measure: Measure, seed: int) -> Tried:
        study = study_of(sampler, seed % studies.SOBOL_ORDERS)
        requests: list[Request] = []
        records: dict[int, Record] = {}
        tried: list[tuple[int, Observed]] = []
        for slot in space.plan(study):
            request = answer(study, slot, History.of(requests, records))
            place = PLACE_OF[request.point]
            tried.append((place, measure(place)))
            requests.append(request)
            records[slot.number] = recorded(request, tried[-1][1])
        return tried

    return search


def study_of(sampler: str, seed: int) -> Study:
    """Return the study of a sampler of points."""
    section = {
        **AXES, "target_reward": 4.5, "target_episodes": 10, "budget_s": 600,
        "sampler": sampler, "points": POINTS, "repeats": max(TRIALS) // POINTS,
    }  # fmt: skip
    parsed = {"study": ARM, "ask_version": ASK_VERSION, "seed": seed, "window": 1, "arms": {ARM: {}}}
    return parse_study(parsed | {"learning": section})


def by_profile(measure: Measure, seed: int) -> Tried:
    """Return the search of sampler profile."""
    startup = studies.sobol_places(studies.Plan(search="profile"), seed % studies.SOBOL_ORDERS)
    return studies.search_by_profile(max(TRIALS), startup, measure, partial(derived_seed, seed))


SAMPLERS: Mapping[str, Callable[[Measure, int], Tried]] = {
    **{name: by_points(name) for name in ("random", "sobol", "tpe", "gp")},
    "profile": by_profile,
}


def part(sampler: str, number: int, count: int, seed: int) -> Tally:
    """Return the counts of a part of a sampler's studies. All samplers have the same truths."""
    counting, start = Counting(), time.process_time()
    for place in range(count):
        truths = np.random.default_rng([seed, number, place])
        costs = LANDSCAPE(truths)
        generator = np.random.default_rng([seed, number, place, zlib.crc32(sampler.encode())])
        counting.studies += 1
        judge(search(sampler, costs, generator), costs, counting)
    return counting.tally(time.process_time() - start)


def search(sampler: str, costs: Array, generator: np.random.Generator) -> Tried:
    """Return the trials of a sampler over true ln costs, shape (settings,)."""
    return SAMPLERS[sampler](lambda place: NOISE.seed(costs, place, generator), int(generator.integers(2**31)))


def judge(tried: Tried, costs: Array, counting: Counting) -> None:
    """Count the regrets after each number of trials."""
    least = float(costs.min())
    for trials in TRIALS:
        picked = int(surface.fit(SETTINGS, trials_at(tried[:trials])).mean.argmin())
        seen, cost = min(tried[:trials], key=lambda own: own[1].cost)
        regret = math.expm1(float(costs[picked]) - least)
        counting.figure(f"picked: {trials}", regret)
        counting.share(f"near: {trials}", regret <= NEAR)
        counting.figure(f"seen: {trials}", math.expm1(float(costs[seen]) - least))
        counting.figure(f"told: {trials}", cost.cost / math.exp(float(costs[seen])))
