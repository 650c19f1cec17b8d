"""The time of an iteration by phase, against num_envs."""

import math
import textwrap
from itertools import zip_longest

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from envknee.record.schema import PHASES
from envknee.show.evidence import Evidence
from envknee.show.figures import canvas
from envknee.show.figures.style import DASHED, GREY, INK, PHASE_LOOKS, looks_of
from envknee.verdict.schema.phases import PhaseLaws
from envknee.verdict.schema.study import Verdict
from envknee.words.phases import phase_title, phases_title

CUT = 6.0
"""Bars are cut off at this multiple of the lowest, with their height above: the knee is where bars are low."""

LARGEST = 6
"""Most series in the figure. The fastest come first, and the figure says how many are left out."""


def draw_phases(evidence: Evidence) -> Figure:
    """Return stacked bars by phase for each series: microseconds per environment step, and the share of an iteration."""
    verdict = evidence.verdict
    series = _fastest_first(verdict)
    if not series:
        return canvas.in_words("Phases", "No throughput trial tells its phases.", verdict)
    shown = series[:LARGEST]
    looks = looks_of(verdict)
    figure, grid = canvas.panels(
        _title(verdict), verdict, height=2.0 + 2.4 * len(shown), ratios=(1.0,) * len(shown), columns=2, share=False,
        gaps=(0.86, 0.72),
    )  # fmt: skip
    # Leave room for the heights of bars that are cut off, below the name of the series.
    figure.subplots_adjust(top=figure.subplotpars.top - 0.16 / float(figure.get_size_inches()[1]))
    is_cut = False
    for laws, left, right in zip(shown, grid[::2], grid[1::2], strict=True):
        is_cut |= _per_frame(left, laws)
        _stack(right, laws, [[point.shares[phase] for phase in PHASES] for point in laws.points])
        right.set_ylim(0.0, 1.0)
        right.yaxis.set_major_formatter(canvas.PERCENT)
        name = looks[laws.series].label.replace("\n", " ")
        left.set_title(textwrap.shorten(name, 90, placeholder=" …"), loc="left", fontsize=9.5, color=INK, pad=17)
        left.set_ylabel("Microseconds per environment step")
        right.set_ylabel("Share of an iteration")
    for axes in grid[-2:]:
        axes.set_xlabel(canvas.num_envs_label(verdict))
    keys: list[Patch | Line2D] = [
        Patch(facecolor=colour, hatch=hatch, edgecolor="white", linewidth=0.5, label=phase)
        for phase in reversed(PHASES)
        if any(point.seconds[phase] > 0 for laws in shown for point in laws.points)  # no cameras, no rendering
        for colour, hatch in [PHASE_LOOKS[phase]]
    ]
    if any(_floor(laws) is not None for laws in shown):
        keys.append(canvas.line_key("limit of many num_envs: what\neach added one costs", INK, 1.2, linestyle=DASHED))
    if is_cut:
        keys.append(canvas.note("numbers above: bars cut off,\nand how high they are"))
    if len(series) > len(shown):
        keys.append(canvas.note(f"not shown: {len(series) - len(shown)} slower series"))
    canvas.legend(grid[1], keys)
    return figure


def _fastest_first(verdict: Verdict) -> list[PhaseLaws]:
    """Return the laws of all series: first the fastest of each arm, then the second, so that no arm is left out."""
    of_arms = [sorted(arm.phases, key=_best_fps, reverse=True) for arm in verdict.arms]
    return [laws for of_place in zip_longest(*of_arms) for laws in of_place if laws is not None]


def _best_fps(laws: PhaseLaws) -> float:
    return max(point.num_envs * laws.horizon * laws.world_size / sum(point.seconds.values()) for point in laws.points)


def _per_frame(axes: Axes, laws: PhaseLaws) -> bool:
    """Draw microseconds per environment step, and return whether any bar is cut off."""
    frames = [point.num_envs * laws.horizon * laws.world_size for point in laws.points]
    bars = [[1e6 * point.seconds[p] / n for p in PHASES] for point, n in zip(laws.points, frames, strict=True)]
    _stack(axes, laws, bars)
    heights = [sum(bar) for bar in bars]
    top = 1.06 * min(max(heights), CUT * min(heights))
    axes.set_ylim(0.0, top)
    for place, height in enumerate(heights):
        if height > top:
            axes.annotate(
                canvas.thousands(float(f"{height:.3g}")), (place, 1.0), xycoords=("data", "axes fraction"), xytext=(0, 2),
                textcoords="offset points", ha="center", va="bottom", fontsize=6.5, color=GREY,
            )  # fmt: skip
    floor = _floor(laws)
    if floor is not None:
        axes.axhline(floor, color=INK, linewidth=1.2, linestyle=DASHED, zorder=4)
    return max(heights) > top


def _floor(laws: PhaseLaws) -> float | None:
    """Return the lower limit of microseconds per environment step for many environments; None if the laws are not used."""
    return 1e6 / laws.asymptote_fps if laws.sets_the_knee is not None and laws.asymptote_fps else None


def _stack(axes: Axes, laws: PhaseLaws, heights: list[list[float]]) -> None:
    """Draw one bar per num_envs at equal distances, which suits any num_envs."""
    places = list(range(len(laws.points)))
    below = [0.0] * len(places)
    for i, phase in enumerate(PHASES):
        colour, hatch = PHASE_LOOKS[phase]
        values = [bar[i] for bar in heights]
        axes.bar(places, values, 0.78, below, color=colour, hatch=hatch, edgecolor="white", linewidth=0.5, zorder=2)
        below = [start + value for start, value in zip(below, values, strict=True)]
    axes.grid(axis="x", visible=False)
    axes.set_xlim(-0.6, max(len(places) - 0.4, 2.6))
    every = math.ceil(len(places) / 5)
    ticks = places[(len(places) - 1) % every :: every]
    axes.set_xticks(ticks, [f"{laws.points[place].num_envs:,}" for place in ticks])
    axes.tick_params(axis="x", length=0, labelsize=8.5)
    axes.tick_params(axis="y", color=GREY)


def _title(verdict: Verdict) -> str:
    """Return what sets the knee of each arm's fastest series."""
    found = {arm.arm: max(arm.phases, key=_best_fps, default=None) for arm in verdict.arms}
    said = {arm: "phases unknown" if laws is None else phase_title(laws) for arm, laws in found.items()}
    return canvas.by_arm(said, phases_title(found))
