"""A simulated study: the search, the confirming stage and the answer, by the code of real ones.

Input: true costs, noise and a plan. Output: the settings that were confirmed, and joint answers at several deltas. Pure.

    search   records at the settings of sampler sobol, or at those that profile Thompson draws (`verdict.joint.thompson`)
    confirm  `ask.confirm` chooses the settings; fresh seeds are records, too
    answer   `verdict.joint.answer`

That a study through requests and policies says the same is tested (tests/unit/project/test_joint_proof.py).
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from envknee.ask import confirm
from envknee.ask.history import History
from envknee.ask.question import Question
from envknee.ask.refusals import KnownMemory
from envknee.ask.samplers.points import sobol
from envknee.base.fields import Kind
from envknee.base.point import Point
from envknee.decide.settings import settings_of
from envknee.record.packed import study_folder
from envknee.record.read import load_records
from envknee.record.schema import Record, Request
from envknee.study import space
from envknee.study.designs import derived_seed
from envknee.study.load import parse_study
from envknee.study.model import Study
from envknee.study.value_types import ASK_VERSION
from envknee.verdict.joint import answer as answers
from envknee.verdict.joint import fresh, surface, thompson
from envknee.verdict.joint.observed import Observed, trials_of
from envknee.verdict.joint.posterior import Trials
from envknee.verdict.joint.prior import Array
from envknee.verdict.joint.surface import Surface
from envknee.verdict.rule.doublings import Seeds
from envknee.verdict.schema.joint import JointAnswer

from benchmarks.joint.handed import AXES, SETTINGS
from benchmarks.joint.noises import Noise

Search = Literal["sobol", "profile"]

SOBOL_ORDERS = 16
"""Different scrambled sequences: each takes half a second to draw, and a study has one of them."""

ARM = "played"
PLACE_OF = {setting: place for place, setting in enumerate(SETTINGS)}


@dataclass(frozen=True)
class Plan:
    """What a simulated study measures."""

    kind: Kind = "learning"
    search: Search = "sobol"
    trials: int = 64
    """Of the search."""
    settings: int = 6
    """That are confirmed."""
    seeds: int = 8
    more_seeds: int = 0
    """Of each confirmed setting, where the threshold of num_envs is still undecided."""
    one_process: bool = False
    """Whether a process measures a round of fresh seeds."""

    def study(self, seed: int) -> Study:
        """Return the study of a plan."""
        target = {"target_reward": 4.5, "target_episodes": 10, "budget_s": 600} if self.kind == "learning" else {}
        of_sampler = {"trials": self.trials} if self.search == "profile" else {"points": self.trials, "repeats": 1}
        section = {
            **AXES, **target, **of_sampler, "sampler": self.search, "more_repeats": self.more_seeds,
            "confirm": {"settings": self.settings, "seeds": self.seeds},
        }  # fmt: skip
        if self.one_process:
            section |= {"workers": 1}
            section["confirm"] |= {"one_process": True}
        parsed = {"study": ARM, "ask_version": ASK_VERSION, "seed": seed, "window": 1, "arms": {ARM: {}}}
        return parse_study(parsed | {self.kind: section})


@cache
def study_of(plan: Plan, seed: int) -> Study:
    """Return the study of a plan; there are `SOBOL_ORDERS` of them."""
    return plan.study(seed)


@cache
def slots_of(plan: Plan, seed: int) -> Sequence[space.Slot]:
    """Return its trials."""
    return space.plan(study_of(plan, seed))


@cache
def sobol_places(plan: Plan, seed: int) -> Sequence[int]:
    """Return the settings in Sobol order, as places."""
    return [PLACE_OF[point] for point in sobol.order(study_of(plan, seed), plan.kind)]


Measure = Callable[[int], Observed]
"""Place of a setting -> the cost of its next seed."""


@dataclass(frozen=True)
class Simulated:
    """A study that has ended."""

    searched: Surface
    """What the model makes of the search alone."""
    confirmed: Sequence[int]
    """Places of the settings with fresh seeds."""
    answers: Sequence[JointAnswer]
    """One for each delta."""


def simulate(
    plan: Plan, costs: Array, noise: Noise, deltas: Sequence[float], generator: np.random.Generator
) -> Simulated:
    """Return a study over true ln costs, shape (settings,)."""
    seed = int(generator.integers(SOBOL_ORDERS))

    def measure(place: int) -> Observed:
        return noise.seed(costs, place, generator)

    @cache
    def times_in_round(_: int) -> float:
        return math.exp(noise.of_process * generator.standard_normal())

    of_draws = int(generator.integers(2**31))
    return run(plan, seed, measure, deltas, of_draws, times_in_round if noise.of_process else once)


def once(_: int) -> float:
    """Return what the cost of fresh seeds is multiplied by in a round that shares nothing."""
    return 1.0


def run(
    plan: Plan,
    seed: int,
    measure: Measure,
    deltas: Sequence[float],
    of_draws: int = 0,
    times_in_round: Callable[[int], float] = once,
) -> Simulated:
    """Return a study of which `measure` tells each trial's cost.

    `seed` is the study's, `of_draws` that of the search's draws. `times_in_round` is what a round's fresh seeds share, by its number.
    """
    study, slots = study_of(plan, seed), slots_of(plan, seed)
    with once_each():
        places = sobol_places(plan, seed)
        if plan.search == "profile":
            tried = search_by_profile(plan.trials, places, measure, partial(derived_seed, of_draws))
        else:
            tried = [(place, measure(place)) for place in places[: plan.trials]]
        records = [record_of(slot, SETTINGS[place], cost) for slot, (place, cost) in zip(slots, tried, strict=False)]
        requests = [record.request for record in records]
        of_stage = slots[len(records) :]
        known = dict(enumerate(records))
        memory = KnownMemory.from_footprints(ARM, [], study.arms[ARM])
        question = Question(study, of_stage[0], History.of(requests, known), memory)
        chosen = confirm.settings_to_confirm(question)
        for slot in of_stage:
            point = chosen[slot.chunk]
            alone = measure(PLACE_OF[point])
            cost = Observed(alone.cost * times_in_round(slot.repeat), alone.is_censored)
            records.append(record_of(slot, point, cost))
        searched = surface.fit(SETTINGS, trials_of(list(known.values()), SETTINGS, plan.kind))
        return Simulated(
            searched,
            [PLACE_OF[point] for point in chosen],
            [answer_of(plan, study, records, delta) for delta in deltas],
        )


def answer_of(plan: Plan, study: Study, records: Sequence[Record], delta: float) -> JointAnswer:
    """Return the joint answer at a delta; further seeds count only where those as planned leave num_envs undecided."""
    joint = settings_of(study).joint[plan.kind]
    settings = study.decide.model_copy(update={"delta": delta, "delta_learning": delta})

    def answer(known: Sequence[Record]) -> JointAnswer:
        return answers.answer(ARM, plan.kind, known, joint, settings, 1)

    further = plan.settings * plan.more_seeds
    found = answer(records[: len(records) - further])
    undecided = any(own.axis == "num_envs" and own.state == "undecided" for own in found.thresholds)
    return answer(records) if further and undecided else found


def search_by_profile(
    trials: int, startup: Sequence[int], measure: Measure, seed_of: Callable[[int], int]
) -> list[tuple[int, Observed]]:
    """Return the trials of profile Thompson, one after the other: place and cost.

    `startup` are the places to begin with; `seed_of` returns the seed of a trial's draw by its number.
    """
    tried: list[tuple[int, Observed]] = []
    for number in range(trials):
        if number < thompson.startup_of(trials):
            place = startup[number]
        else:
            fitted = surface.fit(SETTINGS, trials_at(tried))
            place = thompson.next_place(fitted, range(len(SETTINGS)), number, seed_of(number))
        tried.append((place, measure(place)))
    return tried


def trials_at(tried: Sequence[tuple[int, Observed]]) -> Trials:
    """Return trials of a search as the model takes them."""
    return Trials(
        [place for place, _ in tried],
        [float(np.log(cost.cost)) for _, cost in tried],
        [cost.is_censored for _, cost in tried],
    )


# Records


@cache
def template(kind: Kind) -> Record:
    """Return the record of a published trial, in whose place simulated ones stand."""
    of_kind = {"learning": "cartpole-one-gpu-learning", "throughput": "quick-fps"}[kind]
    published = load_records(study_folder(Path(__file__).parents[2] / "results-published" / of_kind))
    ended = {"learning": "target_reached", "throughput": "ok"}[kind]
    return next(own for own in published if own.request.kind == kind and own.outcome.status == ended)


def request_of(slot: space.Slot, point: Point) -> Request:
    """Return the request of a slot at a setting."""
    update = {
        **vars(point), "number": slot.number, "arm": slot.arm, "repeat": slot.repeat, "seed": slot.number,
        "confirms": slot.confirms, "skip": None, "refusal": None, "scaled_from": None,
    }  # fmt: skip
    return template(slot.kind).request.model_copy(update=update)


def record_of(slot: space.Slot, point: Point, cost: Observed) -> Record:
    """Return the record of a trial that cost so much. Its memory grows with the rollout, and fits everywhere."""
    return recorded(request_of(slot, point), cost)


def recorded(request: Request, cost: Observed) -> Record:
    """Return the record of a request."""
    own = template(request.kind)
    # A little, so that everything fits.
    update: dict[str, Any] = {"request": request, "memory_peak_gb": 1.0 + 1e-6 * request.point.rollout}
    if request.kind == "throughput":
        assert own.fps_total is not None
        update["fps_total"] = own.fps_total.model_copy(update={"median": 1.0 / cost.cost})
    else:
        status = "timeout" if cost.is_censored else "target_reached"
        # `cost` leaves a process's first environment step out, and so do these seconds.
        update["outcome"] = own.outcome.model_copy(update={"status": status, "startup_s": None})
        update |= {"train_s": cost.cost, "seconds_to_target": None if cost.is_censored else cost.cost}
    return own.model_copy(update=update)


@contextmanager
def once_each() -> Iterator[None]:
    """Fit the same trials once, draw from the same surface once, and level the same seeds once."""
    fit, draws, levels_of = surface.fit, Surface.draws, fresh.levels_of
    drawn: dict[tuple[int, int, int], tuple[Surface, Array]] = {}
    fits: dict[tuple[Any, ...], Surface] = {}
    levels: dict[tuple[bool | Seeds, ...], fresh.Levels] = {}

    def fitted(settings: Sequence[Point], trials: Trials) -> Surface:
        key = (tuple(trials.places), tuple(trials.log_costs), tuple(trials.is_censored))
        if key not in fits:
            fits[key] = fit(settings, trials)
        return fits[key]

    def drawn_from(self: Surface, count: int, seed: int) -> Array:
        key = (id(self), count, seed)
        if key not in drawn:
            drawn[key] = (self, draws(self, count, seed))
        return drawn[key][1]

    def levelled(seeds: Sequence[Seeds], one_process: bool = False) -> fresh.Levels:
        key = (one_process, *seeds)
        if key not in levels:
            levels[key] = levels_of(seeds, one_process)
        return levels[key]

    surface.fit = answers.fit = fitted
    answers.levels_of = levelled
    Surface.draws = drawn_from
    try:
        yield
    finally:
        surface.fit = answers.fit = fit
        answers.levels_of = levels_of
        Surface.draws = draws
