"""How a series and its threshold look in a chart: as in the static figures."""

from collections.abc import Sequence

from envknee.show.charts.model import Level, Line, Mark, TrialMark
from envknee.show.figures.style import Look
from envknee.verdict.schema.learning import LearningLimit
from envknee.verdict.schema.throughput import ThroughputLimit
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


def thresholds_of(shown: Sequence[tuple[ThroughputLimit | LearningLimit, Look]]) -> list[Level]:
    """Return a line at the threshold of each limit that has one."""
    return [
        Level(
            value=limit.threshold_num_envs,
            label=f"threshold {limit.threshold_num_envs:,}",
            colour=look.colour,
            arm=limit.arm,
        )
        for limit, look in shown
        if limit.threshold_num_envs is not None
    ]
