"""What tests of figures have in common: a verdict over trials, and what a figure says and marks."""

from envknee.config import Study
from envknee.figures import Curve, curve_of
from envknee.limits.verdict import Verdict, decide
from envknee.record import Record, reward_averages
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from records import Trial, a_study, records_of


def judged(trials: list[Trial], study: Study | None = None) -> tuple[Verdict, list[Record]]:
    records = records_of(trials)
    return decide(records, study or a_study()), records


def curves_of(trials: list[Trial]) -> list[Curve]:
    return [
        curve_of(t.record, [r.frames for r in t.rows], [r.wall_s for r in t.rows], reward_averages(t.rows, 10))
        for t in trials
    ]


def texts(figure: Figure) -> str:
    """Return every word of a figure: title, labels, annotations and legends."""
    found = [text.get_text() for text in figure.texts]
    for axes in figure.axes:
        found += [axes.get_xlabel(), axes.get_ylabel(), *(text.get_text() for text in axes.texts)]
        legend = axes.get_legend()
        found += [text.get_text() for text in legend.get_texts()] if legend else []
    return "\n".join(found)


def marks(axes: Axes, marker: str) -> list[tuple[float, float]]:
    return [
        (float(x), float(y))
        for line in axes.lines
        if line.get_marker() == marker
        for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)  # pyright: ignore[reportArgumentType]
    ]
