"""Samplers, a file each: its name is what `sampler:` of a study says.

points/ choose which point is measured next; later repeats run the same points in other orders. A file defines

    def new_point(question: Question) -> Point      # one of question.new(...), which is never empty

trials/ choose each trial, may ask for a point again, and say when nothing more is needed. A file defines

    def choose(question: Question) -> Choice

The answer must follow from the question alone (`envknee.ask.question`). Names that begin with `_` are no samplers.
"""
