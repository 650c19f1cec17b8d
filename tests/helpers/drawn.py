"""What tests of figures have in common: a verdict over trials, and what a figure says and marks."""

from envknee.decide.read import load_study
from envknee.decide.study import decide
from envknee.record.read import load_records
from envknee.show.evidence import Evidence
from envknee.study.files import canonical_json
from envknee.study.model import Study
from envknee.study.paths import StudyFolder
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from records import Trial, a_study, records_of


def judged(trials: list[Trial], study: Study | None = None) -> Evidence:
    records, rows = records_of(trials), {trial.request.number: trial.rows for trial in trials}
    return Evidence(decide(records, study or a_study()), records, lambda record: rows[record.request.number])


def with_verdict(folder: StudyFolder) -> StudyFolder:
    """Write a study's verdict.json, as a sweep does."""
    folder.verdict.write_text(canonical_json(decide(load_records(folder), load_study(folder))), encoding="utf-8")
    return folder


def texts(figure: Figure) -> str:
    """Return every word of a figure: title, labels, annotations and legends."""
    lines = [text.get_text() for text in figure.texts]
    for axes in figure.axes:
        lines += [axes.get_xlabel(), axes.get_ylabel(), *(text.get_text() for text in axes.texts)]
        legend = axes.get_legend()
        lines += [text.get_text() for text in legend.get_texts()] if legend else []
    return "\n".join(lines)


def marks(axes: Axes, marker: str | int) -> list[tuple[float, float]]:
    return [
        (float(x), float(y))
        for line in axes.lines
        if line.get_marker() == marker
        for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)  # pyright: ignore[reportArgumentType]
    ]
