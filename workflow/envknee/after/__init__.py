"""After a study: compare, replay, keep, archive, export, and verdicts over tables of others.

In: results folders, tables. Out: comparisons, archives, studies that run again. May use: everything else.
"""
