"""Parallel coordinates: every trial of the search as a line over num_envs, horizon, batch size and cost."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from envknee.record.schema import Record
from envknee.show.evidence import Evidence
from envknee.show.figures import canvas
from envknee.show.figures.answers import (
    NO_TRIAL,
    Answered,
    answered,
    panels_below,
    reach,
    scale,
    scale_steps,
)
from envknee.show.figures.style import GREY, INK
from envknee.verdict.joint.importance import importance_of
from envknee.verdict.joint.observed import Observed
from envknee.words.numbers import counted

Trial = tuple[Record, Observed]

SPREAD = 0.035
"""Half the height over which lines through one value are spread, as a share of the axis."""

WORST = 5.0
"""Times the least cost at which the colours end at the latest."""


class _Axis(NamedTuple):
    """One of the parallel axes."""

    name: str
    of: Callable[[Trial], float]


AXES = (
    _Axis("num_envs", lambda trial: trial[0].request.num_envs),
    _Axis("horizon", lambda trial: trial[0].request.horizon),
    _Axis("batch size", lambda trial: trial[0].request.batch_size or 0),
)


def draw_coordinates(evidence: Evidence) -> Figure:
    """Return a panel for each answer, coloured by the cost."""
    verdict = evidence.verdict
    shown = [own for own in answered(evidence) if searched(own)]
    if not shown:
        return canvas.in_words("Trials of the search", NO_TRIAL, verdict)
    worst = reach([[cost.cost for _, cost in searched(own)] for own in shown], WORST)
    figure, panels = panels_below(
        shown, [_found(own) for own in shown], "Trials of the search", verdict, 1.5 + 3.9 * len(shown), gap=0.75
    )
    for axes, own in zip(panels, shown, strict=True):
        _panel(axes, own, worst)
    canvas.legend(panels[0], _keys(shown, worst))
    return figure


def searched(own: Answered) -> list[Trial]:
    """Return the trials of the search, in the order of their numbers: fresh seeds are none."""
    return [(record, cost) for record, cost in own.trials if not record.request.confirms]


def _panel(axes: Axes, own: Answered, worst: float) -> None:
    # The best lines come last, on top.
    trials = sorted(searched(own), key=lambda trial: -trial[1].cost)
    colours = scale((cost.cost for _, cost in trials), worst)
    cost_axis = _Axis("FPS" if own.is_fps else "seconds", lambda trial: own.value(trial[1].cost))
    every = [axis for axis in AXES if axis.name != "batch size" or all(map(axis.of, trials))]
    heights = [_heights(axes, place, axis, trials) for place, axis in enumerate(every)]
    heights.append(_cost_heights(axes, len(every), cost_axis, trials))
    for place, (_, cost) in enumerate(trials):
        axes.plot(
            range(len(heights)), [of_axis[place] for of_axis in heights], color=colours[cost.cost], linewidth=1.3, alpha=0.8,
            linestyle=(0, (3, 2)) if cost.is_censored else "-", zorder=2,
        )  # fmt: skip
    axes.set_xlim(-0.12, len(heights) - 0.75)
    axes.set_ylim(-0.06, 1.06)
    axes.set_yticks([])
    axes.grid(visible=False)
    shape = own.answer.shape
    matters = {
        found.axis: f"\n{found.times:.2f} times" for found in (importance_of(shape) if shape is not None else [])
    }
    axes.set_xticks(range(len(heights)), [*(axis.name + matters.get(axis.name, "") for axis in every), cost_axis.name])
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)
    axes.tick_params(length=0)


def _heights(axes: Axes, place: int, axis: _Axis, trials: Sequence[Trial]) -> list[float]:
    """Draw an axis with its values; return the height of each trial, spread around its value by cost."""
    values = sorted({axis.of(trial) for trial in trials})
    _scale(axes, place, {value: _height(value, values) for value in values})
    rooms = [_height(upper, values) - _height(lower, values) for lower, upper in zip(values, values[1:], strict=False)]
    spread = min([SPREAD, *(0.35 * room for room in rooms)])
    heights = []
    for value in map(axis.of, trials):
        heights.append(_height(value, values))
    for value in values:
        same = [at for at, trial in enumerate(trials) if axis.of(trial) == value]
        for rank, at in enumerate(same):
            heights[at] += spread * (1.0 - 2.0 * rank / max(len(same) - 1, 1)) if len(same) > 1 else 0.0
    return heights


def _cost_heights(axes: Axes, place: int, axis: _Axis, trials: Sequence[Trial]) -> list[float]:
    """Draw the axis of cost, logarithmic; return the height of each trial."""
    values = sorted(map(axis.of, trials))
    ends = [values[0], values[-1]]
    decades = range(math.floor(math.log10(ends[0])), math.ceil(math.log10(ends[1])) + 1)
    nice = [digit * 10.0**decade for decade in decades for digit in (1, 1.5, 2, 3, 4, 6, 8)]
    ticks = {value: _height(value, ends) for value in nice if ends[0] <= value <= ends[1]}
    _scale(axes, place, ticks, canvas.thousands)
    return [_height(axis.of(trial), ends) for trial in trials]


def _height(value: float, ends: Sequence[float]) -> float:
    """Return where a value lies on a logarithmic axis between the first and the last of `ends`: 0 to 1."""
    return math.log(value / ends[0]) / math.log(ends[-1] / ends[0]) if ends[-1] > ends[0] else 0.5


def _scale(axes: Axes, place: int, ticks: dict[float, float], said: Callable[[float], str] = "{:,.0f}".format) -> None:
    """Draw an axis with ticks (value → height), which `said` puts into words: as a size, if it is not given."""
    axes.plot([place, place], [-0.04, 1.04], color=GREY, linewidth=0.9, zorder=1)
    for value, height in ticks.items():
        axes.plot(place, height, "_", color=INK, markersize=7, zorder=3)
        axes.annotate(
            said(value), (place, height), xytext=(5, 0),
            textcoords="offset points", va="center", fontsize=8.5, zorder=5,
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.6},
        )  # fmt: skip


def _keys(shown: Sequence[Answered], worst: float) -> list[Line2D]:
    keys = [canvas.note("a line is a trial of the search,\ncoloured by its cost:")]
    keys += [canvas.line_key(label, colour, 2.2) for colour, label in scale_steps(worst)]
    if any(cost.is_censored for own in shown for _, cost in searched(own)):
        keys.append(canvas.line_key("did not reach the target:\nmore than shown", linestyle=(0, (3, 2))))
    if any(own.answer.shape for own in shown):
        keys.append(
            canvas.note("below an axis, how much it\nmatters: the cost at its worst\nvalue over that at its best")
        )
    keys.append(canvas.note("The best one seen is lucky:\nthe confirmed settings tell\nwhat to expect."))
    return keys


def _found(own: Answered) -> str:
    trials = searched(own)
    spent = sum(cost.is_censored for _, cost in trials)
    missed = f", of which {spent:,} did not reach the target" if spent else ""
    return f"{counted(len(trials), 'trial')} of the search{missed}"
