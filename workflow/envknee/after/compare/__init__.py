"""Two studies, or parts of them, side by side.

In: two results folders. Out: ratios of paired trials, with intervals, and whether a loss is shown.

sides     which trials each side has
pairing   which trial of one belongs beside which of the other
ratios    what one gives beside the other; pure
print     the same for a terminal, and the command
"""
