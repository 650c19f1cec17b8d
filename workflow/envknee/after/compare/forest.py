"""The ratios of a comparison as a forest plot: each measure over all points, and at each point."""

from collections.abc import Iterator

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.markers import CARETLEFT, CARETRIGHT
from matplotlib.ticker import NullFormatter, NullLocator

from envknee.show.figures import canvas
from envknee.show.figures.style import COLOURS, DASHED, GREY, INK
from envknee.verdict.schema.comparison import Change, Comparison, MeasureName, Ratio
from envknee.words import compare as words

LOOKS: dict[Change, tuple[str, str]] = {
    "better": (COLOURS[0], "o"),
    "worse": (COLOURS[1], "s"),
    "none shown": (GREY, "D"),
}
"""Colour and mark of a change; marks of `none shown` are hollow."""

LEFT_IN = 2.9
"""Room for the names of rows, inches."""

ONE_PAIR = "x"
"""Mark of a ratio without an interval, of which nothing can be shown."""

MOST_ROWS = 40
"""With more rows than these, only the ratios over all points are drawn."""


def draw_ratios(comparison: Comparison) -> Figure:
    """Return a row for each measure, and below it one for each of its points; at least one measure is needed."""
    rows = list(_rows(comparison))
    if len(rows) > MOST_ROWS:
        rows = comparison.overall
    title = words.finding(comparison)
    figure, (axes,) = canvas.panels(title, words.sides_line(comparison), height=max(1.7 + 0.28 * len(rows), 3.2))
    figure.subplots_adjust(left=LEFT_IN / canvas.WIDTH_IN)
    ends = [end for ratio in rows for end in (ratio.ratio, ratio.lower, ratio.upper) if end is not None]
    values = [ratio.ratio for ratio in rows]
    lowest = max(min([*ends, 1.0]), min([*values, 1.0]) / canvas.WIDEST)
    highest = min(max([*ends, 1.0]), max([*values, 1.0]) * canvas.WIDEST)
    room = max((highest / lowest) ** 0.06, 1.02)
    axes.set_xscale("log")
    axes.set_xlim(lowest / room, highest * room)
    for place, ratio in enumerate(rows):
        _row(axes, ratio, place)
    axes.axvline(1.0, color=INK, linewidth=1.0, linestyle=DASHED, zorder=1)
    axes.set_yticks(range(len(rows)), [_name(ratio) for ratio in rows], fontsize=8)
    for label, ratio in zip(axes.get_yticklabels(), rows, strict=True):
        label.set_fontweight("bold" if ratio.place is None else "normal")
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")
    _ticks(axes)
    axes.set_xlabel("B / A")
    canvas.legend(axes, _keys(comparison, rows))
    return figure


def _rows(comparison: Comparison) -> Iterator[Ratio]:
    """Return each measure's ratio over all points, then its points if there are several."""
    points: dict[MeasureName, list[Ratio]] = {}
    for ratio in comparison.by_place:
        points.setdefault(ratio.measure, []).append(ratio)
    for ratio in comparison.overall:
        yield ratio
        if ratio.points > 1:
            yield from points[ratio.measure]


def _name(ratio: Ratio) -> str:
    if ratio.place is None:
        return words.MEASURES[ratio.measure]
    _, num_envs, horizon, batch_size = ratio.place
    batch = "" if batch_size is None else f" × {batch_size:,}"
    return f"{num_envs:,} × {horizon}{batch} ({ratio.place.kind})"


def _row(axes: Axes, ratio: Ratio, place: int) -> None:
    """Draw a ratio with its interval, which ends in an arrow where it goes on beyond the panel."""
    colour, marker = LOOKS[ratio.change]
    if ratio.lower is None:
        marker = ONE_PAIR
    left, right = axes.get_xlim()
    if ratio.lower is not None and ratio.upper is not None:
        axes.plot(
            [max(ratio.lower, left), min(ratio.upper, right)], [place] * 2, color=colour,
            linewidth=2.2 if ratio.place is None else 1.2,
        )  # fmt: skip
        for goes_on, edge, caret in ((ratio.lower < left, left, CARETLEFT), (ratio.upper > right, right, CARETRIGHT)):
            if goes_on:
                axes.plot(edge, place, color=colour, marker=caret, markersize=6, clip_on=False)
    face = "white" if ratio.change == "none shown" else colour
    size = 7.0 if ratio.place is None else 4.5
    axes.plot(ratio.ratio, place, marker, color=colour, markersize=size, markerfacecolor=face, zorder=4)


def _ticks(axes: Axes) -> None:
    """Number the axis at round ratios: the widest set of them that leaves at least three, or Matplotlib's own."""
    left, right = axes.get_xlim()
    for steps in (
        (0.1, 0.2, 0.5, 1, 2, 5, 10),
        (0.25, 0.5, 0.7, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 2, 3),
        (0.9, 0.95, 1, 1.05, 1.1),
    ):
        ticks = [step for step in steps if left <= step <= right]
        if len(ticks) >= 3:
            axes.set_xticks(ticks)
            axes.xaxis.set_minor_locator(NullLocator())
            break
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())


def _keys(comparison: Comparison, rows: list[Ratio]) -> list[Line2D]:
    said: dict[Change, str] = {
        "better": "B is shown better", "worse": "B is shown worse", "none shown": "no difference is shown",
    }  # fmt: skip
    changes = {ratio.change for ratio in rows if ratio.lower is not None}
    keys = [
        canvas.key(label, LOOKS[change][1], LOOKS[change][0], hollow=change == "none shown")
        for change, label in said.items()
        if change in changes
    ]
    keys.append(canvas.line_key(f"{comparison.confidence:.0%} interval"))
    keys.append(canvas.line_key("no difference", INK, linestyle=DASHED))
    if any(ratio.lower is None for ratio in rows):
        keys.append(canvas.key("one pair: no interval", ONE_PAIR))
    if any(ratio.place for ratio in rows):
        keys.append(canvas.note("bold: over all points; below:\nnum_envs × horizon (× batch)"))
    else:
        keys.append(canvas.note("over all points"))
    return keys
