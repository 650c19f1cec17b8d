"""Time to target against peak memory, with the Pareto front."""

from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from envknee.record.schema import Record
from envknee.show.evidence import Evidence
from envknee.show.figures import canvas
from envknee.show.figures.style import INK, Look, look_at, wrapped
from envknee.verdict.learning_cost import that_ran
from envknee.verdict.schema.learning import Cost
from envknee.verdict.schema.study import Verdict
from envknee.verdict.series import by_series

WITHOUT_MEMORY = "*"
"""Mark after the label of a point at which some trials lacked memory."""

MOST_NUMBERED = 8
"""Points on the front that get a number: the legend has room for them."""


class _Point(NamedTuple):
    """One num_envs, horizon and batch size of one arm."""

    arm: str
    label: str
    memory_gb: float
    """Largest peak of its trials, on the rank with the most."""
    cost: Cost
    without_memory: int
    """Trials that ran out of memory or were refused."""

    @property
    def place(self) -> tuple[float, float]:
        """GB, seconds."""
        return self.memory_gb, self.cost.value


def draw_pareto(evidence: Evidence) -> Figure:
    """Return seconds to the target against peak memory, with the Pareto front."""
    verdict, records, _ = evidence
    points = _points(verdict, records)
    if not points:
        any_ran = any(record.request.kind == "learning" for record in records)
        why = "No learning trial lived long enough to tell." if any_ran else "No learning trial has run yet."
        return canvas.in_words("Time to target against memory", why, verdict)
    known = [point for point in points if not point.cost.lower_bound]
    front = pareto_front([point.place for point in known])
    on_front = sorted((point for point in known if point.place in front), key=lambda point: point.place)
    figure, (axes,) = canvas.panels(_title(points, on_front), verdict, height=5.6)
    looks = {arm.arm: look_at(place, arm.arm) for place, arm in enumerate(verdict.arms)}
    for point in points:
        look = looks[point.arm]
        face, size = (look.colour, 11) if point in on_front else ("white", 7)
        canvas.cost_mark(axes, point.memory_gb, point.cost, look, markerfacecolor=face, markersize=size)
    axes.set_xscale("log")
    canvas.readable_ticks(axes.xaxis)
    canvas.costs_axis(axes)
    if front:
        right = axes.get_xlim()[1]
        corners = [*front, (right, front[-1][1])]
        axes.plot(*zip(*corners, strict=True), color=INK, linewidth=1.2, zorder=2, drawstyle="steps-post")
        axes.set_xlim(right=right)
    numbered = dict(enumerate(on_front[:MOST_NUMBERED], 1))
    for number, point in numbered.items():
        axes.text(*point.place, f"{number}", fontsize=7, color="white", ha="center", va="center", zorder=6)
    ranks = ", of the fullest rank" if any(arm.world_size > 1 for arm in verdict.arms) else ""
    axes.set_xlabel(f"Peak memory (GB){ranks}")
    axes.set_ylabel("Wall seconds of training to the target")
    canvas.legend(axes, _keys(points, numbered, looks, verdict.confidence))
    return figure


def pareto_front(places: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the Pareto front of places, by ascending first value."""
    front: list[tuple[float, float]] = []
    for x, y in sorted(set(places)):
        if not front or y < front[-1][1]:
            front.append((x, y))
    return front


def _points(verdict: Verdict, records: Sequence[Record]) -> list[_Point]:
    # A trial that ran out of memory has neither its full peak nor a time.
    trials = by_series([record for record in that_ran(records) if record.memory_peak_gb is not None], "learning")
    points = []
    for limit in (limit for arm in verdict.arms for limit in arm.learning):
        batch = "lib" if limit.batch_size is None else f"{limit.batch_size:,}"
        for point in limit.points:
            own = trials.get(limit.series, {}).get(point.num_envs, [])
            if point.seconds_to_target is not None and own:
                label = f"{point.num_envs:,}/{limit.horizon}/{batch}{WITHOUT_MEMORY if point.without_memory else ''}"
                peak_gb = max(record.memory_peak_gb or 0.0 for record in own)
                points.append(_Point(limit.arm, label, peak_gb, point.seconds_to_target, point.without_memory))
    return points


def _keys(
    points: Sequence[_Point], numbered: dict[int, _Point], looks: dict[str, Look], confidence: float
) -> list[Line2D]:
    keys = [canvas.key(wrapped(f"arm {look.label}"), look.marker, look.colour) for look in looks.values()]
    for number, point in numbered.items():
        look, costs = looks[point.arm], f"{point.cost.value:,.1f} s, {point.memory_gb:,.2f} GB"
        keys.append(canvas.key(f"{number}: {point.label}\n{costs}", look.marker, look.colour))
    keys += [
        canvas.line_key("Pareto front: less of one\ncosts more of the other", INK, 1.2),
        canvas.key("beaten in both", hollow=True),
        canvas.note("num_envs/horizon/batch\n(lib: the library's own)"),
    ]
    if any(point.cost.interval_lower is not None for point in points):
        keys.append(canvas.line_key(f"{confidence:.0%} interval over seeds", width=1.3))
    if any(point.cost.lower_bound for point in points):
        keys.append(canvas.key("some seeds did not reach\nit: more than this", "^", hollow=True))
    if any(point.without_memory for point in numbered.values()):
        keys.append(canvas.note(f"{WITHOUT_MEMORY} some trials there ran out\nof memory or were refused"))
    return keys


def _title(points: Sequence[_Point], on_front: Sequence[_Point]) -> str:
    if not on_front:
        return "No point reached the target with every seed"
    several = len({point.arm for point in points}) > 1

    def costs(point: _Point) -> str:
        return f"{point.cost.value:,.1f} s with {point.memory_gb:,.2f} GB"

    def name(point: _Point) -> str:
        return f"{point.arm}: {point.label}" if several else point.label

    smallest, soonest = on_front[0], on_front[-1]
    if len(points) == 1:
        return f"{soonest.label} reaches the target in {costs(soonest)}"
    if smallest is soonest:
        return f"{name(soonest)} is soonest and needs the least memory: {costs(soonest)}"
    return f"Soonest: {name(soonest)}, {costs(soonest)}\nLeast memory: {name(smallest)}, {costs(smallest)}"
