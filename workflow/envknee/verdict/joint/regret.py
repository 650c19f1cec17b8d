"""What a search would have lost, had it ended sooner: the pick of the model after its first trials. Pure.

The loss of a pick is judged by the model of all trials, and amplitude and noise are those of this model throughout, so that a step takes
one posterior: milliseconds.
"""

import math

import numpy as np

from envknee.verdict.joint.posterior import Trials, posterior
from envknee.verdict.joint.prior import Array, prior_of
from envknee.verdict.joint.surface import Surface
from envknee.verdict.schema.joint import RegretStep

FIRST = 4
"""Trials of the first step; each further one has about 1.4 times as many."""


def steps_of(trials: int) -> list[int]:
    """Return after how many trials the pick is judged: 4, 6, 8, 11, 16, 23, ..., and all."""
    doublings = math.log2(max(trials, FIRST) / FIRST)
    steps = {round(FIRST * 2 ** (half / 2)) for half in range(int(2 * doublings) + 1)}
    return sorted({step for step in steps if step < trials} | {trials} - {0})


def regret_of(surface: Surface, draws: Array, searched: Trials, confidence: float) -> list[RegretStep]:
    """Return the expected loss of the pick after each number of trials of `steps_of`.

    `surface` and its `draws` (shape (draws, settings)) know all trials; `searched` are those of the search, in their order.
    """
    covariance = prior_of(surface.settings).covariance(surface.amplitude)
    least = draws.min(axis=1)
    found = []
    for count in steps_of(len(searched.places)):
        pick = int(posterior(covariance, _first(searched, count), surface.noise).mean.argmin())
        losses = np.expm1(draws[:, pick] - least)
        found.append(
            RegretStep(
                **vars(surface.settings[pick]),
                trials=count,
                regret=float(losses.mean()),
                regret_upper=float(np.quantile(losses, confidence)),
            )
        )
    return found


def _first(trials: Trials, count: int) -> Trials:
    return Trials(trials.places[:count], trials.log_costs[:count], trials.is_censored[:count])
