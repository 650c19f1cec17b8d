"""How a series looks in a chart: as in the static figures."""

from collections.abc import Sequence

from envknee.show.charts.model import Line, Mark, TrialMark
from envknee.show.figures.style import Look
from envknee.verdict.series import Series

SYMBOLS = {
    "o": "circle", "s": "rect", "^": "triangle", "D": "diamond", "v": "pin", "P": "roundRect", "<": "arrow",
}  # fmt: skip
"""Marks of the charts for those of the figures."""


def line_of(
    series: Series,
    look: Look,
    marks: Sequence[Mark] = (),
    trials: Sequence[TrialMark] = (),
    law: Sequence[tuple[float, float]] = (),
    joins: bool = True,
) -> Line:
    """Return the line of a series."""
    return Line(
        name=look.name, arm=series.arm, colour=look.colour, symbol=SYMBOLS[look.marker], marks=list(marks),
        trials=list(trials), law=list(law), joins=joins,
    )  # fmt: skip
