"""What a drawn figure says, as its SVG holds it: readers of files need no matplotlib for it."""

import html
import re

NOTHING = "nothing to show"
"""Words in the finding of a figure without data."""


def finding_of(svg: bytes) -> str:
    """Return what the title of an SVG's figure says, with its details; "" if it holds none."""
    found = re.search(r"<title>(.*?)</title>", svg.decode("utf-8", "replace"), re.DOTALL)
    return html.unescape(found[1]) if found else ""
