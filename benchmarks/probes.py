"""How well do two sizes predict the knee of a new task or GPU? Each published curve is predicted from curves of other groups.

Input: the curves of benchmarks/curves.py. Output: tables in the terminal. Nothing is run.

    python -m envknee probes
    python -m envknee probes --each      also every curve, and the prior of all curves together

Two sizes of a curve are the probes: the smallest one and the next, as a climb measures them, or the smallest one and the first that is at
least 8 times as large. verdict/probes.py predicts the knee from them, with a prior that is fitted to curves of other groups. A group is a
task of one program on one GPU, whatever the arm, resolution, horizon, number of GPUs or source.

The interval holds where it overlaps the sizes between which the knee lies. The error is the number of doublings between the predicted knee
and the measured one. Where a curve leaves the knee open, it is the least that it can be, so only measured knees count for it. Method and
targets were set before any error was computed: at least 90%, and a median of at most one doubling.
"""

import argparse
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from envknee.study.errors import run_command
from envknee.verdict import probes
from envknee.verdict.probes import LAW_DISTANCE, Prior
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from scipy.stats import t as student

from benchmarks.curves import Bracket, Curve, bracket_of, curves

TARGET_COVERAGE, TARGET_ERROR = 0.90, 1.0

CLIMB_FROM = 256
"""Where a climb begins without --from."""

DEGREES = 4.0
"""Student's t of the distances: a few curves lie far off."""

NOMINAL = 0.95
"""Of the interval: more than is to hold, because the prior is itself uncertain."""

SHIFTS = np.linspace(-4.0, 4.0, 33)
SLOPES = np.linspace(0.0, 1.5, 31)
SCALES = np.geomspace(0.1, 4.0, 25)
SHIFT_SPREAD, SLOPE_SPREAD = 1.5, 0.5
"""The law itself is shift 0, slope 1. Normal priors of these standard deviations lie around it."""

LAW_ALONE = Prior(shift=0.0, slope=1.0, spread=1.0)
"""No other curve: the law's own knee, one doubling either way. Compared afterwards; it chose nothing."""

FPS_NOISE = 1.05
"""FPS at the ends of the knee's interval are widened by this factor."""

Probes = Callable[[Curve], dict[int, float]]
"""A curve's two sizes that are known, with their FPS."""

Likelihoods = dict[tuple[str, str], list[NDArray[np.float64]]]
"""Group -> for each of its curves, the logarithm of its chance by every (shift, slope, scale)."""


def next_size(curve: Curve) -> dict[int, float]:
    """Return the smallest size, and the first that is at least twice as large."""
    return _far(curve, 2)


def eight_times(curve: Curve) -> dict[int, float]:
    """Return the smallest size, and the first that is at least 8 times as large (the largest one of a short curve)."""
    return _far(curve, 8)


def _far(curve: Curve, ratio: int) -> dict[int, float]:
    smallest, *larger = sorted(curve.fps)
    second = next((size for size in larger if size >= ratio * smallest), larger[-1])
    return {size: curve.fps[size] for size in (smallest, second)}


class Predicted(NamedTuple):
    """A curve's knee as its probes predict it."""

    curve: Curve
    bracket: Bracket
    known: dict[int, float]
    """The probes: num_envs -> FPS."""
    knee: int
    lower: int
    upper: int

    @classmethod
    def of(cls, curve: Curve, known: dict[int, float], prior: Prior) -> "Predicted":
        """Predict a curve's knee."""
        seen = probes.knee_of(known, prior)
        return cls(curve, bracket_of(curve.fps), known, seen.num_envs, seen.lower, seen.upper)

    @property
    def held(self) -> bool:
        """Tell whether the interval overlaps the sizes between which the knee lies."""
        return self.upper > self.bracket.above and self.lower <= self.bracket.at_most

    @property
    def error(self) -> float:
        """Return doublings between the predicted knee and the nearest size that the curve allows."""
        if self.knee > self.bracket.at_most:
            return math.log2(self.knee / self.bracket.at_most)
        if self.knee <= self.bracket.above:
            return math.log2(2.0 * self.bracket.above / self.knee)
        return 0.0


def log_likelihood(curve: Curve, known: Mapping[int, float]) -> NDArray[np.float64]:
    """Return the logarithm of the chance of a curve's bracket, by every (shift, slope, scale) of the grid."""
    larger, bracket = max(known), bracket_of(curve.fps)
    shift, slope, scale = np.meshgrid(SHIFTS, SLOPES, SCALES, indexing="ij")
    middle = shift + LAW_DISTANCE + slope * probes.log_odds(known)

    def below(num_envs: float) -> NDArray[np.float64]:
        doublings = math.log2(num_envs / larger) if num_envs > 0.0 else -math.inf
        return student.cdf((doublings - middle) / scale, DEGREES)

    return np.log(np.maximum(below(bracket.at_most) - below(bracket.above), 1e-12))


def likelihoods_of(every: Sequence[Curve], of: Probes) -> Likelihoods:
    """Return the likelihoods of all curves, by group."""
    found: Likelihoods = {}
    for curve in every:
        found.setdefault(curve.group, []).append(log_likelihood(curve, of(curve)))
    return found


def prior_of(likelihoods: Likelihoods) -> Prior:
    """Return the most likely prior, each group counting as one curve."""
    shift, slope = np.meshgrid(SHIFTS, SLOPES, indexing="ij")
    total = -0.5 * ((shift / SHIFT_SPREAD) ** 2 + ((slope - 1.0) / SLOPE_SPREAD) ** 2)[:, :, None]
    total = total + sum(np.mean(of_group, axis=0) for of_group in likelihoods.values())
    at = np.unravel_index(np.argmax(total), total.shape)
    spread = float(SCALES[at[2]]) * float(student.ppf(0.5 + NOMINAL / 2.0, DEGREES))
    return Prior(float(SHIFTS[at[0]]), float(SLOPES[at[1]]), spread)


def left_out(every: Sequence[Curve], of: Probes) -> list[Predicted]:
    """Return every curve as the other groups predict it."""
    likelihoods = likelihoods_of(every, of)
    priors = {
        group: prior_of({other: values for other, values in likelihoods.items() if other != group})
        for group in likelihoods
    }
    return [Predicted.of(curve, of(curve), priors[curve.group]) for curve in every]


class Score(NamedTuple):
    """How predictions fared."""

    curves: int
    groups: int
    coverage: float
    """Share of curves whose interval held."""
    group_coverage: float
    """The same, each group counting as one curve."""
    error: float
    """Median, in doublings."""
    within_one: float
    """Share of curves with an error of at most one doubling."""
    width: float
    """Median of the intervals' widths, in doublings."""


def score(predicted: Sequence[Predicted]) -> Score:
    """Return coverage and error of predictions."""
    groups: dict[tuple[str, str], list[bool]] = {}
    for one in predicted:
        groups.setdefault(one.curve.group, []).append(one.held)
    errors = [one.error for one in predicted]
    return Score(
        curves=len(predicted),
        groups=len(groups),
        coverage=statistics.fmean(one.held for one in predicted),
        group_coverage=statistics.fmean(statistics.fmean(held) for held in groups.values()),
        error=statistics.median(errors),
        within_one=statistics.fmean(error <= 1.0 for error in errors),
        width=statistics.median(math.log2(one.upper / one.lower) for one in predicted),
    )


def measured(predicted: Sequence[Predicted]) -> list[Predicted]:
    """Return the predictions of curves whose knee was measured."""
    return [one for one in predicted if one.bracket.is_measured]


class FpsScore(NamedTuple):
    """How FPS fared, of all sizes above the probes."""

    sizes: int
    off: float
    """Median of how far off FPS are: 0.1 is 10%, either way."""
    off_90: float
    """90% of sizes are no further off than this."""
    coverage: float
    """Share of sizes whose FPS lie between those of the interval's ends."""


def fps_score(predicted: Sequence[Predicted]) -> FpsScore:
    """Return how far off the predicted curves are."""
    off, held = [], []
    for one in predicted:
        for size, fps in one.curve.fps.items():
            if size > max(one.known):
                ends = (one.lower, one.knee, one.upper)
                lower, middle, upper = (probes.fps_at(size, one.known, knee) for knee in ends)
                off.append(abs(math.log(middle / fps)))
                held.append(lower / FPS_NOISE <= fps <= upper * FPS_NOISE)
    off.sort()
    return FpsScore(
        len(off), math.expm1(statistics.median(off)), math.expm1(off[int(0.9 * len(off))]), statistics.fmean(held)
    )


def predictions() -> dict[str, list[Predicted]]:
    """Return how curves were predicted, by what predicted them."""
    every = curves()
    return {
        "two smallest": left_out(every, next_size),
        f"two smallest from {CLIMB_FROM} on": left_out(curves(CLIMB_FROM), next_size),
        "smallest and 8 times it": left_out(every, eight_times),
        "two smallest, law alone": [Predicted.of(curve, next_size(curve), LAW_ALONE) for curve in every],
    }


HEADS = ("probes", "curves (groups)", "interval held", "each group once", "error", "error at most 1", "width")
"""Error and width are medians, in doublings."""


def cells(got: Score) -> tuple[str, ...]:
    """Return a score as it stands in a table."""
    return (
        f"{got.curves} ({got.groups})", f"{got.coverage:.0%}", f"{got.group_coverage:.0%}",
        f"{got.error:.1f}", f"{got.within_one:.0%}", f"{got.width:.1f}",
    )  # fmt: skip


def main() -> None:
    """Predict the knee of every published curve from two of its sizes, with a prior of the others."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument(
        "--each", action="store_true", help="also print every curve, predicted from its two smallest sizes"
    )
    arguments = parser.parse_args()
    found, console = predictions(), Console()
    if arguments.each:
        print(f"of all curves: {prior_of(likelihoods_of(curves(), next_size))}")
        for one in next(iter(found.values())):
            print(_in_words(one))
    for title, chosen in (("curves whose knee was measured", measured), ("all curves", list[Predicted])):
        table = Table(*HEADS, title=title)
        for name, predicted in found.items():
            table.add_row(name, *cells(score(chosen(predicted))))
        console.print(table)
    for name, predicted in found.items():
        fps = fps_score(predicted)
        console.print(
            f"{name}, FPS of {fps.sizes} sizes: median {fps.off:.0%} off, 90% within {fps.off_90:.0%}, interval held for"
            f" {fps.coverage:.0%}",
            soft_wrap=True,
        )


def _in_words(one: Predicted) -> str:
    smaller, larger = sorted(one.known)
    at_most = f"at most {one.bracket.at_most:,.0f}" if math.isfinite(one.bracket.at_most) else "open"
    return (
        f"{one.curve.name}: {smaller:,} and {larger:,} predict {one.knee:,} ({one.lower:,} to {one.upper:,}); knee above"
        f" {one.bracket.above:,.0f}, {at_most}; error {one.error:.1f}, {'held' if one.held else 'missed'}"
    )


if __name__ == "__main__":
    run_command(main)
