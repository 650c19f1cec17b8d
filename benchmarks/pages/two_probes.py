"""docs/verdicts.md: how well two sizes predict a knee."""

from functools import cache

from benchmarks.pages.cells import table
from benchmarks.probes import HEADS, Predicted, cells, fps_score, measured, predictions, score


@cache
def found() -> dict[str, list[Predicted]]:
    """Return every curve as others predict it, by what predicted it."""
    return predictions()


def measured_knees() -> str:
    """Return coverage and error, of curves whose knee was measured."""
    return table(HEADS, [(name, *cells(score(measured(predicted)))) for name, predicted in found().items()])


def all_curves() -> str:
    """Return how often the interval held over all curves, and how far off FPS were."""
    rows = []
    for name, predicted in found().items():
        knee, fps = score(predicted), fps_score(predicted)
        curves = f"{knee.curves} ({knee.groups})"
        shares = (f"{share:.0%}" for share in (knee.coverage, knee.group_coverage, fps.off, fps.off_90, fps.coverage))
        rows.append((name, curves, *shares))
    heads = (*HEADS[:4], "FPS off by, median", "90% within", "FPS in interval")
    return table(heads, rows)


BLOCKS = {"two-probes": measured_knees, "two-probes-all": all_curves}
