"""What two well-known methods say about the same curve, to be read beside the verdict; nothing rests on them.

Input: FPS by num_envs. Output: frozen models. Pure.

kneed         Satopää et al. 2011, "Finding a 'Kneedle' in a Haystack": the point farthest from the chord of the normalized
              curve, if the curve then falls by `sensitivity` mean spacings. Its answer depends on the sensitivity, on the
              scaling of the axis and on how far the curve was measured, and knows neither noise nor a limit such as delta.
scalability   Gunther 1993; 2007, "Guerrilla Capacity Planning", the Universal Scalability Law:
              X(N) = lambda N / (1 + sigma (N - 1) + kappa N (N - 1)), contention sigma, coherency kappa. With kappa above 0
              it has a peak at N* = sqrt((1 - sigma) / kappa), which the law t0 + c N cannot have.
"""

import math
import warnings
from collections.abc import Mapping
from importlib.metadata import version
from typing import Literal

import numpy as np
from kneed import KneeLocator
from scipy.optimize import nnls

from envknee.record import Frozen

LEAST_POINTS_KNEED = 3

LEAST_POINTS_USL = 4
"""Three parameters would fit anything."""

DEFAULT_SENSITIVITY = 1.0
"""kneed's own, and the paper's."""

SENSITIVITIES = (0.0, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0)

Axis = Literal["num_envs", "log2(num_envs)"]
AXES: tuple[Axis, ...] = ("num_envs", "log2(num_envs)")


class Knee(Frozen):
    """kneed's answer with one setting."""

    sensitivity: float
    axis: Axis
    num_envs: int | None
    """None: it finds no knee."""


class Knees(Frozen):
    """kneed's answers with several settings."""

    package: str
    default: Knee
    """Its own sensitivity, num_envs as they are."""
    answers: list[Knee]
    statement: str


class Scalability(Frozen):
    """The Universal Scalability Law, fitted."""

    fps_of_one: float
    """lambda: FPS with one environment."""
    contention: float
    """sigma, 0 to 1."""
    coherency: float
    """kappa, at least 0."""
    peak_num_envs: float | None
    """Where FPS is largest; None: it never falls."""
    peak_fps: float | None
    largest_relative_error: float
    num_envs: list[int]
    method: str = "non-negative least squares of relative errors of N / X(N), with sigma at most 1"
    statement: str


class References(Frozen):
    """Both, each None where the points are too few for it."""

    kneed: Knees | None
    scalability: Scalability | None


def references(fps: Mapping[int, float]) -> References:
    """Return what both methods say of num_envs -> FPS, each above 0."""
    return References(kneed=knees(fps), scalability=fit_scalability(fps))


def knees(fps: Mapping[int, float]) -> Knees | None:
    """Return kneed's answers over sensitivities and axes, or None with fewer than three num_envs."""
    if len(fps) < LEAST_POINTS_KNEED:
        return None
    answers = [
        Knee(sensitivity=sensitivity, axis=axis, num_envs=knee(fps, sensitivity, axis))
        for axis in AXES
        for sensitivity in SENSITIVITIES
    ]
    default = next(one for one in answers if (one.sensitivity, one.axis) == (DEFAULT_SENSITIVITY, AXES[0]))
    package = f"kneed {version('kneed')}"
    named = sorted({one.num_envs for one in answers if one.num_envs is not None})
    all_of_them = [f"{num_envs:,}" for num_envs in named]
    all_of_them += ["nothing"] if any(one.num_envs is None for one in answers) else []
    return Knees(
        package=package,
        default=default,
        answers=answers,
        statement=(
            f"{package} names {'nothing' if default.num_envs is None else f'{default.num_envs:,}'} at its default sensitivity"
            f" {DEFAULT_SENSITIVITY:g}; from {SENSITIVITIES[0]:g} to {SENSITIVITIES[-1]:g}, num_envs as they are or their"
            f" logarithm, {' or '.join(all_of_them)}"
        ),
    )


def knee(fps: Mapping[int, float], sensitivity: float, axis: Axis) -> int | None:
    """Return the num_envs that kneed names for a concave, increasing curve, or None."""
    sizes = sorted(fps)
    values = [fps[num_envs] for num_envs in sizes]
    if min(values) == max(values):
        return None  # kneed divides by the range
    x = [float(num_envs) if axis == "num_envs" else math.log2(num_envs) for num_envs in sizes]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some versions warn where they find no knee
        found = KneeLocator(x, values, S=sensitivity, curve="concave", direction="increasing").knee
    return None if found is None else sizes[x.index(float(found))]


def fit_scalability(fps: Mapping[int, float]) -> Scalability | None:
    """Fit the law, or return None with fewer than four num_envs, or where it cannot say what one environment gives.

    N / X(N) = u + b N + c N (N - 1) with u = (1 - sigma) / lambda, b = sigma / lambda and c = kappa / lambda: linear, so that
    the best non-negative coefficients are found for certain, and non-negative ones are 0 <= sigma <= 1 and kappa >= 0.
    """
    if len(fps) < LEAST_POINTS_USL:
        return None
    sizes = np.array(sorted(fps), dtype=float)
    times = np.array([num_envs / fps[int(num_envs)] for num_envs in sizes])
    design = np.stack([np.ones_like(sizes), sizes, sizes * (sizes - 1.0)], axis=1)
    relative = design / times[:, None]
    # Columns differ by many orders of magnitude: scale them before solving.
    scale = relative.max(axis=0)
    shares = nnls(relative / scale, np.ones(len(sizes)))[0]
    # A term that adds less than a millionth is rounding, and would put a peak at absurd sizes.
    coefficients = np.where(shares > 1e-6, shares, 0.0) / scale
    u, b, c = (float(value) for value in coefficients)
    if u + b == 0.0:
        return None  # FPS fall so steeply that the law has no finite FPS of one environment
    error = float(np.abs(times / (design @ coefficients) - 1.0).max())
    peak = peak_fps = None
    if c > 0.0:
        # Fewer than one environment is the law's way to say that FPS fall from the first on.
        peak = max(math.sqrt(u / c), 1.0)
        peak_fps = peak / (u + b * peak + c * peak * (peak - 1.0))
    if peak is None or peak_fps is None:
        falls = "no peak: it never falls"
    else:
        beyond = ", beyond what was measured" if peak > sizes[-1] else ""
        falls = f"a peak of {peak_fps:,.0f} FPS at {peak:,.0f} environments{beyond}"
    return Scalability(
        fps_of_one=1.0 / (u + b),
        contention=b / (u + b),
        coherency=c / (u + b),
        peak_num_envs=peak,
        peak_fps=peak_fps,
        largest_relative_error=error,
        num_envs=[int(num_envs) for num_envs in sizes],
        statement=f"the Universal Scalability Law sees {falls} (largest relative error {error:.1%})",
    )
