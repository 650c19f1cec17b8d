"""A table of words, for terminal and report."""

from typing import NamedTuple


class Table(NamedTuple):
    """A table with a title; cells are text."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]
