"""The page of a comparison: one HTML file, readable offline.

Input: comparisons with their sides; the template workflow/report/compare.html. Output: the page's text, which loads and runs nothing.
"""

from collections.abc import Sequence
from typing import Any

from envknee.after.compare.curves import draw_curves
from envknee.after.compare.forest import draw_ratios
from envknee.after.compare.sides import Side
from envknee.after.compare.who import who
from envknee.show.page import drawn
from envknee.show.report import template
from envknee.show.scripts import policy
from envknee.verdict.schema.comparison import Comparison
from envknee.words import compare as words

Compared = tuple[Comparison, tuple[Side, Side]]


def page(compared: Sequence[Compared]) -> str:
    """Return the page of one comparison or more: the gate's answers first."""
    return template("compare.html").render(policy=policy([]), words=words, parts=[_part(*own) for own in compared])


def _part(comparison: Comparison, sides: tuple[Side, Side]) -> dict[str, Any]:
    """Return a comparison for the template."""
    return {
        "comparison": comparison,
        "who": who(*sides),
        "ratios": drawn(draw_ratios(comparison)) if comparison.overall else None,
        "curves": [drawn(figure) for figure in draw_curves(comparison, sides)],
    }
