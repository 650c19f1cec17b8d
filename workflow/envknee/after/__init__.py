"""After a study: compare, replay, keep, archive, export, and verdicts over a user's own tables.

In: results folders, tables. Out: comparisons, archives, studies to run again. May use: everything else.
"""
