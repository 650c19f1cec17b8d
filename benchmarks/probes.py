"""How well do two sizes predict the knee of a new task or GPU? Curves that were published, each predicted from all others.

Input: results-published, tests/fixtures/published and benchmarks/posted_curves.csv. Output: tables in the terminal. Nothing is run.

    python -m envknee probes

A curve is FPS over num_envs: at least four sizes from 64 on, medians of repeats. Its knee is the smallest size from which every measured
doubling gains less than 10%. Where the last one still gains more, the knee lies above. Where none does, it lies at or below the smallest.

Two of its sizes are the probes: the smallest one and the next, as a climb measures them (`next`), or the smallest one and the first that is
at least 8 times as large (`8 x`). verdict/probes.py predicts the knee from them, with a prior that is fitted to curves of other groups. A
group is a task of one program on one GPU, whatever the arm, resolution, horizon, number of GPUs or source.

What is counted: the interval holds where it overlaps the sizes between which the knee lies. The error is the number of doublings between the
predicted knee and the measured one. Both targets were set before anything was computed: at least 90%, and a median of at most one doubling.
"""

import argparse
import csv
import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from envknee.study.errors import run_command
from envknee.verdict import probes
from envknee.verdict.probes import CUT_OFF, LAW_DISTANCE, Prior
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from scipy.stats import t as student

ROOT = Path(__file__).resolve().parents[1]
LEAST_SIZE, LEAST_SIZES = 64, 4

LEAST_STEP = math.sqrt(2.0)
"""Sizes that are nearer to each other say little about a doubling: the larger one is left out."""

FIXTURES = {
    "gb10_mjlab": ("mjlab", "GB10"),
    "genesis_4090l": ("Genesis", "RTX 4090 Laptop"),
    "h100-stock": ("Isaac-Cartpole-Camera-Direct", "H100"),
    "h100_anymal": ("ANYmal", "H100"),
    "madrona-rtx-4090": ("Madrona cart-pole camera", "RTX 4090"),
    "maniskill-rtx-4090": ("ManiSkill cart-pole camera", "RTX 4090"),
    "rtx4050_physx": ("PhysX", "RTX 4050"),
}
"""Task and GPU of posted tables. isaac-lab-rtx-4090 is one of the curves in posted_curves.csv."""

DEGREES = 4.0
"""Student's t of the distances: a few curves lie far off."""

NOMINAL = 0.95
"""Of the interval: more than is to hold, because the prior is itself uncertain."""

SHIFTS = np.linspace(-4.0, 4.0, 33)
SLOPES = np.linspace(0.0, 1.5, 31)
SCALES = np.geomspace(0.1, 4.0, 25)
SHIFT_SPREAD, SLOPE_SPREAD = 1.5, 0.5
"""The law itself is shift 0, slope 1. Normal priors of these standard deviations lie around it."""


class Curve(NamedTuple):
    """FPS over num_envs."""

    task: str
    gpu: str
    variant: str
    fps: dict[int, float]

    @property
    def group(self) -> tuple[str, str]:
        """Return what no other curve of may inform a prediction of this one."""
        return self.task, self.gpu

    @property
    def name(self) -> str:
        """Return task, GPU and variant in words."""
        return ", ".join(filter(None, (self.task, self.gpu, self.variant)))


class Bracket(NamedTuple):
    """The knee lies above `above` and at or below `at_most` environments (0 and infinity where a curve does not say)."""

    above: float
    at_most: float


class Predicted(NamedTuple):
    """A curve's knee as its probes predict it."""

    curve: Curve
    bracket: Bracket
    smaller: int
    larger: int
    knee: int
    lower: int
    upper: int

    @property
    def held(self) -> bool:
        """Tell whether the interval overlaps the sizes between which the knee lies."""
        return self.upper > self.bracket.above and self.lower <= self.bracket.at_most

    @property
    def error(self) -> float:
        """Return doublings between the predicted knee and the nearest size that the curve allows; a lower bound where it is open."""
        if self.knee > self.bracket.at_most:
            return math.log2(self.knee / max(self.bracket.at_most, self.smaller))
        if self.knee <= self.bracket.above:
            return math.log2(2.0 * self.bracket.above / self.knee)
        return 0.0

    @property
    def is_measured(self) -> bool:
        """Tell whether the knee lies within the curve, above its smallest size."""
        return self.bracket.above > 0.0 and math.isfinite(self.bracket.at_most)


def curves() -> list[Curve]:
    """Return every curve that is long enough."""
    every = [*published(), *fixtures(), *posted()]
    return [curve for curve in every if len(curve.fps) >= LEAST_SIZES]


def published() -> Iterable[Curve]:
    """Yield the curves of published studies: an arm's throughput trials at one horizon and batch size."""
    for path in sorted((ROOT / "results-published").rglob("records.csv")):
        found: dict[tuple[str, ...], dict[int, list[float]]] = {}
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                if row["kind"] == "throughput" and row["status"] == "ok":
                    series = tuple(row[key] for key in ("task_id", "device", "arm", "horizon", "batch_size", "world_size"))
                    found.setdefault(series, {}).setdefault(int(row["num_envs"]), []).append(float(row["fps_total"]))
        for (task, device, arm, horizon, batch_size, _ranks), by_size in found.items():
            fps = {size: statistics.median(values) for size, values in by_size.items()}
            variant = f"{path.parent.name} {arm}, horizon {horizon}, batch {batch_size}"
            yield Curve(task, short(device), variant, thinned(fps))


def short(device: str) -> str:
    """Return a GPU's name as posted tables have it: `H100`."""
    return device.removeprefix("NVIDIA ").removesuffix(" 80GB HBM3")


def fixtures() -> Iterable[Curve]:
    """Yield the posted tables that tests have, of which task and GPU are known."""
    for name, (task, gpu) in FIXTURES.items():
        with (ROOT / "tests/fixtures/published" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
            rows = csv.DictReader(line for line in file if not line.startswith("#"))
            yield Curve(task, gpu, name, thinned({int(row["num_envs"]): float(row["fps"]) for row in rows}))


def posted() -> Iterable[Curve]:
    """Yield the curves of posted_curves.csv."""
    with (ROOT / "benchmarks/posted_curves.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(line for line in file if not line.startswith("#")):
            points = (point.split(":") for point in row["fps_by_num_envs"].split())
            fps = {int(size): float(fps) for size, fps in points}
            yield Curve(row["task"], row["gpu"], row["variant"], thinned(fps))


def thinned(fps: Mapping[int, float]) -> dict[int, float]:
    """Return the sizes from LEAST_SIZE on, without those that are nearer than LEAST_STEP to the one before."""
    kept: dict[int, float] = {}
    for size in sorted(fps):
        if size >= LEAST_SIZE and (not kept or size >= LEAST_STEP * max(kept)):
            kept[size] = fps[size]
    return kept


def bracket_of(fps: Mapping[int, float]) -> Bracket:
    """Return between which sizes the knee lies."""
    sizes = sorted(fps)
    gains = [(fps[high] / fps[low]) ** (1.0 / math.log2(high / low)) - 1.0 for low, high in pairwise(sizes)]
    first = max((index + 1 for index, gain in enumerate(gains) if gain >= CUT_OFF), default=0)
    above = float(sizes[first - 1]) if first else 0.0
    return Bracket(above, float(sizes[first]) if first < len(gains) else math.inf)


Probes = Callable[[Curve], dict[int, float]]
"""A curve's two sizes that are known, with their FPS."""


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


DESIGNS: dict[str, Probes] = {"next": next_size, "8 x": eight_times}


def log_likelihood(curve: Curve, known: Mapping[int, float]) -> NDArray[np.float64]:
    """Return the logarithm of the chance of a curve's bracket, by every (shift, slope, scale) of the grid."""
    larger, bracket = max(known), bracket_of(curve.fps)
    shift, slope, scale = np.meshgrid(SHIFTS, SLOPES, SCALES, indexing="ij")
    middle = shift + LAW_DISTANCE + slope * probes.log_odds(known)

    def below(num_envs: float) -> NDArray[np.float64]:
        doublings = math.log2(num_envs / larger) if num_envs > 0.0 else -math.inf
        return student.cdf((doublings - middle) / scale, DEGREES)

    return np.log(np.maximum(below(bracket.at_most) - below(bracket.above), 1e-12))


def prior_of(likelihoods: Mapping[tuple[str, str], Sequence[NDArray[np.float64]]]) -> Prior:
    """Return the most likely prior, each group counting as one curve."""
    shift, slope = np.meshgrid(SHIFTS, SLOPES, indexing="ij")
    total = -0.5 * ((shift / SHIFT_SPREAD) ** 2 + ((slope - 1.0) / SLOPE_SPREAD) ** 2)[:, :, None]
    total = total + sum(np.mean(of_group, axis=0) for of_group in likelihoods.values())
    at = np.unravel_index(np.argmax(total), total.shape)
    spread = float(SCALES[at[2]]) * float(student.ppf(0.5 + NOMINAL / 2.0, DEGREES))
    return Prior(float(SHIFTS[at[0]]), float(SLOPES[at[1]]), spread)


def left_out(every: Sequence[Curve], of: Probes) -> tuple[list[Predicted], Prior]:
    """Return every curve as the other groups predict it, and the prior of all curves together."""
    likelihoods: dict[tuple[str, str], list[NDArray[np.float64]]] = {}
    for curve in every:
        likelihoods.setdefault(curve.group, []).append(log_likelihood(curve, of(curve)))
    priors = {
        group: prior_of({other: values for other, values in likelihoods.items() if other != group})
        for group in likelihoods
    }
    predicted = []
    for curve in every:
        known = of(curve)
        knee = probes.knee_of(known, priors[curve.group])
        bracket = bracket_of(curve.fps)
        predicted.append(Predicted(curve, bracket, *sorted(known), knee.num_envs, knee.lower, knee.upper))
    return predicted, prior_of(likelihoods)


class Score(NamedTuple):
    """How predictions fared."""

    curves: int
    groups: int
    coverage: float
    group_coverage: float
    """Each group counting as one curve."""
    error: float
    """Median, in doublings."""
    within_one: float
    width: float
    """Median of the intervals' widths, in doublings."""


def score(predicted: Sequence[Predicted]) -> Score:
    """Return coverage and error of predictions."""
    groups: dict[tuple[str, str], list[bool]] = {}
    for one in predicted:
        groups.setdefault(one.curve.group, []).append(one.held)
    errors = [one.error for one in predicted]
    return Score(
        len(predicted),
        len(groups),
        statistics.fmean(one.held for one in predicted),
        statistics.fmean(statistics.fmean(held) for held in groups.values()),
        statistics.median(errors),
        statistics.fmean(error <= 1.0 for error in errors),
        statistics.median(math.log2(one.upper / one.lower) for one in predicted),
    )


def main() -> None:
    """Predict the knee of every published curve from two of its sizes, with a prior of the others."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--each", action="store_true", help="also print every curve")
    arguments = parser.parse_args()
    every, console = curves(), Console()
    table = Table(title="knees that two sizes predict, each group left out")
    for heading in ("probes", "curves", "number", "groups", "interval held", "by group", "error", "within 1", "width"):
        table.add_column(heading, justify="left" if heading in ("probes", "curves") else "right")
    for name, of in DESIGNS.items():
        predicted, prior = left_out(every, of)
        measured = [one for one in predicted if one.is_measured]
        for which, some in (("all", predicted), ("knee measured", measured)):
            got = score(some)
            shares = (f"{share:.0%}" for share in (got.coverage, got.group_coverage))
            table.add_row(
                name, which, str(got.curves), str(got.groups), *shares,
                f"{got.error:.1f}", f"{got.within_one:.0%}", f"{got.width:.1f}",
            )  # fmt: skip
        if arguments.each:
            print(f"\n{name}: {prior}")
            for one in predicted:
                print(
                    f"{one.curve.name}: {one.smaller:,} and {one.larger:,} predict {one.knee:,} ({one.lower:,} to {one.upper:,});"
                    f" measured above {one.bracket.above:,.0f}, at most {one.bracket.at_most:,.0f}; error {one.error:.1f},"
                    f" {'held' if one.held else 'missed'}"
                )
    console.print(table)


if __name__ == "__main__":
    run_command(main)
