"""Samplers, a file each. The file's name is the value of `sampler:` in a study.

points/ choose the next point; later repeats run the same points in other orders. A file defines

    def new_point(question: Question) -> Point      # one of question.new(...), which is never empty

A fixed design (`study.value_types.FIXED_DESIGNS`) defines `def order(study, kind) -> list[Point]` instead.

trials/ choose each trial and its repeat, and decide when nothing more is needed. A file defines

    def choose(question: Question) -> Choice

The answer must follow from the question alone (`envknee.ask.question`). Names that begin with `_` are no samplers.
"""

import importlib
from pathlib import Path
from types import ModuleType

from envknee.study.choices import modules_in

POINT_SAMPLERS, TRIAL_SAMPLERS = "points", "trials"
"""Folders of samplers: those that choose points, and those that choose points and repeats."""


def names(folder: str) -> tuple[str, ...]:
    """Return the samplers of one of these folders, without importing any."""
    return modules_in(Path(__file__).parent / folder)


def load(folder: str, name: str) -> ModuleType:
    """Import a sampler from one of these folders. Some are slow to import."""
    return importlib.import_module(f"{__name__}.{folder}.{name}")
