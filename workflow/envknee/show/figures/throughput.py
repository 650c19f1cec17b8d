"""FPS against num_envs, with the gain of each doubling."""

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullLocator

from envknee.show.evidence import Evidence
from envknee.show.figures import canvas
from envknee.show.figures.style import DASHED, GREY, INK, STATUS_MARKERS, Look, looks_of
from envknee.verdict.card import card_of
from envknee.verdict.lead import lead_of
from envknee.verdict.schema.study import ArmVerdict, Verdict
from envknee.verdict.schema.throughput import ThroughputLimit
from envknee.verdict.series import Series
from envknee.words.lead import ahead_in
from envknee.words.numbers import percent
from envknee.words.ranks import each
from envknee.words.series import series_words
from envknee.words.states import what_decides
from envknee.words.study import shared_series

FILLS: dict[str, canvas.Fill] = {"pays": "top", "stopped": "full", "undecided": "none"}
"""How far the mark of a doubling is filled, by what is shown of it."""

NARROW = 4.0
"""FPS within this factor are drawn on a linear axis from 0."""


def draw_throughput(evidence: Evidence) -> Figure:
    """Return FPS against num_envs with every repeat, and below them the gain of each doubling with its interval."""
    verdict = evidence.verdict
    limits = [limit for arm in verdict.arms for limit in arm.throughput if limit.points or limit.infeasible]
    if not any(limit.points for limit in limits):
        failed = sum(point.oom + point.refused for limit in limits for point in limit.infeasible)
        why = f"All {failed} trials ran out of memory or were refused."
        return canvas.in_words("Throughput", why if failed else "No throughput trial has run yet.", verdict)
    looks = looks_of(verdict, {limit.series for limit in limits})
    if any(limit.gains for limit in limits):
        figure, (upper, lower) = canvas.panels(_throughput_title(evidence), verdict, height=7.0, ratios=(1.7, 1.0))
        _gains_panel(lower, limits, looks, verdict)
    else:
        figure, (upper,) = canvas.panels(_throughput_title(evidence), verdict, height=5.0)
    sizes = [point.num_envs for limit in limits for point in (*limit.points, *limit.infeasible)]
    fps = [value for limit in limits for point in limit.points for value in point.fps_repeats]
    thresholds: dict[int, list[str]] = {}
    for limit in limits:
        if limit.threshold_num_envs is not None:
            thresholds.setdefault(limit.threshold_num_envs, []).append(looks[limit.series].colour)
    fps_axis(upper, min(fps), max(fps), len(thresholds))
    for limit in limits:
        fps_line(upper, limit, looks[limit.series])
    canvas.arrows_beyond(upper)
    _threshold_lines(figure.axes, thresholds)
    canvas.sizes_axis(figure.axes[-1], sizes, canvas.num_envs_label(verdict))
    several = any(arm.world_size > 1 for arm in verdict.arms)
    upper.set_ylabel("FPS, collecting and learning" + (",\nall ranks together" if several else ""))
    upper.yaxis.set_major_formatter(canvas.thousands)
    canvas.series_legend(upper, looks.values(), throughput_keys(limits))
    return figure


def fps_axis(axes: Axes, least: float, best: float, thresholds: int) -> None:
    """Scale the FPS by doublings, like num_envs, so that a curve bends where doubling pays less; linearly for a narrow range."""
    room = 0.12 + 0.06 * min(thresholds, 3)
    if best < NARROW * least:
        axes.set_ylim(0, best * (1.0 + room))
        return
    axes.set_yscale("log", base=2)
    axes.set_ylim(least / 1.3, best * (1.3 * best / least) ** room)
    doublings = range(math.floor(math.log2(least / 1e3)) - 1, math.ceil(math.log2(best / 1e3)) + 2)
    axes.yaxis.set_major_locator(FixedLocator([1e3 * 2.0**doubling for doubling in doublings]))
    axes.yaxis.set_minor_locator(NullLocator())


def fps_line(axes: Axes, limit: ThroughputLimit, look: Look) -> None:
    """Draw every repeat, their geometric mean with its interval, and the fitted law."""
    sizes = [point.num_envs for point in limit.points]
    fps = [point.fps for point in limit.points]
    for point in limit.points:
        axes.plot(
            [point.num_envs] * len(point.fps_repeats), point.fps_repeats, look.marker, color=look.colour, markersize=3.2,
            alpha=0.55, markeredgewidth=0,
        )  # fmt: skip
        canvas.interval_bar(axes, point.num_envs, point.fps_lower, point.fps_upper, look.colour)
    axes.plot(sizes, fps, color=look.colour, linewidth=1.8)
    composed = [point.num_envs for point in limit.points if point.composed]
    for hollow in (False, True) if composed else (False,):
        marked = [point for point in limit.points if (point.num_envs in composed) == hollow]
        fill, edge = ("white", look.colour) if hollow else (look.colour, "white")
        axes.plot(
            [point.num_envs for point in marked], [point.fps for point in marked], look.marker, color=fill, markersize=6,
            markeredgecolor=edge, markeredgewidth=0.8,
        )  # fmt: skip
    for point in limit.infeasible:
        axes.plot(
            point.num_envs * look.dodge, 0.0, STATUS_MARKERS["oom"], color=look.colour, markersize=8, markeredgewidth=0,
            clip_on=False, zorder=5, transform=axes.get_xaxis_transform(),
        )  # fmt: skip
    if limit.law is not None:
        dense, transitions = canvas.densely(sizes), limit.world_size * limit.horizon
        law = [size * transitions / (limit.law.t0_s + limit.law.s_per_env * size) for size in dense]
        axes.plot(
            dense, law, color=look.colour, linewidth=0.9, linestyle=(0, (3, 2)), alpha=0.8 if limit.law.used else 0.4
        )


def _threshold_lines(panels: Sequence[Axes], thresholds: dict[int, list[str]]) -> None:
    """Draw a line at each threshold, with the colours of its series, through all panels, and its number in the first one."""
    for place, (size, colours) in enumerate(sorted(thresholds.items())):
        for axes in panels:
            # The colours of several series with the same threshold alternate along one line.
            for turn, colour in enumerate(colours):
                line = axes.axvline(size, color=colour, linewidth=1.3, zorder=1)
                if len(colours) > 1:
                    line.set_linestyle((6.0 * turn, (6.0, 6.0 * (len(colours) - 1))))
        panels[0].annotate(
            f" threshold {size:,}", (size, 1.0 - 0.06 * (place % 3)), xycoords=("data", "axes fraction"), va="top",
            color=colours[0] if len(colours) == 1 else INK, fontsize=9,
        )  # fmt: skip


def _gains_panel(axes: Axes, limits: Sequence[ThroughputLimit], looks: dict[Series, Look], verdict: Verdict) -> None:
    """Draw the gain of each doubling at its smaller num_envs, and delta; how far a mark is filled says what is shown."""
    for limit in limits:
        look = looks[limit.series]
        for gain in limit.gains:
            ends = gain.gain_lower, gain.gain_upper
            fill = FILLS[gain.shown(verdict.delta)]
            canvas.value_mark(axes, gain.num_envs * look.dodge, gain.gain, ends, look, fill)
    axes.set_ylabel("FPS gained by\ndoubling num_envs")
    axes.yaxis.set_major_formatter(canvas.PERCENT)
    axes.axhline(0.0, color=GREY, linewidth=0.8)
    axes.axhline(verdict.delta, color=INK, linewidth=1.0, linestyle=DASHED)
    gains = [gain for limit in limits for gain in limit.gains]
    bounds = [bound for gain in gains for bound in (gain.gain_lower, gain.gain_upper)]
    axes.set_ylim(*canvas.readable([*(gain.gain for gain in gains), -0.05, 3 * verdict.delta], bounds))
    canvas.arrows_beyond(axes)
    sure = f"{verdict.confidence:.0%}"
    said = {
        "pays": f"pays: shown to gain the\ncut-off or more ({sure})",
        "stopped": f"stops paying: shown to\ngain less ({sure})",
        "undecided": "undecided: neither is shown,\nor too few repeats",
    }
    cut_off = canvas.line_key(f"cut-off {verdict.delta:.0%}", linestyle=DASHED)
    canvas.legend(axes, [cut_off, *(canvas.filled_key(label, FILLS[shown]) for shown, label in said.items())])


def throughput_keys(limits: Sequence[ThroughputLimit]) -> list[Line2D]:
    """Return the keys of what `fps_line` draws, for a legend."""
    if all(len(point.fps_repeats) == 1 for limit in limits for point in limit.points):
        keys = [canvas.key("one repeat per point:\nno interval, no threshold")]
    else:
        keys = [
            canvas.key(f"mean of repeats, {limits[0].confidence:.0%} interval"),
            canvas.key("one repeat", size=3.2),
        ]
    if any(point.composed for limit in limits for point in limit.points):
        keys.append(canvas.key("composed from times\nat the smallest horizon", hollow=True))
    laws = [limit.law for limit in limits if limit.law is not None]
    if laws:
        several = any(limit.world_size > 1 for limit in limits)
        ranks, counted = ("k·", "k ranks, ") if several else ("", "")
        keys.append(canvas.line_key(f"law {ranks}N·T / (t₀ + c·N)", linestyle=(0, (3, 2))))
        keys.append(canvas.note(f"{counted}N num_envs, T horizon,\nt₀ and c fitted"))
        unused = [law.largest_relative_error for law in laws if not law.used]
        if unused:
            keys.append(canvas.note(f"(faint: not used,\nmisses by up to {max(unused):.0%})"))
    if any(limit.infeasible for limit in limits):
        keys.append(canvas.key("did not run there", STATUS_MARKERS["oom"]))
    return keys


def _throughput_title(evidence: Evidence) -> str:
    verdict, records, _ = evidence

    def of(arm: ArmVerdict) -> str:
        """Return what the arm's limit gives, with horizon and batch size if arms differ in them."""
        headline, limit = arm.headline, arm.recommended
        if headline is None or limit is None:
            return "nothing measured"
        of_each = f"environments{each(arm.ranks)}"
        said = (
            _finding(limit, of_each) if limit.gains else f"{headline.fps:,.0f} FPS with {headline.num_envs:,} {of_each}"
        )
        return said if shared_series(verdict) else f"{said} ({series_words(limit.series)})"

    sentence = ahead_in(lead_of(verdict, card_of(verdict, records)), "throughput") or "FPS, by arm"
    return canvas.by_arm({arm.arm: of(arm) for arm in verdict.arms}, sentence)


def _finding(limit: ThroughputLimit, of_each: str) -> str:
    gain = next((gain for gain in limit.gains if gain.num_envs == limit.threshold_num_envs), None)
    if gain is not None:
        less = f"gains {percent(gain.gain)}" if gain.gain >= 0.0 else f"costs {percent(-gain.gain)}"
        return f"{limit.point(gain.num_envs).fps:,.0f} FPS with {gain.num_envs:,} {of_each}; doubling {less}"
    largest = max(limit.points, key=lambda point: point.num_envs)
    unfit = min((point.num_envs for point in limit.infeasible if point.num_envs > largest.num_envs), default=None)
    if limit.state == "still pays":
        return f"doubling still pays at {largest.num_envs:,} {of_each}, the largest size{' that fits' if unfit else ''}"
    if unfit is not None:
        return f"{largest.fps:,.0f} FPS with {largest.num_envs:,} {of_each}; {unfit:,} do not fit"
    return f"undecided up to {largest.num_envs:,} {of_each} ({what_decides(limit)})"
