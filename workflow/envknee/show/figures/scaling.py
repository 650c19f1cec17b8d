"""Scaling efficiency of several ranks against num_envs per rank."""

from matplotlib.figure import Figure

from envknee.show.evidence import Evidence
from envknee.show.figures import canvas
from envknee.show.figures.style import DASHED, INK, looks_of
from envknee.verdict.schema.scaling import ScalingPoint
from envknee.verdict.schema.study import Verdict
from envknee.verdict.series import Series
from envknee.words.scaling import scaling_notes, scaling_statement, scaling_title, scalings_title


def draw_scaling(evidence: Evidence) -> Figure:
    """Return the efficiency of each arm with several ranks, against num_envs per rank."""
    verdict = evidence.verdict
    lines = _efficiencies(verdict)
    if not lines:
        why = "\n".join(
            "; ".join([f"{scaling.arm}: {scaling_statement(scaling)}", *scaling_notes(scaling)]) + "."
            for scaling in verdict.scaling
        )
        return canvas.in_words("Scaling", why or "No arm of this study trains on several ranks.", verdict)
    looks = looks_of(verdict, lines, octaves=0.05)
    # The speed-up at the fastest point of each arm, without its horizon and batch size.
    titles = {scaling.arm: scaling_title(scaling) for scaling in verdict.scaling}
    figure, (axes,) = canvas.panels(canvas.by_arm(titles, scalings_title(verdict.scaling)), verdict, height=5.0)
    points = [point for line in lines.values() for point in line]
    for series, line in lines.items():
        look = looks[series]
        sizes = [point.num_envs * look.dodge for point in line]
        axes.plot(sizes, [point.efficiency for point in line], color=look.colour, linewidth=1.8)
        for x, point in zip(sizes, line, strict=True):
            ends = point.efficiency_lower, point.efficiency_upper
            canvas.value_mark(
                axes, x, point.efficiency, ends, look, "none" if point.efficiency_lower is None else "full"
            )
    whole = axes.axhline(
        1.0, color=INK, linewidth=1.0, linestyle=DASHED, label="100%: k ranks give\nk times one rank's FPS"
    )
    bounds = [bound for point in points for bound in (point.efficiency_lower, point.efficiency_upper)]
    axes.set_ylim(*canvas.readable([0.8, 1.2, *(point.efficiency for point in points)], bounds))
    canvas.arrows_beyond(axes)
    canvas.sizes_axis(axes, [point.num_envs for point in points], canvas.num_envs_label(verdict))
    axes.set_ylabel("Scaling efficiency:\nFPS of all ranks / (ranks × FPS of one)")
    axes.yaxis.set_major_formatter(canvas.PERCENT)
    keys = [whole]
    if any(point.efficiency_lower is not None for point in points):
        keys.append(canvas.key(f"{verdict.confidence:.0%} interval"))
    if any(point.efficiency_lower is None for point in points):
        keys.append(canvas.key("one repeat: no interval", hollow=True))
    canvas.series_legend(axes, looks.values(), keys)
    return figure


def _efficiencies(verdict: Verdict) -> dict[Series, list[ScalingPoint]]:
    """Return the points of each series by num_envs, without series that have none."""
    lines: dict[Series, list[ScalingPoint]] = {}
    for scaling in verdict.scaling:
        for point in sorted(scaling.points, key=lambda point: point.num_envs):
            lines.setdefault(point.series._replace(arm=scaling.arm), []).append(point)
    return lines
