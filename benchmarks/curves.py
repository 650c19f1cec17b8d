"""FPS over num_envs as measured here and as others posted them, and where their knees lie.

Input: results-published, tests/fixtures/published and benchmarks/posted_curves.csv. Output: curves of at least four sizes.

A curve has medians of repeats. Its knee is the smallest size from which every measured doubling gains less than 10%. Where the last one
still gains more, the knee lies above. Where none does, it lies at or below the smallest.
"""

import csv
import math
import statistics
from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from envknee.verdict.probes import CUT_OFF

ROOT = Path(__file__).resolve().parents[1]
LEAST_SIZE = 64
LEAST_SIZES = 4

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


class Curve(NamedTuple):
    """FPS over num_envs."""

    task: str
    gpu: str
    variant: str
    fps: dict[int, float]

    @property
    def group(self) -> tuple[str, str]:
        """Return task and GPU: no curve may inform a prediction of another one of its group."""
        return self.task, self.gpu

    @property
    def name(self) -> str:
        """Return task, GPU and variant in words."""
        return ", ".join(filter(None, (self.task, self.gpu, self.variant)))


class Bracket(NamedTuple):
    """The knee lies above `above` and at or below `at_most` environments (0 and infinity where a curve does not say)."""

    above: float
    at_most: float

    @property
    def is_measured(self) -> bool:
        """Tell whether the knee lies within the curve, above its smallest size."""
        return self.above > 0.0 and math.isfinite(self.at_most)


def bracket_of(fps: Mapping[int, float]) -> Bracket:
    """Return between which sizes the knee lies."""
    sizes = sorted(fps)
    gains = [(fps[high] / fps[low]) ** (1.0 / math.log2(high / low)) - 1.0 for low, high in pairwise(sizes)]
    first = max((index + 1 for index, gain in enumerate(gains) if gain >= CUT_OFF), default=0)
    above = float(sizes[first - 1]) if first else 0.0
    return Bracket(above, float(sizes[first]) if first < len(gains) else math.inf)


def curves(least_size: int = LEAST_SIZE) -> list[Curve]:
    """Return every curve that has four sizes or more from `least_size` on."""
    found = [curve._replace(fps=thinned(curve.fps, least_size)) for curve in (*published(), *fixtures(), *posted())]
    return [curve for curve in found if len(curve.fps) >= LEAST_SIZES]


def thinned(fps: Mapping[int, float], least_size: int) -> dict[int, float]:
    """Return the sizes from `least_size` on, without those that are nearer than LEAST_STEP to the one before."""
    kept: dict[int, float] = {}
    for size in sorted(fps):
        if size >= least_size and (not kept or size >= LEAST_STEP * max(kept)):
            kept[size] = fps[size]
    return kept


def published() -> Iterable[Curve]:
    """Yield the curves of published studies: an arm's throughput trials at one horizon, batch size and number of GPUs."""
    for path in sorted((ROOT / "results-published").rglob("records.csv")):
        found: dict[tuple[str, ...], dict[int, list[float]]] = {}
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                if row["kind"] == "throughput" and row["status"] == "ok":
                    keys = ("task_id", "device", "arm", "horizon", "batch_size", "world_size")
                    sizes = found.setdefault(tuple(row[key] for key in keys), {})
                    sizes.setdefault(int(row["num_envs"]), []).append(float(row["fps_total"]))
        for (task, device, arm, horizon, batch_size, _ranks), by_size in found.items():
            fps = {size: statistics.median(values) for size, values in by_size.items()}
            gpu = device.removeprefix("NVIDIA ").removesuffix(" 80GB HBM3")
            yield Curve(task, gpu, f"{path.parent.name} {arm}, horizon {horizon}, batch {batch_size}", fps)


def fixtures() -> Iterable[Curve]:
    """Yield the posted tables that tests have."""
    for name, (task, gpu) in FIXTURES.items():
        rows = _rows(ROOT / "tests/fixtures/published" / f"{name}.csv")
        yield Curve(task, gpu, name, {int(row["num_envs"]): float(row["fps"]) for row in rows})


def posted() -> Iterable[Curve]:
    """Yield the curves of posted_curves.csv."""
    for row in _rows(ROOT / "benchmarks/posted_curves.csv"):
        points = (point.split(":") for point in row["fps_by_num_envs"].split())
        yield Curve(row["task"], row["gpu"], row["variant"], {int(size): float(fps) for size, fps in points})


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))
