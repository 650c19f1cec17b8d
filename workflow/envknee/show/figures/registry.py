"""Every figure: its name, section, and the studies that have it.

To add a figure, write a module NAME with a function draw_NAME from `Evidence` to a matplotlib figure, its caption as
workflow/report/NAME.rst, and an entry in `FIGURES`. Snakemake's rules, the report, `envknee keep` and MLflow use the entry.

The study alone decides which figures there are, before anything runs. This module imports no matplotlib, because a dry run reads it.
"""

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from envknee.study.model import Study, Sweep

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from envknee.show.evidence import Evidence

TOGETHER, THRESHOLDS, LEARNING = "0 All axes together", "1 Thresholds", "2 Learning"
"""Sections of the report, with their place; the table of trials comes after them."""


class Entry(NamedTuple):
    """One figure."""

    name: str
    section: str
    belongs_to: Callable[[Study], bool]
    """Whether a study has this figure. A figure without data says so in words."""
    is_kept: bool = False
    """Whether `envknee keep` commits it with the measurements."""

    @property
    def svg(self) -> str:
        """Name of its SVG file."""
        return f"{self.name}.svg"

    @property
    def png(self) -> str:
        """Name of its PNG file, for slides."""
        return f"png/{self.name}.png"

    @property
    def caption(self) -> str:
        """Name of its caption in workflow/report, whose first paragraph is the heading."""
        return f"{self.name}.rst"

    def draw(self, evidence: "Evidence") -> "Figure":
        """Return the figure of a study."""
        module = importlib.import_module(f"envknee.show.figures.{self.name}")
        return getattr(module, f"draw_{self.name}")(evidence)


def _is_joint(sweep: Sweep | None) -> bool:
    return sweep is not None and (sweep.is_joint or sweep.confirm is not None)


def _answers_jointly(study: Study) -> bool:
    return any(map(_is_joint, study.sections.values()))


def _joint_learns(study: Study) -> bool:
    return _is_joint(study.learning)


def _confirms(study: Study) -> bool:
    return any(sweep.confirm is not None for sweep in study.sections.values())


# Those below show one axis after the other, which a joint section does not measure.


def _times(study: Study) -> bool:
    return study.throughput is not None and not _is_joint(study.throughput)


def _learns(study: Study) -> bool:
    return study.learning is not None and not _is_joint(study.learning)


def _measures_memory(study: Study) -> bool:
    return not all(map(_is_joint, study.sections.values()))


def _scales(study: Study) -> bool:
    return _times(study) and any(arm.world_size > 1 for arm in study.arms.values())


def _has_rules(study: Study) -> bool:
    return _learns(study) and any(arm.scaling for arm in study.arms.values())


def _has_batch_sizes(study: Study) -> bool:
    sizes = study.learning.batch_size if study.learning is not None and _learns(study) else "library"
    return sizes != "library" and len(sizes) > 1


FIGURES = (
    Entry("forest", TOGETHER, _confirms, is_kept=True),
    Entry("profile", TOGETHER, _answers_jointly, is_kept=True),
    Entry("valley", TOGETHER, _answers_jointly),
    Entry("maps", TOGETHER, _answers_jointly),
    Entry("split", TOGETHER, _joint_learns),
    Entry("coordinates", TOGETHER, _answers_jointly),
    Entry("regret", TOGETHER, _answers_jointly),
    Entry("throughput", THRESHOLDS, _times, is_kept=True),
    Entry("memory", THRESHOLDS, _measures_memory),
    Entry("phases", THRESHOLDS, lambda study: _times(study) and study.phases != "off"),
    Entry("scaling", THRESHOLDS, _scales, is_kept=True),
    Entry("learning", LEARNING, _learns),
    Entry("target", LEARNING, _learns, is_kept=True),
    Entry("rules", LEARNING, _has_rules, is_kept=True),
    Entry("pareto", LEARNING, _learns),
    Entry("batch", LEARNING, _has_batch_sizes),
)  # fmt: skip


def figures_of(study: Study) -> list[Entry]:
    """Return the figures of a study, in the order of the report."""
    return [entry for entry in FIGURES if entry.belongs_to(study)]
