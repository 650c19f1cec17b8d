"""The page of a comparison: one HTML file, readable offline.

Input: comparisons with their sides; the template workflow/report/compare.html. Output: the page's text, which loads and runs nothing.
"""

import base64
from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure

from envknee.after.compare.curves import draw_curves
from envknee.after.compare.forest import draw_ratios
from envknee.after.compare.sides import Side
from envknee.after.compare.who import who
from envknee.show.figures import canvas
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
        "ratios": _drawn(draw_ratios(comparison)) if comparison.overall else None,
        "curves": [_drawn(figure) for figure in draw_curves(comparison, sides)],
    }


def _drawn(figure: Figure) -> dict[str, str]:
    """Return a figure's text for those who do not see it, and its file."""
    return {"finding": canvas.finding(figure), "data": base64.b64encode(canvas.saved(figure, "svg")).decode()}
