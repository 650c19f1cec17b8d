"""Searches many lines at once for patterns that few lines match. Pure.

Line by line, a hundred megabytes of output would take minutes. A whole block of lines is searched first, where that finds every match.
"""

import re
from collections.abc import Iterator, Sequence

SEES_LINE_ENDS = re.compile(r"\^|\$|\\[AZz]|\(\?(?![P:])|\(\?P[=>]|[*+?}]\+")
"""In a pattern: anchors, look-around, flags, conditions, back references, and what never gives back. With one of these, a line may match
on its own and not inside a block."""


class Scan:
    """Patterns, of which any may match a line."""

    def __init__(self, patterns: Sequence[re.Pattern[str]]) -> None:
        """Sort the patterns into those that may be searched in blocks, and the others."""
        self._of_blocks = [pattern for pattern in patterns if not SEES_LINE_ENDS.search(pattern.pattern)]
        self._of_lines = [pattern for pattern in patterns if SEES_LINE_ENDS.search(pattern.pattern)]

    def matching(self, block: str) -> Iterator[str]:
        """Yield each line of a block that a pattern matches."""
        wanted = [pattern for pattern in self._of_blocks if pattern.search(block)] + self._of_lines
        if not wanted:
            return
        for line in block.split("\n"):
            if any(pattern.search(line) for pattern in wanted):
                yield line
