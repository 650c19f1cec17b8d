"""Profile Thompson as a sampler of Optuna: the next setting of a study whose trials have costs.

A completed trial's value is its cost, or with direction "maximize" one over its cost: above 0. Its attribute `CENSORED` says that the cost
is only a lower bound. Trials that run, or that failed, tell the model nothing.

It works in any Optuna study: `optuna.create_study(sampler=ProfileSampler(...))`, then `study.ask(ranks.distributions)`.
"""

import math
from collections.abc import Collection, Sequence
from typing import Any

import optuna
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from envknee.ask.samplers._ranks import Ranks
from envknee.base.point import Point
from envknee.verdict.joint import surface, thompson
from envknee.verdict.joint.posterior import Trials

CENSORED = "censored"
"""Attribute of a trial whose cost is only a lower bound."""


class ProfileSampler(BaseSampler):
    """First the `startup` settings, then those that are best in a surface drawn from the model."""

    def __init__(
        self,
        ranks: Ranks,
        settings: Sequence[Point],
        allowed: Collection[Point],
        startup: Sequence[Point],
        results: int,
        seed: int,
    ) -> None:
        """Take the settings of the model, and those of them that may be tried: one or more.

        `startup` has settings in the order in which they are tried until `results` trials have ended. `seed` makes the draw.
        """
        self._ranks = ranks
        self._settings = list(settings)
        self._allowed = [setting for setting in self._settings if setting in allowed]
        self._startup = [setting for setting in startup if setting in allowed]
        self._results = results
        self._seed = seed

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """Return all parameters: they are chosen together."""
        return self._ranks.distributions

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Return the parameters of the next setting."""
        return self._ranks.params(self._next(study, trial))

    def sample_independent(
        self, study: optuna.Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Refuse: all parameters are known beforehand.

        Raises:
            ValueError: always.
        """
        raise ValueError(f"parameter {param_name!r} is none of {', '.join(self._ranks.distributions)}")

    def _next(self, study: optuna.Study, trial: FrozenTrial) -> Point:
        earlier = [known for known in study.get_trials(deepcopy=False) if known.number != trial.number]
        tried = {self._ranks.point(known.params) for known in earlier}
        untried = [setting for setting in self._startup if setting not in tried]
        ended = [known for known in earlier if known.state.is_finished()]
        if untried and len(ended) < self._results:
            return untried[0]
        told = [known for known in ended if known.state == TrialState.COMPLETE]
        if not told:
            return untried[0] if untried else self._allowed[trial.number % len(self._allowed)]
        place_of = {setting: place for place, setting in enumerate(self._settings)}
        sign = -1.0 if study.direction == StudyDirection.MAXIMIZE else 1.0
        trials = Trials(
            [place_of[self._ranks.point(known.params)] for known in told],
            [sign * math.log(known.values[0]) for known in told],
            [bool(known.user_attrs.get(CENSORED)) for known in told],
        )
        fitted = surface.fit(self._settings, trials)
        allowed = [place_of[setting] for setting in self._allowed]
        return self._settings[thompson.next_place(fitted, allowed, trial.number, self._seed)]
