"""What single seeds of a simulated study deviate from the truth. Pure."""

import math
from dataclasses import dataclass

import numpy as np
from envknee.verdict.joint.observed import Observed
from envknee.verdict.joint.prior import Array

from benchmarks.joint.landscapes import OCTAVES


@dataclass(frozen=True)
class Noise:
    """Normal deviations of ln cost; some seeds are far slower, and those beyond a budget are censored."""

    sd: float
    """In the middle of the num_envs."""
    per_octave: float = 0.0
    """What ln sd grows by with each doubling of num_envs."""
    slow_share: float = 0.0
    """Share of the seeds that are slower."""
    slow_log: float = 0.0
    """By how much, in ln cost."""
    budget_times: float = math.inf
    """Budget of a seed, in times the truly least cost."""
    of_process: float = 0.0
    """Standard deviation of what all fresh seeds of a round share, as if a process measured them; no part of `sd`."""

    @property
    def mean(self) -> float:
        """The mean deviation of ln cost, which belongs to the truth."""
        return self.slow_share * self.slow_log

    def sds(self) -> Array:
        """Return the standard deviation at each setting, without slow seeds. Shape (settings,)."""
        middle = (OCTAVES[:, 0].min() + OCTAVES[:, 0].max()) / 2.0
        return self.sd * np.exp(self.per_octave * (OCTAVES[:, 0] - middle))

    def seed(self, costs: Array, place: int, generator: np.random.Generator) -> Observed:
        """Return what one seed at a setting costs. `costs` are true ln costs, shape (settings,)."""
        deviation = self.sds()[place] * generator.standard_normal() + self.slow_log * (
            generator.random() < self.slow_share
        )
        cost, budget = math.exp(costs[place] + deviation), self.budget_times * math.exp(float(costs.min()))
        return Observed(min(cost, budget), cost >= budget)
