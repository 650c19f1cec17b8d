"""Compares two studies, or parts of them.

In: two results folders. Out: ratios of paired trials, with intervals, and the answer of a gate
(`verdict.schema.comparison`; `words.compare` says it).

sides     the trials of each side
pairing   pairs of trials
ratios    ratios of the pairs; pure
gate      pass, fail or inconclusive; pure
who       who each side is; pure
forest    the ratios as a figure
curves    both sides' values against num_envs as figures
page      one HTML page
print     terminal output, and the command
"""
