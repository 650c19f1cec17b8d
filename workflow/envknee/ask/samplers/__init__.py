"""Samplers, a file each. The file's name is the value of `sampler:` in a study.

points/ choose the next point; later repeats run the same points in other orders. A file defines

    def new_point(question: Question) -> Point      # one of question.new(...), which is never empty

A fixed design (`study.rules.FIXED_DESIGNS`) defines `def order(study, kind) -> list[Point]` instead.

trials/ choose each trial and its repeat, and decide when nothing more is needed. A file defines

    def choose(question: Question) -> Choice

The answer must follow from the question alone (`envknee.ask.question`). Names that begin with `_` are no samplers.
"""

import importlib
from types import ModuleType


def load(folder: str, name: str) -> ModuleType:
    """Import a sampler from a folder that `study.rules` names. Some are slow to import."""
    return importlib.import_module(f"envknee.{folder.replace('/', '.')}.{name}")
