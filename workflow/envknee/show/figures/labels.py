"""Places labels so that they touch neither each other nor the points: a greedy search around each point.

Input: points and labels, in units of 1/72 inch. Output: an offset for each label, or None without a free place. Pure.
"""

from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.transforms import Bbox

FONT_PT = 8.0

CHARACTER, LINE = 0.62, 1.25
"""Width of a character and height of a line, as shares of the font's size: DejaVu Sans digits take 0.636."""


class Offset(NamedTuple):
    """Offset of a label's corner from its point, in 1/72 inch, and the label's alignment."""

    x: float
    y: float
    ha: str
    va: str

    @property
    def is_far(self) -> bool:
        """Whether the label needs a line to its point."""
        return max(abs(self.x), abs(self.y)) >= FAR_PT


FAR_PT = 17.0
"""Offsets from here on need a thin line to the point."""

OFFSETS = [
    Offset(x * far, y * far, ha, va)
    for far in (6.0, 11.0, FAR_PT, 24.0)
    for x, y, ha, va in (
        (1, 0.6, "left", "bottom"), (1, -0.6, "left", "top"), (-1, 0.6, "right", "bottom"), (-1, -0.6, "right", "top"),
        (0, 1.2, "center", "bottom"), (0, -1.2, "center", "top"),
    )
]  # fmt: skip


def places(
    points: Sequence[tuple[float, float]],
    labels: Sequence[str],
    size: tuple[float, float],
    marks: Sequence[tuple[float, float, float, float]] = (),
    lines: Sequence[tuple[float, float, float, float]] = (),
) -> list[Offset | None]:
    """Return an offset for each label, placing the first labels first.

    Args:
        points: (x, y) from the panel's lower left corner, 1/72 inch
        labels: one line each
        size: (width, height) of the panel, 1/72 inch: labels stay inside
        marks: boxes (left, bottom, right, top) that labels must not cover
        lines: boxes that labels cover only if there is no other place
    """
    panel = Bbox.from_extents(0.0, 0.0, *size)
    taken = [*(_around(x, y, 5.0) for x, y in points), *(Bbox.from_extents(*box) for box in marks)]
    thin = [Bbox.from_extents(*box) for box in lines]
    offsets: list[Offset | None] = []
    for point, label in zip(points, labels, strict=True):
        offset = _free(point, label, panel, [*taken, *thin]) or _free(point, label, panel, taken)
        if offset is not None:
            taken += _covers(point, label, offset)
        offsets.append(offset)
    return offsets


def _free(point: tuple[float, float], label: str, panel: Bbox, taken: Sequence[Bbox]) -> Offset | None:
    for offset in OFFSETS:
        box, *line = _covers(point, label, offset)
        is_inside = panel.contains(*box.min) and panel.contains(*box.max)
        if is_inside and not any(own.count_overlaps(taken) for own in (box, *line)):
            return offset
    return None


def _covers(point: tuple[float, float], label: str, offset: Offset) -> list[Bbox]:
    """Return the box of a label, and boxes along its line if it has one."""
    width, height = CHARACTER * FONT_PT * len(label), LINE * FONT_PT
    x, y = point[0] + offset.x, point[1] + offset.y
    left = {"left": x, "right": x - width, "center": x - width / 2}[offset.ha]
    bottom = {"bottom": y, "top": y - height}[offset.va]
    ways = (0.5, 0.65, 0.8, 0.95) if offset.is_far else ()
    line = [_around(point[0] + way * offset.x, point[1] + way * offset.y, 1.0) for way in ways]
    return [Bbox.from_extents(left, bottom, left + width, bottom + height), *line]


def _around(x: float, y: float, reach: float) -> Bbox:
    return Bbox.from_extents(x - reach, y - reach, x + reach, y + reach)
