"""Optuna's proposals. Its study is rebuilt in memory for each request, and each attempt has a seed of its own."""

import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from envknee.ask.question import Observation, Question, observe
from envknee.ask.samplers._ranks import Ranks
from envknee.ask.samplers.points import sobol
from envknee.base.point import Point
from envknee.study import space
from envknee.study.designs import derived_seed
from envknee.study.model import Learning, Study, Sweep

STARTUP_POINTS = 8


def startup_points(study: Study, sweep: Sweep) -> int:
    """Return the number of results before Optuna's first proposal: 8, or half the points if fewer. Until then Sobol's order counts."""
    return min(STARTUP_POINTS, max(1, space.points_asked(sweep, study.world_sizes) // 2))


def new_point(propose: Callable[..., Point | None], question: Question) -> Point:
    """Return a new point: first from the Sobol order, then one that Optuna proposes (`propose` with the first arguments given)."""
    new = question.new(sobol.order(question.study, question.slot.kind))
    # A refused trial tells nothing new, so it comes last.
    new = [point for point in new if question.memory.refusal(point) is None] or new
    results = sum(request.number in question.records for request in question.requests)
    startup = startup_points(question.study, question.sweep)
    if results < startup or len(new) == 1:
        return new[0]
    observations = observe(question.sweep, question.requests, question.records)
    seed_key = (question.study.seed, question.slot.number)
    return propose(question.sweep, observations, frozenset(new), startup, *seed_key) or new[0]


def propose(
    sampler: str,
    attempts: int,
    options: Mapping[str, Any],
    sweep: Sweep,
    observations: Sequence[Observation],
    allowed: Collection[Point],
    startup: int,
    *seed_key: int | str,
) -> Point | None:
    """Return the first proposal in `allowed`, or None after `attempts` others.

    `sampler` is its name in studies, a part of its seeds and of its class in `optuna.samplers`, which has further `options`.
    Optuna sees each axis as ranks of its ascending values: for doublings, exponents. A proposal that is not allowed stays in the rebuilt
    study as running, so that the next attempt looks elsewhere.
    """
    import optuna  # takes 0.3 s, and gp imports torch
    from optuna.trial import TrialState, create_trial

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    ranks = Ranks(sweep)
    history = optuna.create_study(direction="minimize" if isinstance(sweep, Learning) else "maximize")
    for observation in observations:
        end: dict[str, Any] = {"value": observation.value, "constraints": {"memory": observation.memory_excess}}
        if observation.value is None:
            end = {"state": TrialState.RUNNING}
        history.add_trial(
            create_trial(params=ranks.params(observation.point), distributions=ranks.distributions, **end)
        )
    make = getattr(optuna.samplers, f"{sampler.upper()}Sampler")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings about experimental features; the version is pinned
        for attempt in range(attempts):
            seed = derived_seed(*seed_key, sampler, attempt)
            history.sampler = make(seed=seed, n_startup_trials=startup, **options)
            point = ranks.point(history.ask(ranks.distributions).params)
            if point in allowed:
                return point
    return None
