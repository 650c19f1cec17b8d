"""What Optuna is told of earlier trials, and the points that it proposes.

Input: the requests of one (arm, kind) and the records that the window shows. Output: a point. Pure: the Optuna study
is rebuilt in memory for every request, each attempt with a seed of its own.
"""

import warnings
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from envknee import space
from envknee.config import Learning, Sweep
from envknee.designs import derived_seed
from envknee.record import Record, Request
from envknee.space import Point

MEMORY_MARGIN = 0.05
"""Share of the device's memory that a point must leave free. Not `decide.memory_margin`: that one may be changed after
the measurement, and requests may not."""

STARTUP_POINTS = 8

MAX_ATTEMPTS = {"tpe": 50, "gp": 12}
"""Proposals per request before giving up. One of gp takes about 0.15 s, one of tpe 3 ms."""

OOM_EXCESS = 0.5
"""Memory constraint of a trial that did not fit: as if it had wanted half as much again as there is."""

AXES = ("num_envs", "horizon", "batch_size")

DID_NOT_FIT = ("oom", "refused")


@dataclass(frozen=True)
class Observation:
    """What a sampler is told of one earlier point."""

    point: Point
    value: float | None
    """FPS (more is better) or seconds to target (less is better); None while the trial runs."""
    memory_excess: float
    """Share of the usable memory that it took beyond all of it; 0 or less is feasible."""


def point_of(request: Request) -> Point:
    """Return the point that a request runs."""
    return Point(request.num_envs, request.horizon, request.batch_size)


def startup_points(sweep: Sweep) -> int:
    """Return how many results tpe and gp wait for, asking in Sobol order meanwhile: 8, or half the points if fewer."""
    return min(STARTUP_POINTS, max(1, space.points_asked(sweep) // 2))


def observe(sweep: Sweep, requests: Sequence[Request], records: Mapping[int, Record]) -> list[Observation]:
    """Return what the sampler is told of the requests of one (arm, kind), in their order.

    A trial without a record is running. One that did not fit is infeasible, and like one that broke before it could
    be timed it gets the worst value seen.
    """
    values = {
        request.number: _value(sweep, records[request.number]) for request in requests if request.number in records
    }
    known = [value for value in values.values() if value is not None]
    worst = max(known, default=2 * sweep.budget_s) if isinstance(sweep, Learning) else min(known, default=0.0)
    observations = []
    for request in requests:
        if request.number not in records:
            observations.append(Observation(point_of(request), None, 0.0))
            continue
        value, excess = values[request.number], _memory_excess(records[request.number])
        observations.append(Observation(point_of(request), worst if value is None else value, excess))
    return observations


def censored_seconds(best_reward: float, target_reward: float, budget_s: float) -> float:
    """Return a pessimistic stand-in for the seconds to a target that was not reached within the budget.

    The true time is beyond `budget_s`, by how much is unknown. So that a sampler still sees which of two censored
    trials came closer, it is budget_s x (2 - progress) with progress = |target| / (|target| + shortfall): the budget
    for a trial on the brink, twice the budget for one that got nowhere. Only samplers see it; for verdicts the trial
    stays censored.
    """
    scale = abs(target_reward) or 1.0
    shortfall = max(0.0, target_reward - best_reward)
    return budget_s * (2 - scale / (scale + shortfall))


def propose(
    sweep: Sweep, observations: Sequence[Observation], allowed: Collection[Point], *seed_key: int | str
) -> Point | None:
    """Return the first of the sampler's proposals that is allowed, or None after too many that are not.

    Each axis is given as the rank in its ascending values: for doublings, the exponent. A proposal that is not
    allowed stays in the rebuilt study as running, so that the next attempt looks elsewhere.
    """
    import optuna  # 0.3 s, and torch for gp: only where one of them picks the points
    from optuna.distributions import BaseDistribution, IntDistribution
    from optuna.trial import TrialState, create_trial

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    axes: dict[str, tuple[int | None, ...]] = dict(zip(AXES, space.axes(sweep), strict=True))
    ranks: dict[str, BaseDistribution] = {
        name: IntDistribution(0, len(axis) - 1) for name, axis in axes.items() if len(axis) > 1
    }
    history = optuna.create_study(direction="minimize" if isinstance(sweep, Learning) else "maximize")
    for observation in observations:
        params = {name: axes[name].index(getattr(observation.point, name)) for name in ranks}
        if observation.value is None:
            trial = create_trial(state=TrialState.RUNNING, params=params, distributions=ranks)
        else:
            constraints = {"memory": observation.memory_excess}
            trial = create_trial(value=observation.value, params=params, distributions=ranks, constraints=constraints)
        history.add_trial(trial)
    with warnings.catch_warnings(), _one_thread() if sweep.sampler == "gp" else nullcontext():
        warnings.simplefilter("ignore")  # that features are experimental: the version is pinned
        for attempt in range(MAX_ATTEMPTS[sweep.sampler]):
            seed, startup = derived_seed(*seed_key, sweep.sampler, attempt), startup_points(sweep)
            if sweep.sampler == "gp":
                history.sampler = optuna.samplers.GPSampler(seed=seed, n_startup_trials=startup)
            else:
                history.sampler = optuna.samplers.TPESampler(
                    seed=seed, n_startup_trials=startup, multivariate=True, constant_liar=True
                )
            chosen = history.ask(ranks).params
            num_envs, horizon, batch_size = (axis[chosen.get(name, 0)] for name, axis in axes.items())
            assert num_envs is not None
            assert horizon is not None
            point = Point(num_envs, horizon, batch_size)
            if point in allowed:
                return point
    return None


def _one_thread() -> AbstractContextManager[object]:
    """Limit NumPy's, SciPy's and torch's threads to one: gp's many small steps then take a fifth of the time, or less."""
    import torch  # noqa: F401  # only what is loaded can be limited
    from threadpoolctl import threadpool_limits

    return threadpool_limits(limits=1)


def _value(sweep: Sweep, record: Record) -> float | None:
    """Return the objective of a trial, or None where it has none."""
    if record.outcome.status in DID_NOT_FIT:
        return None
    if not isinstance(sweep, Learning):
        return record.fps_total.median if record.fps_total else None
    if record.seconds_to_target is not None:
        return record.seconds_to_target
    if record.outcome.status != "timeout" or record.best_reward is None:
        return 2 * sweep.budget_s
    return censored_seconds(record.best_reward, sweep.target_reward, sweep.budget_s)


def _memory_excess(record: Record) -> float:
    if record.outcome.status in DID_NOT_FIT:
        return OOM_EXCESS
    if record.memory_peak_gb is None or record.rank_memory_gb is None:
        return 0.0  # it broke before the first measurement, and not for want of memory
    return record.memory_peak_gb / (record.rank_memory_gb * (1 - MEMORY_MARGIN)) - 1
