"""Which figures a study has: known from the study alone, before anything runs, for Snakemake and for what draws them."""

from envknee.config import Study

ALWAYS = ("throughput.svg", "memory.svg", "learning.svg", "history.svg", "trials.html")
"""A kind of trial that the study does not have gives a figure that says so."""

PHASES, SCALING, TARGET, PARETO, BATCH = "phases.svg", "scaling.svg", "target.svg", "pareto.svg", "batch.svg"


PNG = "png"
"""Folder beside the figures that holds each of them as pixels, for slides."""


def pixels_of(name: str) -> str:
    """Return where the pixels of a figure lie: `png/throughput.png` for `throughput.svg`."""
    return f"{PNG}/{name.removesuffix('.svg')}.png"


def figures_of(study: Study) -> list[str]:
    """Return the names of all figures of a study.

    phases    where throughput trials tell their phases
    scaling   where some arm trains on several ranks
    target    where there are learning trials
    pareto    likewise
    batch     where these have different batch sizes
    """
    learning = study.learning
    some = {
        PHASES: study.throughput is not None and study.phases != "off",
        SCALING: max(study.world_sizes) > 1,
        TARGET: learning is not None,
        PARETO: learning is not None,
        BATCH: learning is not None and learning.batch_size != "library" and len(learning.batch_size) > 1,
    }
    return [*ALWAYS, *(name for name, planned in some.items() if planned)]
