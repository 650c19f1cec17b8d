"""Layouts of tables: the text of a file to grids of cells. Each module reads one layout and knows nothing of columns. Pure.

In: the lines of a file. Out: its tables as `Grid`s. `READERS` has the order in which they are tried.
"""

from collections.abc import Callable, Sequence

from envknee.after.csv.grid import Grid
from envknee.after.csv.layouts import aligned, delimited, listed, markup, pipes

Reader = Callable[[Sequence[str], str], list[Grid]]
"""Lines and the name of the file to the tables in this layout."""

READERS: tuple[tuple[str, Reader], ...] = (
    ("Markdown", pipes.read),
    ("HTML", markup.read),
    ("reStructuredText list-table", listed.read),
    ("tabs", delimited.tabs),
    ("semicolons", delimited.semicolons),
    ("CSV", delimited.commas),
    ("columns of spaces", aligned.read),
)
"""Name -> reader, the most telling layout first: a comma may stand in any prose, a space stands everywhere."""
