"""The figures of a study, and a table of its trials.

Input: records, the iterations of learning trials, and the limits decided from them. Output: files in results/<study>/figures.

    python -m envknee.figures results/<study>                       write every figure
    python -m envknee.figures results/<study> --config my.yaml      decided by another file's `decide:` section

One module per figure. Each `draw_` function is pure: it takes what is to be seen and returns a matplotlib figure. The same
records give the same bytes. A kind of trial that a study does not have gives a figure that says so, because the workflow
expects the file; only scaling is left out where no arm trains on several ranks.
"""

import argparse

from envknee.figures.canvas import svg_of
from envknee.figures.history import draw_history
from envknee.figures.learning import Curve, curve_of, draw_learning
from envknee.figures.memory import draw_memory
from envknee.figures.scaling import draw_scaling
from envknee.figures.style import COLOURS
from envknee.figures.table import trials_html
from envknee.figures.throughput import draw_throughput
from envknee.files import StudyFolder, write_atomically
from envknee.limits.verdict import add_study_arguments, decide, load_study
from envknee.record import Record, load_records, read_rows, reward_averages

__all__ = [
    "COLOURS",
    "Curve",
    "curve_of",
    "draw_history",
    "draw_learning",
    "draw_memory",
    "draw_scaling",
    "draw_throughput",
    "main",
    "svg_of",
    "trials_html",
]


def main() -> None:
    """Write every figure of a study, and the table of its trials."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    add_study_arguments(parser)
    arguments = parser.parse_args()
    folder = StudyFolder(arguments.folder)
    study = load_study(folder, arguments.config)
    records = load_records(folder)
    verdict = decide(records, study)
    folder.figures.mkdir(exist_ok=True)
    drawn = {
        "throughput.svg": draw_throughput(verdict),
        "memory.svg": draw_memory(verdict, records),
        "learning.svg": draw_learning(
            verdict, [_read_curve(folder, r) for r in records if r.request.kind == "learning"]
        ),
        "history.svg": draw_history(verdict, records),
    }
    if max(study.world_sizes) > 1:
        drawn["scaling.svg"] = draw_scaling(verdict)
    for name, figure in drawn.items():
        write_atomically(folder.figures / name, svg_of(figure))
    write_atomically(folder.figures / "trials.html", trials_html(verdict, records))


def _read_curve(folder: StudyFolder, record: Record) -> Curve:
    rows = read_rows(folder.trial(record.request.number))
    averages = reward_averages(rows, record.request.target_episodes or 1)
    return curve_of(record, [row.frames for row in rows], [row.wall_s for row in rows], averages)
