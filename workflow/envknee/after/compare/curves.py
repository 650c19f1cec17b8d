"""Both sides' curves over each other: FPS, and seconds to the target, against num_envs.

Each curve is that of the side alone, as its report draws it. It also holds trials that have no counterpart on the other side.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from matplotlib.figure import Figure

from envknee.after.compare.sides import Side
from envknee.decide.study import decide
from envknee.show.figures import canvas
from envknee.show.figures.style import Look, look_at
from envknee.show.figures.throughput import fps_axis, fps_line, throughput_keys
from envknee.verdict.schema.comparison import Comparison
from envknee.verdict.schema.learning import LearningLimit
from envknee.verdict.schema.study import ArmVerdict, Verdict
from envknee.verdict.schema.throughput import ThroughputLimit
from envknee.words import compare as words
from envknee.words.series import series_words

SIDES = ("A", "B")

Limit = TypeVar("Limit", ThroughputLimit, LearningLimit)


def draw_curves(comparison: Comparison, sides: Sequence[Side]) -> list[Figure]:
    """Return the figures for which both sides have values: throughput, then learning; maybe none."""
    verdicts = [decide(side.records, side.study) for side in sides]
    arms = [
        next(arm for arm in verdict.arms if arm.arm == side.arm) for verdict, side in zip(verdicts, sides, strict=True)
    ]
    label = _num_envs_label(verdicts)
    drawn = [_fps(comparison, arms, label), _seconds(comparison, arms, label)]
    return [figure for figure in drawn if figure is not None]


def _fps(comparison: Comparison, arms: Sequence[ArmVerdict], label: str) -> Figure | None:
    of_sides = [[limit for limit in arm.throughput if limit.points] for arm in arms]
    if not all(of_sides):
        return None
    curves = _looks(of_sides)
    limits = [limit for limit, _ in curves]
    fps = [value for limit in limits for point in limit.points for value in point.fps_repeats]
    title = words.curves_finding(comparison, "fps_total")
    figure, (axes,) = canvas.panels(title, words.sides_line(comparison), height=5.0)
    fps_axis(axes, min(fps), max(fps), 0)
    for limit, look in curves:
        fps_line(axes, limit, look)
    canvas.arrows_beyond(axes)
    sizes = [point.num_envs for limit in limits for point in (*limit.points, *limit.infeasible)]
    canvas.sizes_axis(axes, sizes, label)
    axes.set_ylabel("FPS, collecting and learning")
    axes.yaxis.set_major_formatter(canvas.thousands)
    canvas.series_legend(axes, [look for _, look in curves], throughput_keys(limits))
    return figure


def _seconds(comparison: Comparison, arms: Sequence[ArmVerdict], label: str) -> Figure | None:
    of_sides = [
        [limit for limit in arm.learning if any(point.seconds_to_target for point in limit.points)] for arm in arms
    ]
    if not all(of_sides):
        return None
    curves = _looks(of_sides)
    title = words.curves_finding(comparison, "seconds_to_target")
    figure, (axes,) = canvas.panels(title, words.sides_line(comparison), height=5.0)
    costs = []
    for limit, look in curves:
        own = [(point.num_envs, point.seconds_to_target) for point in limit.points]
        canvas.cost_line(axes, own, look)
        costs += [cost for _, cost in own if cost is not None]
    canvas.costs_axis(axes)
    canvas.sizes_axis(axes, {point.num_envs for limit, _ in curves for point in limit.points if point.seeds}, label)
    axes.set_ylabel("Seconds of training\nuntil the target reward")
    keys = []
    if any(cost.interval_lower is not None for cost in costs):
        keys.append(canvas.key(f"interquartile mean over seeds,\n{curves[0][0].confidence:.0%} interval"))
    if any(cost.lower_bound for cost in costs):
        keys.append(canvas.key("a seed missed the target:\nmore than this", "^", hollow=True))
    canvas.series_legend(axes, [look for _, look in curves], keys)
    return figure


def _looks(of_sides: Sequence[Sequence[Limit]]) -> list[tuple[Limit, Look]]:
    """Return the series of A, then those of B, each with a look of its own. Marks of several sides stand beside each other."""
    several = any(len(limits) > 1 for limits in of_sides)
    named = [
        (limit, f"{side}:\n{series_words(limit.series)}" if several else side)
        for side, limits in zip(SIDES, of_sides, strict=True)
        for limit in limits
    ]
    step, middle = min(0.10, 0.5 / len(named)), (len(named) - 1) / 2
    return [
        (limit, replace(look_at(place, label), dodge=2.0 ** (step * (place - middle))))
        for place, (limit, label) in enumerate(named)
    ]


def _num_envs_label(verdicts: Sequence[Verdict]) -> str:
    """Return the label of the axis of both sides; where they count alike, it says how."""
    labels = {canvas.num_envs_label(verdict) for verdict in verdicts}
    return labels.pop() if len(labels) == 1 else "Environments (num_envs)"
