"""The memory model: a trial's peak as parts per environment, per transition and per mini-batch."""

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from envknee.base.point import Point, batch_transitions
from envknee.verdict.memory_fit import Fit, fit_peaks, units_of
from envknee.verdict.memory_sample import Sample, usual_mini_batches
from envknee.verdict.schema.memory import CardPrediction, Largest
from envknee.verdict.series import Series
from envknee.verdict.settings import Settings

LARGEST_ENVS = 2.0**40
"""A limit above this number of environments counts as none."""

CARDS_MIB = {
    "8 GB (RTX 4060)": 8188,
    "12 GB (RTX 4070)": 12282,
    "16 GB (RTX 4080)": 16376,
    "24 GB (RTX 4090)": 24564,
    "32 GB (RTX 5090)": 32607,
    "40 GB (A100)": 40960,
    "48 GB (L40S)": 46068,
    "80 GB (H100)": 81559,
    "96 GB (H100 NVL)": 95830,
    "141 GB (H200)": 143771,
}
"""Total memory of cards, as nvidia-smi reports it, in MiB."""

CARDS_GB = {card: mebibytes * (2**20 / 1e9) for card, mebibytes in CARDS_MIB.items()}
"""The same in GB."""


class Prediction(NamedTuple):
    """The model's prediction for one more trial, without an interval."""

    peak_gb: float
    largest_num_envs: int | None
    """The largest num_envs that fits the whole memory at this horizon and batch size; None: no limit."""
    fit: Fit


def predict(samples: Sequence[Sample], point: Point, memory_gb: float, world_size: int) -> Prediction | None:
    """Return the prediction for a trial at `point` on a device of `memory_gb`; None without more trials than unknowns."""
    measured = [sample for sample in samples if sample.whole]
    fit = fit_peaks(measured, world_size)
    if fit is None or len(measured) <= len(fit.columns):
        return None
    here = Sample(**asdict(point), mini_batches=usual_mini_batches(measured), status="ok", peak_gb=None)
    largest = largest_fitting(fit, here.series, memory_gb, margin=0.0).largest_num_envs
    peak_gb = float(np.array(units_of(here, world_size)) @ fit.values)
    return Prediction(peak_gb, largest, fit)


def usable_gb(memory_gb: float, margin: float) -> float:
    """Return the memory that trials may take, when a share of it is kept free."""
    return memory_gb * (1.0 - margin)


class _Crossings(NamedTuple):
    """Where an end of the two-sided prediction interval of the peak equals the memory: the largest num_envs has its own ends there.

    With free GB left for N environments of `slope` GB each, (free - slope N)^2 = t^2 (q0 + 2 q1 N + q2 N^2), where q0, q1 and q2 come from
    the covariance of the fit and the noise of one more trial. That is square N^2 - 2 half N + rest = 0.
    """

    free_gb: float
    square: float
    half: float
    rest: float

    def _root(self) -> float:
        return math.sqrt(max(self.half**2 - self.square * self.rest, 0.0))

    def lower_end(self) -> float:
        """Return the largest num_envs at which the upper end of the peak fits; infinite if it always does."""
        if self.free_gb <= 0.0 or self.rest <= 0.0:
            return 0.0
        divisor = self.half + self._root()
        if divisor > 0.0:
            # The smaller root, or the root above 0 if `square` is negative.
            return _whole(min(self.rest / divisor, LARGEST_ENVS))
        return math.inf

    def upper_end(self) -> float:
        """Return the largest num_envs at which the lower end of the peak fits, the larger root; infinite if there is none."""
        if self.square > 0.0:
            return _whole(min(max((self.half + self._root()) / self.square, 0.0), LARGEST_ENVS))
        return math.inf


def largest_fitting(fit: Fit, series: Series, memory_gb: float, *, margin: float, confidence: float = 0.95) -> Largest:
    """Return the largest num_envs whose peak fits `memory_gb` minus the margin (a share of it), with its interval.

    It is a prediction interval for one more trial (`_Crossings`). It may extend below sizes that were measured to fit.
    """
    usual = usual_mini_batches([sample for sample in fit.samples if sample.series == series])
    available_gb = usable_gb(memory_gb, margin)
    # The library's batch grows with num_envs, a fixed one does not.
    of_one_env = batch_transitions(1, series.horizon, series.batch_size, usual, fit.world_size)
    batch_per_env, fixed_batch = (of_one_env, 0.0) if series.batch_size is None else (0.0, of_one_env)
    per_env = np.array([0.0, 1.0, series.horizon, batch_per_env])
    fixed = np.array([1.0, 0.0, 0.0, fixed_batch])

    def free_and_slope(model: Fit) -> tuple[float, float]:
        """Return the memory left for environments, and what each of them takes, in GB."""
        return available_gb - float(fixed @ model.values), float(per_env @ model.values)

    def crossings(model: Fit, covariance: NDArray[np.float64]) -> _Crossings:
        """Return where the ends of the peak's prediction interval equal the memory."""
        free, slope = free_and_slope(model)
        t2 = float(stdtrit(model.points - len(model.columns), (1.0 - confidence) / 2)) ** 2
        q0, q1, q2 = (float(u @ covariance @ v) for u, v in ((fixed, fixed), (fixed, per_env), (per_env, per_env)))
        # There the peak equals the memory, which scales the noise of one more trial.
        q0 += (model.noise * (available_gb if model.relative else 1.0)) ** 2
        return _Crossings(free, slope**2 - t2 * q2, slope * free + t2 * q1, free**2 - t2 * q0)

    free, slope = free_and_slope(fit)
    models = [model for model in (fit, fit.other) if model is not None]
    known = [crossings(model, model.covariance) for model in models if model.covariance is not None]
    lower = min((crossing.lower_end() for crossing in known), default=math.inf)
    upper = max((crossing.upper_end() for crossing in known), default=math.inf)
    largest = max(_whole(free / slope), 0) if slope > 0.0 else None
    return Largest(
        horizon=series.horizon,
        batch_size=series.batch_size,
        largest_num_envs=largest,
        largest_num_envs_lower=None if lower == math.inf else int(lower),
        largest_num_envs_upper=None if upper == math.inf else int(upper),
        extrapolation=None if largest is None else largest / max(sample.num_envs for sample in fit.samples),
    )


def on_cards(fit: Fit, every: Sequence[Series], settings: Settings) -> list[CardPrediction]:
    """Return the model's predictions for cards of other sizes. Memory use does not depend on the card's size."""

    def fitting(series: Series, memory_gb: float) -> Largest:
        return largest_fitting(fit, series, memory_gb, margin=settings.memory_margin, confidence=settings.confidence)

    return [
        CardPrediction(card=card, memory_gb=memory_gb, **dict(largest))
        for card, memory_gb in CARDS_GB.items()
        for series in every
        if (largest := fitting(series, memory_gb)).largest_num_envs is not None
    ]


def _whole(num_envs: float) -> int:
    """Return the whole environments in a number that rounding may have left just below one."""
    return math.floor(num_envs + 1e-6)
