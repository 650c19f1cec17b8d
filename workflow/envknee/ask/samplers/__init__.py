"""Samplers, a file each: its name is what `sampler:` of a study says.

points/ choose which point is measured next; later repeats run the same points in other orders. A file defines

    def new_point(question: Question) -> Point      # one of question.new(...), which is never empty

and a fixed design (`study.rules.FIXED_DESIGNS`), which blocks need, `def order(study, kind) -> list[Point]` as well.

trials/ choose each trial, may ask for a point again, and say when nothing more is needed. A file defines

    def choose(question: Question) -> Choice

The answer must follow from the question alone (`envknee.ask.question`). Names that begin with `_` are no samplers.
"""

import importlib
from types import ModuleType


def load(folder: str, name: str) -> ModuleType:
    """Return a sampler's file, by the folder that `study.rules` names: only when it is asked, as some are slow to import."""
    return importlib.import_module(f"envknee.{folder.replace('/', '.')}.{name}")
