"""The figures of a study, and a table of its trials.

Input: records, the iterations of learning trials, and the limits decided from them. Output: files in results/<study>/figures,
as SVG and, in png/, as PNG.

    python -m envknee.figures results/<study>                       write every figure
    python -m envknee.figures results/<study> --config my.yaml      decided by another file's `decide:` section

One module per figure. Each `draw_` function is pure: it takes what is to be seen and returns a matplotlib figure. The same
records give the same bytes. Which figures there are follows from the study (`outputs`), because the workflow expects them: one
without data says so.
"""

from collections.abc import Callable

from matplotlib.figure import Figure

from envknee import outputs
from envknee.figures.batch import draw_batch
from envknee.figures.canvas import png_of, svg_of
from envknee.figures.history import draw_history
from envknee.figures.importance import draw_importance
from envknee.figures.learning import Curve, curve_of, draw_learning
from envknee.figures.memory import draw_memory
from envknee.figures.pareto import draw_pareto
from envknee.figures.phases import draw_phases
from envknee.figures.scaling import draw_scaling
from envknee.figures.style import COLOURS
from envknee.figures.table import trials_html
from envknee.figures.target import draw_target
from envknee.figures.throughput import draw_throughput
from envknee.files import StudyFolder, write_atomically
from envknee.limits.verdict import decide, measured_study
from envknee.record import Record, read_rows, reward_averages, without_skipped

__all__ = [
    "COLOURS",
    "Curve",
    "curve_of",
    "draw_batch",
    "draw_history",
    "draw_importance",
    "draw_learning",
    "draw_memory",
    "draw_pareto",
    "draw_phases",
    "draw_scaling",
    "draw_target",
    "draw_throughput",
    "main",
    "png_of",
    "svg_of",
    "trials_html",
]


def main() -> None:
    """Write every figure of a study, and the table of its trials."""
    folder, study, records = measured_study(main.__doc__)
    verdict = decide(records, study)
    records = without_skipped(records)
    folder.figures.mkdir(exist_ok=True)
    drawn: dict[str, Callable[[], Figure]] = {
        outputs.THROUGHPUT: lambda: draw_throughput(verdict),
        "memory.svg": lambda: draw_memory(verdict, records),
        outputs.LEARNING: lambda: draw_learning(
            verdict, [_read_curve(folder, r) for r in records if r.request.kind == "learning"]
        ),
        "history.svg": lambda: draw_history(verdict, records),
        outputs.PHASES: lambda: draw_phases(verdict),
        outputs.SCALING: lambda: draw_scaling(verdict),
        outputs.TARGET: lambda: draw_target(verdict, records),
        outputs.PARETO: lambda: draw_pareto(verdict, records),
        outputs.BATCH: lambda: draw_batch(verdict),
        outputs.IMPORTANCE: lambda: draw_importance(verdict, study, records),
    }
    (folder.figures / outputs.PNG).mkdir(exist_ok=True)
    for name in outputs.figures_of(study):
        if name not in drawn:
            write_atomically(folder.figures / name, trials_html(verdict, records))
            continue
        figure = drawn[name]()
        write_atomically(folder.figures / name, svg_of(figure))
        write_atomically(folder.figures / outputs.pixels_of(name), png_of(figure))


def _read_curve(folder: StudyFolder, record: Record) -> Curve:
    rows = read_rows(folder.trial(record.request.number))
    averages = reward_averages(rows, record.request.target_episodes or 1)
    return curve_of(record, [row.frames for row in rows], [row.wall_s for row in rows], averages)
