"""Which figures a study has: known from the study alone, before anything runs, for Snakemake and for what draws them."""

from envknee import space
from envknee.config import Study, Sweep

ALWAYS = ("memory.svg", "history.svg", "trials.html")

THROUGHPUT, PHASES, SCALING = "throughput.svg", "phases.svg", "scaling.svg"
LEARNING, TARGET, PARETO, BATCH = "learning.svg", "target.svg", "pareto.svg", "batch.svg"
IMPORTANCE = "importance.svg"

SECTIONS = {
    "1 Thresholds": (THROUGHPUT, "memory.svg", PHASES, SCALING),
    "2 Learning": (LEARNING, TARGET, PARETO, BATCH),
    "3 Trials": ("history.svg", IMPORTANCE, "trials.html"),
}
"""Of the report, and what is in them; the caption of `x.svg` is workflow/report/x.rst."""

PNG = "png"
"""Folder beside the figures that holds each of them as pixels, for slides."""


def pixels_of(name: str) -> str:
    """Return where the pixels of a figure lie: `png/throughput.png` for `throughput.svg`."""
    return f"{PNG}/{name.removesuffix('.svg')}.png"


def section_of(name: str) -> str:
    """Return the section of the report that a figure is in."""
    return next(section for section, names in SECTIONS.items() if name in names)


def caption_of(name: str) -> str:
    """Return the file in workflow/report that holds a figure's caption."""
    return f"{name.partition('.')[0]}.rst"


def figures_of(study: Study) -> list[str]:
    """Return the names of all figures of a study.

    throughput  where there are such trials
    phases      where they tell their phases
    scaling     where some arm trains on several ranks
    learning    where there are such trials
    target      likewise
    pareto      likewise
    batch       where these have different batch sizes
    importance  where some kind of trial has several values of two sizes
    """
    learning = study.learning
    some = {
        THROUGHPUT: study.throughput is not None,
        PHASES: study.throughput is not None and study.phases != "off",
        SCALING: max(study.world_sizes) > 1,
        LEARNING: learning is not None,
        TARGET: learning is not None,
        PARETO: learning is not None,
        BATCH: learning is not None and learning.batch_size != "library" and len(learning.batch_size) > 1,
        IMPORTANCE: any(_sizes_swept(sweep) > 1 for sweep in (study.throughput, learning) if sweep is not None),
    }
    return [*ALWAYS, *(name for name, planned in some.items() if planned)]


def _sizes_swept(sweep: Sweep) -> int:
    return sum(len(axis) > 1 for axis in space.axes(sweep))
