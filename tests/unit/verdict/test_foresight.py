"""The law of an iteration predicts the next doubling's gain as well as it says, by curves of this project and by posted ones."""

import csv
import statistics
from collections.abc import Iterator, Mapping

import pytest
from envknee.verdict import foresight
from places import ROOT

Curve = Mapping[int, list[float]]


def fps_of(num_envs: int) -> float:
    return num_envs / (0.02 + 0.0002 * num_envs)


def test_a_curve_of_the_law_is_predicted_exactly_and_with_an_interval():
    seen = foresight.next_gain({size: [fps_of(size)] for size in (128, 256, 512, 1024)})
    assert seen is not None and seen.num_envs == 2048
    assert seen.gain == pytest.approx(fps_of(2048) / fps_of(1024) - 1.0)
    assert seen.lower < seen.gain < seen.upper and seen.upper - seen.lower == pytest.approx(0.1, abs=0.01)


@pytest.mark.parametrize(
    ("fps", "why"),
    [
        ({256: [1.0], 512: [1.5], 1024: [1.8]}, "three sizes"),
        ({size: [fps_of(size)] for size in (8, 16, 32, 64)}, "a large gain"),
        ({128: [100.0], 256: [150.0], 512: [160.0], 1024: [90.0]}, "no curve of the law"),
    ],
)
def test_nothing_is_predicted_of_what_the_law_does_not_know(fps: Curve, why: str):
    assert foresight.next_gain(fps) is None, why


def own_curves() -> Iterator[Curve]:
    """Yield the FPS of every published series, by num_envs."""
    for path in sorted((ROOT / "results-published").glob("*/records.csv")):
        curves: dict[tuple[str, ...], dict[int, list[float]]] = {}
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                if row["kind"] == "throughput" and row["status"] == "ok":
                    series = (row["arm"], row["horizon"], row["batch_size"])
                    sizes = curves.setdefault(series, {})
                    sizes.setdefault(int(row["num_envs"]), []).append(float(row["fps_total"]))
        yield from curves.values()


def posted_curves() -> Iterator[Curve]:
    """Yield the FPS of every table that others posted, by num_envs."""
    for path in sorted((ROOT / "tests/fixtures/published").glob("*.csv")):
        with path.open(encoding="utf-8", newline="") as file:
            rows = csv.DictReader(line for line in file if not line.startswith("#"))
            yield {int(row["num_envs"]): [float(row["fps"])] for row in rows}


def errors(curve: Curve) -> Iterator[bool]:
    """Yield whether the interval held, for each size whose FPS the single first trials of the sizes below it predict."""
    sizes = sorted(curve)
    for count in range(foresight.SIZES, len(sizes)):
        known = sizes[count - foresight.SIZES : count]
        if any(2 * low != high for low, high in zip(known, [*known[1:], sizes[count]], strict=True)):
            continue
        seen = foresight.next_gain({size: curve[size][:1] for size in known})
        if seen is not None:
            ends = (statistics.geometric_mean(curve[size]) for size in (sizes[count], known[-1]))
            larger, smaller = ends
            yield seen.lower <= larger / smaller - 1.0 <= seen.upper


def test_the_interval_holds_as_often_as_it_says_on_published_curves():
    held = [was_right for curve in (*own_curves(), *posted_curves()) for was_right in errors(curve)]
    assert len(held) >= 20, "enough doublings to tell"
    assert statistics.fmean(held) >= foresight.CONFIDENCE, held
