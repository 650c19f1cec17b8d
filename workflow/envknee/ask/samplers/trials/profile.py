"""One model over num_envs, horizon and batch size: the best setting, and the best one of each num_envs (`verdict.joint.thompson`).

Optuna's study is rebuilt in memory for each request, and each draw has a seed of its own. A setting may be tried several times, with a seed
of its own each time. One that cannot fit the memory, or whose program crashed or told no cost, is tried no
more.
"""

from collections.abc import Mapping
from typing import Any

from envknee.ask.question import Choice, Question
from envknee.ask.samplers._ranks import Ranks
from envknee.ask.samplers.points import sobol
from envknee.ask.settings_left import settings_left
from envknee.base.point import Point
from envknee.record.reasons import SamplerDone
from envknee.record.schema import Record, Request
from envknee.study.designs import derived_seed


def choose(question: Question) -> Choice:
    """Return the next trial; none once no setting is left that fits the memory."""
    allowed = settings_left(question)
    if not allowed:
        return Choice(min(question.points), 0, SamplerDone())
    point = _propose(question, allowed)
    return Choice(point, sum(asked.point == point for asked in question.asked), None)


def _propose(question: Question, allowed: set[Point]) -> Point:
    import optuna  # takes 0.3 s
    from threadpoolctl import threadpool_limits

    from envknee.ask.samplers.trials._profile_sampler import ProfileSampler
    from envknee.verdict.joint.thompson import startup_of

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study, slot, ranks = question.study, question.slot, Ranks(question.sweep)
    sampler = ProfileSampler(
        ranks,
        question.points,
        allowed,
        sobol.order(study, slot.kind),
        startup_of(question.sweep.search_trials),
        derived_seed(study.seed, "profile", slot.arm, slot.kind, slot.number),
    )
    direction = "minimize" if slot.kind == "learning" else "maximize"
    history = optuna.create_study(direction=direction, sampler=sampler)
    for request in question.requests:
        if request.skip is None:
            history.add_trial(_trial(request, question.records, ranks))
    with threadpool_limits(limits=1):  # the same arithmetic in any process
        return ranks.point(history.ask(ranks.distributions).params)


def _trial(request: Request, records: Mapping[int, Record], ranks: Ranks) -> Any:
    """Return an earlier trial as Optuna's: running without a record, failed if it tells no cost."""
    from optuna.trial import TrialState, create_trial

    from envknee.ask.samplers.trials._profile_sampler import CENSORED
    from envknee.verdict.joint.observed import observed

    end: dict[str, Any] = {"state": TrialState.RUNNING}
    if request.number in records:
        cost = observed(records[request.number])
        end = {"state": TrialState.FAIL}
        if cost is not None:
            value = cost.cost if request.kind == "learning" else 1.0 / cost.cost
            end = {"value": value, "user_attrs": {CENSORED: cost.is_censored}}
    return create_trial(params=ranks.params(request.point), distributions=ranks.distributions, **end)
