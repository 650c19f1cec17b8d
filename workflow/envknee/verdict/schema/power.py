"""The statistical power that is enough: numbers that readers of a plan or a comparison are told."""

ENOUGH = 0.8
"""Share of studies that should show a plateau."""

MOST_REPEATS = 50
"""More repeats than this are not worth counting."""
