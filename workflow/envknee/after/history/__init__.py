"""Follows a task over several versions, such as commits or releases.

In: results folders or archives, in the order of the versions. Out: change points of each measure on each machine, with a stated error,
and the answer of a gate for the last versions (`verdict.schema.history`; `words.history` says it).

versions       the trials of each version; what cannot be compared is refused
series         the values of a measure, a number for each repeat of each version; pure
change_points  where a series changes, by permutation; pure
gate           pass, fail or inconclusive; pure
study          all of that together; pure
figure         each measure over the versions
command        terminal output, and the command
"""
