"""Time to target against peak memory: which points give the one for the other, and which give neither."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

from envknee.figures import labels
from envknee.figures.canvas import canvas, in_words, key, legend, thousands, up_arrow
from envknee.figures.style import COLOURS, GREY, INK, MARKERS, Look, wrapped
from envknee.limits.learning import Cost, seconds_of, that_ran
from envknee.limits.verdict import Verdict
from envknee.record import Record

WITHOUT_MEMORY = "*"
"""Behind the label of a point at which not every trial had the memory to run."""


class _Point(NamedTuple):
    """One num_envs, horizon and batch size of one arm."""

    arm: str
    label: str
    memory_gb: float
    """Largest peak of its trials, of the fullest rank."""
    cost: Cost
    spent_s: list[float]
    """Of each trial that did not reach the target: the least that it would have taken, as in `learning`."""
    without_memory: int
    """Trials that ran out of memory or were refused beside those."""


def draw_pareto(verdict: Verdict, records: Sequence[Record]) -> Figure:
    """Return seconds to the target against peak memory, with the front of points that no other beats in both."""
    points = _points(verdict, records)
    if not points:
        any_ran = any(record.request.kind == "learning" for record in records)
        why = "No learning trial lived long enough to tell." if any_ran else "No learning trial has run yet."
        return in_words("Time to target against memory", why, verdict)
    front = pareto_front([(point.memory_gb, point.cost.value) for point in points if not point.cost.lower_bound])
    figure, (axes,) = canvas(_title(points, front), verdict, height=5.6)
    looks = {
        arm.arm: Look(COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)], arm.arm)
        for i, arm in enumerate(verdict.arms)
    }
    _scales(axes, points)
    if front:
        right = axes.get_xlim()[1]
        axes.step(
            [*(x for x, _ in front), right], [*(y for _, y in front), front[-1][1]], where="post", color=INK, linewidth=1.2,
            zorder=2,
        )  # fmt: skip
    marks = []
    for point in points:
        look = looks[point.arm]
        for spent_s in point.spent_s:
            up_arrow(axes, point.memory_gb, spent_s, look.colour)
            marks.append((point.memory_gb, spent_s))
        if not point.cost.lower_bound:
            _mark(axes, point, look, on_front=(point.memory_gb, point.cost.value) in front)
    unlabelled = _label(axes, figure, points, front, marks)
    axes.set_xlabel(
        "Peak memory (GB)" + (", of the fullest rank" if any(a.world_size > 1 for a in verdict.arms) else "")
    )
    axes.set_ylabel("Wall seconds of training to the target")
    keys = [
        Line2D(
            [],
            [],
            color=look.colour,
            marker=look.marker,
            linestyle="none",
            markersize=6,
            label=wrapped(f"arm {look.label}"),
        )
        for look in looks.values()
    ]
    keys += [
        Line2D([], [], color=INK, linewidth=1.2, label="Pareto front: less of one\ncosts more of the other"),
        key("o", GREY, "beaten in both", hollow=True),
        Line2D([], [], linestyle="none", label="labels: num_envs/horizon/batch\n(lib: the library's own)"),
    ]
    if any(point.cost.interval_lower is not None for point in points):
        keys.append(Line2D([], [], color=GREY, linewidth=1.3, label=f"{verdict.confidence:.0%} interval over seeds"))
    if any(point.spent_s for point in points):
        keys.append(key("^", GREY, "target not reached: the time\nto it lies above", hollow=True))
    if any(point.without_memory for point in points):
        words = f"{WITHOUT_MEMORY} some trials there ran out\nof memory or were refused"
        keys.append(Line2D([], [], linestyle="none", label=words))
    if unlabelled:
        keys.append(
            Line2D(
                [],
                [],
                linestyle="none",
                label=f"no room for {unlabelled} more labels:\nthey are in the table of trials",
            )
        )
    legend(axes, keys)
    return figure


def pareto_front(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the points that no other point matches or beats in both, by ascending first value."""
    front: list[tuple[float, float]] = []
    for x, y in sorted(set(points)):
        if not front or y < front[-1][1]:
            front.append((x, y))
    return front


def _points(verdict: Verdict, records: Sequence[Record]) -> list[_Point]:
    by_place: dict[tuple[str, int, int, int | None], list[Record]] = {}
    for record in records:
        request = record.request
        if request.kind == "learning":
            by_place.setdefault((request.arm, request.num_envs, request.horizon, request.batch_size), []).append(record)
    found = []
    for arm in verdict.arms:
        for limit in arm.learning:
            for point in limit.points:
                # What ran out of memory has cut its own peak short, and spent nothing.
                own = that_ran(by_place.get((arm.arm, point.num_envs, limit.horizon, limit.batch_size), []))
                peaks = [record.memory_peak_gb for record in own if record.memory_peak_gb is not None]
                if point.seconds_to_target is None or not peaks:
                    continue
                batch = "lib" if limit.batch_size is None else f"{limit.batch_size:,}"
                spent = seconds_of([record for record in own if record.memory_peak_gb is not None]).censored
                found.append(
                    _Point(
                        arm.arm,
                        f"{point.num_envs:,}/{limit.horizon}/{batch}{WITHOUT_MEMORY if point.without_memory else ''}",
                        max(peaks),
                        point.seconds_to_target,
                        sorted(set(spent)),
                        point.without_memory,
                    )
                )
    return found


def _scales(axes: Axes, points: Sequence[_Point]) -> None:
    """Set both axes: from 0, or logarithmic where that would press the smaller half together."""
    memories = [point.memory_gb for point in points]
    seconds = [
        s for point in points for s in (*point.spent_s, *(() if point.cost.lower_bound else (point.cost.value,)))
    ] or [point.cost.value for point in points]
    for values, scale, limit in (
        (memories, axes.set_xscale, axes.set_xlim),
        (seconds, axes.set_yscale, axes.set_ylim),
    ):
        low, high = min(values), max(values)
        if high > 12.0 * low:
            scale("log")
            limit(low / 1.5, high * 1.9)
        else:
            limit(0.0, high * 1.22)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(thousands))


def _mark(axes: Axes, point: _Point, look: Look, on_front: bool) -> None:
    lower, upper = point.cost.interval_lower, point.cost.interval_upper
    low, high = axes.get_ylim()
    if lower is not None and upper is not None:
        axes.plot(
            [point.memory_gb] * 2,
            [max(lower, low), min(upper, high)],
            color=look.colour,
            linewidth=1.3,
            alpha=0.55,
            zorder=2,
        )
    axes.plot(
        point.memory_gb, point.cost.value, look.marker, color=look.colour, markersize=7, zorder=4, markeredgewidth=1.2,
        markerfacecolor=look.colour if on_front else "white",
    )  # fmt: skip


def _label(
    axes: Axes,
    figure: Figure,
    points: Sequence[_Point],
    front: Sequence[tuple[float, float]],
    marks: Sequence[tuple[float, float]],
) -> int:
    """Label the points, those on the front first; return how many find no room."""

    def place(point: _Point) -> tuple[float, float]:
        return point.memory_gb, point.spent_s[-1] if point.cost.lower_bound and point.spent_s else point.cost.value

    first = sorted(points, key=lambda point: (place(point) not in front, place(point)))
    box, (width, height) = axes.get_position(), figure.get_size_inches()
    size = 72.0 * width * box.width, 72.0 * height * box.height

    def on_paper(x: float, y: float) -> tuple[float, float]:
        return (
            size[0] * _share(x, axes.get_xlim(), axes.get_xscale()),
            size[1] * _share(y, axes.get_ylim(), axes.get_yscale()),
        )

    found = labels.places(
        [on_paper(*place(point)) for point in first],
        [point.label for point in first],
        size,
        # An arrow reaches as far up as this above its mark.
        [(x - 4.0, y - 4.0, x + 4.0, y + 18.0) for x, y in (on_paper(*mark) for mark in marks)],
        _lines(axes, points, front, on_paper),
    )
    for point, offset in zip(first, found, strict=True):
        if offset is not None:
            axes.annotate(
                point.label, place(point), xytext=(offset.x, offset.y), textcoords="offset points", ha=offset.ha, va=offset.va,
                fontsize=labels.FONT_PT, color=INK, zorder=5,
                bbox={"boxstyle": "square,pad=0.05", "facecolor": "white", "edgecolor": "none", "alpha": 0.85},
                arrowprops={"arrowstyle": "-", "color": GREY, "linewidth": 0.5, "shrinkA": 0, "shrinkB": 4}
                if offset.is_far else None,
            )  # fmt: skip
    return found.count(None)


def _lines(
    axes: Axes,
    points: Sequence[_Point],
    front: Sequence[tuple[float, float]],
    on_paper: Callable[[float, float], tuple[float, float]],
) -> list[tuple[float, float, float, float]]:
    """Return where intervals and the front are drawn, which labels should not cover: boxes on paper."""
    low, high = axes.get_ylim()
    ends = [*front[1:], (axes.get_xlim()[1], front[-1][1])] if front else []
    segments = [
        *(((x, y), (to, y)) for (x, y), (to, _) in zip(front, ends, strict=True)),
        *(((to, y), (to, down)) for (_, y), (to, down) in zip(front, ends, strict=True)),
    ]
    for point in points:
        lower, upper = point.cost.interval_lower, point.cost.interval_upper
        if lower is not None and upper is not None:
            segments.append(((point.memory_gb, max(lower, low)), (point.memory_gb, min(upper, high))))
    corners = [(on_paper(*one), on_paper(*two)) for one, two in segments]
    return [(min(a, c) - 1.0, min(b, d) - 1.0, max(a, c) + 1.0, max(b, d) + 1.0) for (a, b), (c, d) in corners]


def _share(value: float, limits: tuple[float, float], scale: str) -> float:
    if scale == "log":
        return math.log(value / limits[0]) / math.log(limits[1] / limits[0])
    return (value - limits[0]) / (limits[1] - limits[0])


def _title(points: Sequence[_Point], front: Sequence[tuple[float, float]]) -> str:
    if len(points) == 1 and front:
        (one,) = points
        return f"Time to target against memory: {one.cost.value:,.1f} s with {one.memory_gb:,.2f} GB ({one.label})"
    if not front:
        return "Time to target against memory: no point reached the target with every seed"
    several = len({point.arm for point in points}) > 1

    def named(point: _Point) -> str:
        return f"{point.arm}: {point.label}" if several else point.label

    known = {(point.memory_gb, point.cost.value): point for point in points if not point.cost.lower_bound}
    least, soonest = known[front[0]], known[front[-1]]
    if least is soonest:
        return (
            f"Time to target against memory: {named(soonest)} alone on the front,"
            f" {soonest.cost.value:,.1f} s with {soonest.memory_gb:,.2f} GB"
        )
    return (
        f"Time to target against memory: from {least.cost.value:,.1f} s with {least.memory_gb:,.2f} GB ({named(least)})"
        f" to {soonest.cost.value:,.1f} s with {soonest.memory_gb:,.2f} GB ({named(soonest)})"
    )
