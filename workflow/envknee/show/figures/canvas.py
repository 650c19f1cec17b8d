"""Shared parts of all figures: title, panels, axes of num_envs, marks, legends, and files."""

import io
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.markers import CARETDOWN, CARETUP
from matplotlib.patches import Patch
from matplotlib.text import Text
from matplotlib.ticker import FixedLocator, LogLocator, NullFormatter, NullLocator

from envknee.show.figures.finding import NOTHING
from envknee.show.figures.style import GREY, STYLE, Look, wrapped
from envknee.study.errors import printable
from envknee.verdict.schema.learning import Cost
from envknee.verdict.schema.study import Verdict
from envknee.words.study import task_and_hardware

WIDTH_IN = 9.8

PERCENT = "{x:.0%}"
"""Format of an axis of shares."""


def panels(
    title: str,
    about: Verdict | str,
    height: float,
    ratios: tuple[float, ...] = (1.0,),
    columns: int = 1,
    share: bool = True,
    gaps: tuple[float, float] | None = None,
    below: float = 0.62,
) -> tuple[Figure, list[Axes]]:
    """Return a figure with a title, a line below it, and panels that leave room for a legend on the right.

    Args:
        title: the finding in one sentence, and lines of detail below it; long lines are wrapped
        about: the line below the title; of a verdict, its task and hardware
        height: inches, for a title of one line without details
        ratios: relative heights of the rows of panels
        columns: number of columns of panels
        share: whether panels of a column share their x axis
        gaps: between columns and between rows, inches; panels of a row then have their own y axes
        below: room for the x axis, inches
    """
    title, _, details = title.partition("\n")
    subtitle = about if isinstance(about, str) else task_and_hardware(about)
    title, details, subtitle = wrapped(title, 80), wrapped(details, 110), wrapped(subtitle, 125)
    lines, more, detailed = title.count("\n") + 1, subtitle.count("\n"), len(details.splitlines())
    height += 0.25 * (lines - 1) + 0.16 * more + 0.19 * detailed
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH_IN, height))
        left = 1.05 / WIDTH_IN
        figure.text(left, 1 - 0.18 / height, title, fontsize=12.5, fontweight="bold", va="top")
        above = 0.18 + 0.25 * lines
        if details:
            figure.text(left, 1 - above / height, details, fontsize=10, va="top")
            above += 0.19 * detailed + 0.02
        figure.text(left, 1 - above / height, subtitle, fontsize=9, color=GREY, va="top")
        grid = figure.subplots(
            len(ratios), columns, sharex="col" if share else False, sharey=False if gaps else "row", squeeze=False,
            height_ratios=ratios,
        )  # fmt: skip
        top, wspace, hspace = above + 0.42 + 0.16 * more, 0.14, 0.12
        if gaps:  # Matplotlib's unit is the mean size of a panel without the gaps
            wspace = columns * gaps[0] / (WIDTH_IN - 1.05 - 2.65 - (columns - 1) * gaps[0])
            hspace = len(ratios) * gaps[1] / (height - top - below - (len(ratios) - 1) * gaps[1])
        figure.subplots_adjust(
            left, below / height, right=1 - 2.65 / WIDTH_IN, top=1 - top / height, wspace=wspace, hspace=hspace
        )
        for axes in grid.flat:
            axes.xaxis.set_major_formatter(thousands)
            axes.yaxis.set_major_formatter(thousands)
        return figure, list(grid.flat)


def says_nothing(figure: Figure) -> bool:
    """Tell whether a figure is one of `in_words`."""
    return figure.get_label() == NOTHING


def by_arm(said: Mapping[str, str], sentence: str = "") -> str:
    """Return a title from a phrase for each arm: the only phrase alone, or `sentence` with a line for each arm below it."""
    if len(said) == 1:
        (only,) = said.values()
        return only[:1].upper() + only[1:]
    lines = [f"{arm}: {phrase}" for arm, phrase in said.items()]
    return "\n".join([sentence, *lines] if sentence else lines)


def in_words(subject: str, sentence: str, verdict: Verdict) -> Figure:
    """Return a figure that says why there is nothing to draw."""
    figure, (axes,) = panels(f"{subject}: {NOTHING}\n{sentence}", verdict, height=1.8)
    axes.set_axis_off()
    figure.set_label(NOTHING)
    return figure


def finding(figure: Figure) -> str:
    """Return what the title of a figure of `panels` says, with its details, in one line: its text for those who do not see it."""
    title, *details = [" ".join(text.get_text().split("\n")) for text in figure.texts[:-1]]
    return f"{title}. {details[0]}" if details else title


FORMATS: dict[str, dict[str, Any]] = {
    "svg": {"metadata": {"Date": None, "Creator": None}},
    "png": {"metadata": {"Software": None}, "dpi": 200},  # 1,960 pixels wide, enough for a slide
}
"""Matplotlib's options, by which the same figure gives the same bytes."""


def saved(figure: Figure, kind: Literal["svg", "png"]) -> bytes:
    """Return a figure as a file. Every text is shown literally: names come from files, and `$` would start a formula."""
    for text in figure.findobj(Text):
        assert isinstance(text, Text)
        text.set_parse_math(False)
        text.set_text("\n".join(map(printable, text.get_text().split("\n"))))
    stream, options = io.BytesIO(), FORMATS[kind]
    said = {"Title": finding(figure)} if kind == "svg" else {}
    with mpl.rc_context(STYLE):
        figure.savefig(stream, format=kind, **{**options, "metadata": options["metadata"] | said})
    return stream.getvalue()


def sizes_axis(axes: Axes, sizes: Iterable[int], label: str) -> None:
    """Make the x axis logarithmic, with the measured num_envs as ticks, as far as they do not touch."""
    axes.set_xlabel(label)
    axes.set_xscale("log", base=2)
    every = sorted(set(sizes))
    least, most = every[0], every[-1]
    size_ticks(axes, every, math.log2(max(most, 2) / least) / 12)
    axes.set_xlim(least / 2**0.4, most * 2**0.4)


def size_ticks(axes: Axes, sizes: Sequence[int], gap: float) -> None:
    """Make ascending sizes the ticks of the x axis, without those less than `gap` doublings above the tick before."""
    ticks: list[int] = []
    for size in sizes:
        if not ticks or math.log2(size / ticks[-1]) >= gap:
            ticks.append(size)
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(lambda size, _: f"{size:,.0f}")


def densely(sizes: Sequence[int]) -> list[float]:
    """Return where a law is drawn: 20 num_envs a doubling, from the least of ascending sizes to a part of a doubling beyond the largest."""
    return [sizes[0] * 2 ** (step / 20) for step in range(int(20 * math.log2(sizes[-1] / sizes[0])) + 8)]


def num_envs_label(verdict: Verdict) -> str:
    """Return the label of an axis of num_envs, which count per rank."""
    words = sorted({arm.rank_word for arm in verdict.arms if arm.world_size > 1})
    where = f"on each {' or '.join(words)}" if words else "side by side"
    return f"Environments {where} (num_envs)"


def readable(values: Sequence[float], bounds: Iterable[float | None]) -> tuple[float, float]:
    """Return the ends of an axis that shows every value, and as much of the known bounds of intervals as leaves the values readable."""
    lowest, highest = min(values), max(values)
    span = highest - lowest
    room = 0.15 * span
    every = [*values, *(bound for bound in bounds if bound is not None)]
    lower, upper = min(every), max(every)
    return max(lower, lowest - 0.5 * span) - room, min(upper, highest + 0.5 * span) + room


def thousands(value: float, _: object = None) -> str:
    """Return a number for an axis: `1.25M`, `1,024k` or `8k` if few decimals suffice, else the number itself.

    num_envs and batch sizes are never shortened: 1,024 is a size, 1k is none.
    """
    said = f"{value:,.0f}" if value == round(value) else f"{value:g}"
    for unit, letter, decimals in ((1e3, "k", 1), (1e6, "M", 2)):
        rounded = round(value / unit, decimals)
        if abs(value) >= unit and math.isclose(value / unit, rounded, rel_tol=1e-9):
            said = f"{rounded:,.{decimals}f}".rstrip("0").removesuffix(".") + letter
    return said.replace("-", "\N{MINUS SIGN}")


def key(label: str, marker: str = "o", colour: str = GREY, hollow: bool = False, size: float = 6.0) -> Line2D:
    """Return a mark for a legend."""
    return filled_key(label, "none" if hollow else "full", marker, colour, size)


def filled_key(label: str, fill: "Fill", marker: str = "o", colour: str = GREY, size: float = 6.0) -> Line2D:
    """Return a mark for a legend, filled as said."""
    return line_key(label, colour, marker=marker, linestyle="none", markersize=size, **filled(fill, colour))


def line_key(label: str, colour: str = GREY, width: float = 1.0, **style: Any) -> Line2D:
    """Return a line for a legend."""
    return Line2D([], [], color=colour, linewidth=width, label=label, **style)


def note(text: str) -> Line2D:
    """Return a line of text for a legend, without a mark."""
    return line_key(text, linestyle="none")


INTERVAL = "_interval"
"""Label of the line of an interval, which no legend shows."""

INTERVAL_LOOK: dict[str, Any] = {"linewidth": 1.3, "alpha": 0.9, "label": INTERVAL}


def interval_bar(axes: Axes, x: float, lower: float | None, upper: float | None, colour: str) -> None:
    """Draw an interval, if there is one."""
    if lower is not None and upper is not None:
        axes.plot([x, x], [lower, upper], color=colour, **INTERVAL_LOOK)


def arrows_beyond(axes: Axes) -> None:
    """End every interval that goes on beyond the panel in an arrow at its edge. The y axis must have its final ends."""
    bottom, top = axes.get_ylim()
    for bar in [line for line in axes.lines if line.get_label() == INTERVAL]:
        (x, _), (lower, upper) = np.asarray(bar.get_xdata()), np.asarray(bar.get_ydata())
        for goes_on, edge, caret in ((lower < bottom, bottom, CARETDOWN), (upper > top, top, CARETUP)):
            if goes_on:
                axes.plot(x, edge, color=bar.get_color(), marker=caret, markersize=6, zorder=6, clip_on=False)


Fill = Literal["full", "top", "none"]
"""How much of a mark is filled."""


def filled(fill: Fill, colour: str) -> dict[str, Any]:
    """Return how Matplotlib fills a mark."""
    face = "white" if fill == "none" else colour
    return {"fillstyle": "top" if fill == "top" else "full", "markerfacecolor": face, "markerfacecoloralt": "white"}


def value_mark(
    axes: Axes, x: float, value: float, ends: tuple[float | None, float | None], look: Look, fill: Fill
) -> None:
    """Draw a value with its interval."""
    interval_bar(axes, x, *ends, look.colour)
    axes.plot(x, value, look.marker, color=look.colour, markersize=6, zorder=4, **filled(fill, look.colour))


def up_arrow(axes: Axes, x: float, y: float, colour: str) -> None:
    """Draw an open mark at a lower bound, with an arrow upwards."""
    axes.plot(x, y, "^", color=colour, markersize=6.0, markerfacecolor="white", markeredgewidth=1.2, zorder=4)
    axes.annotate(
        "", (x, y), xytext=(0, 17), textcoords="offset points", zorder=3,
        arrowprops={"arrowstyle": "<|-", "color": colour, "linewidth": 1.1, "shrinkA": 0, "shrinkB": 3},
    )  # fmt: skip


WIDEST = 3.0
"""An interval widens the panel by this factor at most on either side of its point: with two seeds it can span orders of magnitude."""


def cost_mark(axes: Axes, x: float, cost: Cost, look: Look, unit: float = 1.0, **mark: Any) -> None:
    """Draw a cost in `unit`s: its interval and a mark, or an open arrow for a lower bound."""
    value = cost.value / unit
    if cost.lower_bound:
        up_arrow(axes, x, value, look.colour)
        return
    if cost.interval_lower is not None and cost.interval_upper is not None:
        lower, upper = cost.interval_lower / unit, cost.interval_upper / unit
        bar = Line2D([x, x], [lower, upper], color=look.colour, **INTERVAL_LOOK)
        axes.add_artist(bar)  # unlike `plot`, this leaves the ends of the axis alone
        axes.update_datalim([(x, max(lower, value / WIDEST)), (x, min(upper, value * WIDEST))])
    axes.plot(x, value, look.marker, color=look.colour, zorder=4, **{"markersize": 6, **mark})


def cost_line(axes: Axes, costs: Iterable[tuple[int, Cost | None]], look: Look) -> None:
    """Draw the costs of a series against num_envs: a line through the known ones, and a mark at each."""
    known = [(num_envs * look.dodge, cost) for num_envs, cost in costs if cost is not None]
    line = [(x, cost.value) for x, cost in known if not cost.lower_bound]
    axes.plot([x for x, _ in line], [y for _, y in line], color=look.colour, linewidth=1.4, alpha=0.8)
    for x, cost in known:
        cost_mark(axes, x, cost, look, markeredgecolor="white", markeredgewidth=0.8)


def costs_axis(axes: Axes) -> None:
    """Make the y axis logarithmic, with room above for the arrow of a lower bound, and end longer intervals in arrows."""
    axes.set_yscale("log")
    readable_ticks(axes.yaxis)
    bottom, top = axes.get_ylim()
    axes.set_ylim(bottom / 1.05, top * 1.25)
    arrows_beyond(axes)


def readable_ticks(axis: Axis) -> None:
    """Number a logarithmic axis at 1, 2, 5, 10, ..."""
    axis.set_major_locator(LogLocator(10, subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(thousands)
    axis.set_minor_formatter(NullFormatter())


def series_legend(axes: Axes, looks: Iterable[Look], more: Sequence[Line2D]) -> None:
    """Put a legend of series, with `more` keys, to the right of a panel."""
    keys = [line_key(look.label, look.colour, 1.8, marker=look.marker, markersize=6) for look in looks]
    legend(axes, [*keys, *more])


def legend(axes: Axes, keys: Sequence[Line2D | Patch]) -> None:
    """Put a legend to the right of a panel, and make the figure as high as its legends need."""
    with mpl.rc_context(STYLE):
        axes.legend(
            handles=list(keys), loc="upper left", bbox_to_anchor=(1.03, 1.02), borderaxespad=0.0, labelspacing=0.55
        )
    figure = axes.figure
    assert isinstance(figure, Figure)
    steps = 0
    while steps < MOST_STEPS and _lacks_room(figure):
        _grow(figure, STEP_IN)
        steps += 1


STEP_IN, MOST_STEPS = 0.3, 100
"""A figure whose legends lack room grows in steps of so many inches, and so often at most."""


def _lacks_room(figure: Figure) -> bool:
    """Tell whether a legend ends below the figure, or on the legend below it."""
    extents = [own.get_window_extent() for axes in figure.axes if (own := axes.get_legend()) is not None]
    ends = sorted((extent.y1, extent.y0) for extent in extents)
    floors = [0.0, *(top for top, _ in ends)]
    return any(bottom < floor for (_, bottom), floor in zip(ends, floors, strict=False))


def _grow(figure: Figure, inches: float) -> None:
    """Make the panels of a figure higher: what is above and below them keeps its size."""
    height = float(figure.get_size_inches()[1])
    same = height / (height + inches)
    figure.set_size_inches(WIDTH_IN, height + inches)
    for text in figure.texts:
        text.set_y(1.0 - (1.0 - text.get_position()[1]) * same)
    figure.subplots_adjust(top=1.0 - (1.0 - figure.subplotpars.top) * same, bottom=figure.subplotpars.bottom * same)
