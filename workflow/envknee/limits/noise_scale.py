"""The gradient noise scale of trials on several ranks: about how large a batch still pays.

Input: squared gradient norms (`GradientSquares`), of learning trials or of iterations. Output: B_simple = tr(Sigma) / |G|^2, in
transitions.
Source: McCandlish et al. 2018, "An Empirical Model of Large-Batch Training", arXiv:1812.06162, section 2.2 and appendix A.1:
unbiased estimates of |G|^2 and tr(Sigma) from gradients of two batch sizes, averaged before they are divided. Pure.

A batch far below it learns as much from each transition as any; one far above it wastes most of them. It grows while a
policy learns, so it is given for stretches of a training.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from envknee.config import Decide
from envknee.record import Frozen, GradientSquares, Record

RESAMPLES = 2000


class NoiseScale(Frozen):
    """The gradient noise scale over some trials, or iterations."""

    transitions: float | None
    """None where the estimate of |G|^2 is not above 0: noise hides the gradient, and the scale is beyond what was seen."""
    lower: float | None
    """Two-sided interval; None: unbounded, or a single sample."""
    upper: float | None
    confidence: float
    samples: int
    """Trials, or iterations."""
    method: str = "ratio of mean unbiased estimates of tr(Sigma) and |G|^2; interval: bootstrap over samples"


class PointNoise(Frozen):
    """The gradient noise scale of the learning trials at one point, over the whole of their training."""

    num_envs: int
    """Of each rank."""
    horizon: int
    batch_size: int | None
    scale: NoiseScale


def analyse(records: Sequence[Record], settings: Decide) -> list[PointNoise]:
    """Return the noise scale at every point where several ranks learned together."""
    by_point: dict[tuple[int, int, int | None], list[GradientSquares]] = {}
    for record in records:
        request = record.request
        if request.kind == "learning" and record.gradients is not None:
            point = (request.num_envs, request.horizon, request.batch_size)
            by_point.setdefault(point, []).append(record.gradients)
    found = []
    for (num_envs, horizon, batch_size), squares in sorted(
        by_point.items(), key=lambda one: (*one[0][:2], one[0][2] or 0)
    ):
        scale = noise_scale(squares, settings.confidence)
        assert scale is not None, "a point is there because a trial told its gradients"
        found.append(PointNoise(num_envs=num_envs, horizon=horizon, batch_size=batch_size, scale=scale))
    return found


def noise_scale(squares: Sequence[GradientSquares], confidence: float, seed: int = 0) -> NoiseScale | None:
    """Return the noise scale over samples that all had the same batch sizes, or None without any.

    Args:
        squares: of each trial or iteration
        confidence: of the interval
        seed: of the bootstrap
    """
    if not squares:
        return None
    small = np.array([one.rank_batch for one in squares], dtype=float)
    large = np.array([one.batch for one in squares], dtype=float)
    own, shared = (np.array([getattr(one, name) for one in squares]) for name in ("rank_mean", "shared"))
    signal = (large * shared - small * own) / (large - small)
    noise = (own - shared) / (1.0 / small - 1.0 / large)
    value = _ratio(noise.mean(keepdims=True), signal.mean(keepdims=True))[0]
    lower = upper = None
    if len(squares) > 1:
        draws = np.random.default_rng(seed).integers(len(squares), size=(RESAMPLES, len(squares)))
        ratios = _ratio(noise[draws].mean(axis=1), signal[draws].mean(axis=1))
        tail = (1.0 - confidence) / 2
        lower, upper = (_finite(np.quantile(ratios, share, method="nearest")) for share in (tail, 1.0 - tail))
    return NoiseScale(transitions=_finite(value), lower=lower, upper=upper, confidence=confidence, samples=len(squares))


def _ratio(noise: NDArray[np.float64], signal: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return noise / signal, at least 0; infinite where no signal is left."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(signal > 0.0, np.maximum(noise, 0.0) / signal, np.inf)


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
