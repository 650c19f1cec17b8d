"""The figures of a study, and a table of its trials.

Input: records, the iterations of learning trials, and the limits decided from them. Output: files in results/<study>/figures.

    python -m envknee.figures results/<study>                       write every figure
    python -m envknee.figures results/<study> --config my.yaml      decided by another file's `decide:` section

Each `draw_` function is pure: it takes what is to be seen and returns a matplotlib figure. The same records give the same
bytes. A kind of trial that a study does not have gives a figure that says so, because the workflow expects the file; only
scaling is left out where no arm trains on several ranks.
"""

import argparse
import html
import io
import math
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator, PercentFormatter

from envknee.errors import run_command
from envknee.files import StudyFolder, write_atomically
from envknee.limits import Ranks, Series, shown_batch, times
from envknee.limits.learning import best_of
from envknee.limits.memory import FAR_BEYOND, MemoryLimit, batch_transitions, measured_peaks
from envknee.limits.scaling import Scaling, ScalingPoint
from envknee.limits.throughput import ThroughputLimit
from envknee.limits.verdict import ArmVerdict, Verdict, add_study_arguments, decide, load_study
from envknee.record import Record, load_records, read_rows, reward_averages

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#444444")
"""Okabe and Ito's palette: told apart with any common colour blindness. Markers differ as well."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X")

DASHES: tuple[tuple[float, tuple[float, ...]], ...] = ((0.0, ()), (0.0, (5.0, 2.0)), (0.0, (1.0, 1.5)))
"""Solid, dashed, dotted: for more lines than colours."""

STATUS_MARKERS = {
    "ok": "o",
    "target_reached": "o",
    "timeout": "^",
    "oom": "X",
    "refused": "_",
    "nan": "*",
    "diverged": "d",
}

STATUS_WORDS = {
    "ok": "measured",
    "target_reached": "target reached",
    "timeout": "budget spent first",
    "oom": "out of memory",
    "refused": "refused: cannot fit",
    "nan": "NaN",
    "diverged": "diverged",
}

INK, GREY, FAINT = "#222222", "#6b6b6b", "#d9d9d9"

STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": GREY,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": FAINT,
    "grid.linewidth": 0.6,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    # Names inside the file come from its content, so that the same records give the same bytes.
    "svg.hashsalt": "envknee",
}

WIDTH_IN = 9.8


@dataclass(frozen=True)
class Curve:
    """What one learning trial earned while it trained; lists have an entry per iteration with a reward."""

    record: Record
    frames: list[int]
    wall_s: list[float]
    reward: list[float]
    """Mean over at least `target_episodes` finished episodes."""


def draw_throughput(verdict: Verdict) -> Figure:
    """Return FPS against num_envs with every repeat, and below it the gain from each doubling with its interval."""
    limits = [limit for arm in verdict.arms for limit in arm.throughput if limit.points or limit.infeasible]
    if not any(limit.points for limit in limits):
        failed = sum(point.oom + point.refused for limit in limits for point in limit.infeasible)
        why = (
            f"All {failed} trials ran out of memory or were refused."
            if failed
            else "This study has no throughput trial."
        )
        return _words("Throughput", why, verdict)
    shown = {limit.series for limit in limits}
    looks = {series: look for series, look in _looks(verdict).items() if series in shown}
    figure, (upper, lower) = _canvas(_throughput_title(verdict), verdict, height=7.0, ratios=(1.7, 1.0))
    sizes = sorted({point.num_envs for limit in limits for point in limit.points})
    best = max(max(point.fps_repeats) for limit in limits for point in limit.points)
    thresholds = _thresholds(limits, looks)
    upper.set_ylim(0, best * (1.12 + 0.06 * min(len(thresholds), 3)))
    for limit in limits:
        _fps_line(upper, limit, looks[limit.series])
        _gains(lower, limit, looks[limit.series], _dodge(limit.series, looks))
    for place, (size, colours) in enumerate(thresholds.items()):
        for axes in (upper, lower):
            # Several series with one threshold: their colours take turns along one line.
            for turn, colour in enumerate(colours):
                line = axes.axvline(size, color=colour, linewidth=1.3, zorder=1)
                if len(colours) > 1:
                    line.set_linestyle((6.0 * turn, (6.0, 6.0 * (len(colours) - 1))))
        upper.annotate(
            f" threshold {size:,}",
            (size, 1.0 - 0.06 * (place % 3)),
            xycoords=("data", "axes fraction"),
            va="top",
            color=colours[0] if len(colours) == 1 else INK,
            fontsize=9,
        )
    _sizes_axis(lower, sizes, sorted({point.num_envs for limit in limits for point in limit.infeasible}))
    several = any(arm.world_size > 1 for arm in verdict.arms)
    upper.set_ylabel("Frames per second,\ncollecting and learning" + (",\nall ranks together" if several else ""))
    upper.yaxis.set_major_formatter(FuncFormatter(_thousands))
    lower.set_ylabel("Gain from doubling")
    lower.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    lower.axhline(0.0, color=GREY, linewidth=0.8)
    lower.axhline(verdict.delta, color=INK, linewidth=1.0, linestyle=(0, (4, 3)))
    lower.annotate(
        f"δ = {verdict.delta:.0%}", (1.005, verdict.delta), xycoords=("axes fraction", "data"), va="center", fontsize=9
    )
    lower.set_ylim(*_gain_range(limits, verdict.delta))
    lower.set_xlabel(_num_envs_label(verdict))
    _series_legend(upper, looks, _throughput_keys(limits))
    _legend(
        lower,
        [
            _key("o", GREY, f"shown to be\nbelow δ (Holm, {verdict.confidence:.0%})"),
            _key("o", GREY, "not shown", hollow=True),
        ],
    )
    return figure


def draw_scaling(verdict: Verdict) -> Figure:
    """Return the efficiency of several ranks against num_envs on each, for every arm that has them."""
    lines = _efficiencies(verdict)
    if not lines:
        why = "\n".join("; ".join([f"{one.arm}: {one.statement}", *one.notes]) + "." for one in verdict.scaling)
        return _words("Scaling", why or "No arm of this study trains on several ranks.", verdict)
    looks = {series: look for series, look in _looks(verdict).items() if series in lines}
    figure, (axes,) = _canvas(_scaling_title(verdict), verdict, height=5.0)
    points = [point for line in lines.values() for point in line]
    for series, line in lines.items():
        _efficiency_line(axes, line, looks[series], _dodge(series, looks, 0.05))
    axes.axhline(1.0, color=INK, linewidth=1.0, linestyle=(0, (4, 3)))
    axes.annotate(
        "100%: k ranks give k times one rank's FPS", (0.01, 1.0), xycoords=("axes fraction", "data"), xytext=(0, 3),
        textcoords="offset points", fontsize=9,
    )  # fmt: skip
    axes.set_ylim(
        *_readable(
            [1.0, 0.8, *(point.efficiency for point in points)],
            [b for point in points for b in (point.efficiency_lower, point.efficiency_upper) if b is not None],
        )
    )
    _sizes_axis(axes, sorted({point.num_envs for point in points}), [])
    axes.set_xlabel(_num_envs_label(verdict))
    axes.set_ylabel("Scaling efficiency:\nFPS of all ranks / (ranks × FPS of one)")
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    keys = []
    if any(point.efficiency_lower is not None for point in points):
        keys.append(_key("o", GREY, f"{verdict.confidence:.0%} interval"))
    if any(point.efficiency_lower is None for point in points):
        keys.append(_key("o", GREY, "one repeat: no interval", hollow=True))
    _series_legend(axes, looks, keys)
    return figure


def draw_memory(verdict: Verdict, records: Sequence[Record]) -> Figure:
    """Return the measured peaks against num_envs, the model through them, and what the device has."""
    measured = measured_peaks(records)
    failed = [record for record in records if record.outcome.status in ("oom", "refused")]
    if not measured:
        why = "No trial lived long enough to measure its memory." if failed else "No trial is finished."
        return _words("Memory", why, verdict)
    looks = _looks(verdict)
    figure, (axes,) = _canvas(_memory_title(verdict), verdict, height=5.4)
    peaks = [(record, record.memory_peak_gb) for record in measured if record.memory_peak_gb is not None]
    sizes = sorted({record.request.num_envs for record in measured})
    limits = {arm.arm: arm.memory for arm in verdict.arms if arm.memory is not None}
    for record, peak_gb in peaks:
        look = looks[_series(record)]
        x = record.request.num_envs * _dodge(_series(record), looks, 0.05)
        axes.plot(x, peak_gb, look.marker, color=look.colour, markersize=5, alpha=0.75, markeredgewidth=0)
    for series, look in looks.items():
        _memory_model(axes, limits.get(series.arm), series, look, measured)
    top = _device_limits(axes, list(limits.values()), max(peak_gb for _, peak_gb in peaks))
    axes.set_ylim(0, top)
    for record in failed:
        look = looks[_series(record)]
        marker = STATUS_MARKERS[record.outcome.status]
        axes.plot(
            record.request.num_envs * _dodge(_series(record), looks, 0.05), 0.96 * top, marker, color=look.colour, markersize=8,
            markeredgewidth=1.5 if marker == "_" else 0,
        )  # fmt: skip
    _sizes_axis(axes, sizes, sorted({record.request.num_envs for record in failed}))
    axes.set_xlabel(_num_envs_label(verdict))
    quantities = sorted({limit.quantity for limit in limits.values()})
    axes.set_ylabel(f"Peak memory (GB):\n{' / '.join(quantities)}")
    keys = [
        _key("o", GREY, "one trial"),
        _model_key(list(limits.values())),
    ]
    keys += [
        _key(STATUS_MARKERS[status], GREY, STATUS_WORDS[status])
        for status in sorted({r.outcome.status for r in failed})
    ]
    _series_legend(axes, looks, keys)
    return figure


def draw_learning(verdict: Verdict, curves: Sequence[Curve]) -> Figure:
    """Return the mean episode reward of every learning trial against frames and against wall seconds."""
    unseen = sum(not curve.reward for curve in curves)
    curves = [curve for curve in curves if curve.reward]
    if not curves:
        why = (
            f"None of {unseen} learning trials finished enough episodes for a mean."
            if unseen
            else "This study has no learning trial."
        )
        return _words("Learning", why, verdict)
    points = sorted({_point(curve.record) for curve in curves}, key=_point_order)
    several = len({arm for arm, *_ in points}) > 1
    ranks = {arm.arm: arm.ranks for arm in verdict.arms}
    figure, (by_frames, by_time) = _canvas(_learning_title(verdict), verdict, height=5.0, columns=2)
    colours = {point: COLOURS[place % len(COLOURS)] for place, point in enumerate(points)}
    dashes = {point: DASHES[place // len(COLOURS) % len(DASHES)] for place, point in enumerate(points)}
    for axes, x_of in ((by_frames, lambda curve: curve.frames), (by_time, lambda curve: curve.wall_s)):
        for curve in curves:
            point = _point(curve.record)
            x, status = x_of(curve), curve.record.outcome.status
            axes.plot(x, curve.reward, color=colours[point], linestyle=dashes[point], linewidth=1.4, alpha=0.85)
            axes.plot(
                x[-1], curve.reward[-1], STATUS_MARKERS[status], color=colours[point], markersize=6.5,
                markerfacecolor=colours[point] if status == "target_reached" else "white", clip_on=False, zorder=4,
            )  # fmt: skip
        for target in sorted(
            {c.record.request.target_reward for c in curves if c.record.request.target_reward is not None}
        ):
            axes.axhline(target, color=INK, linewidth=1.0, linestyle=(0, (4, 3)))
            axes.annotate(
                f"target {target:g}", (0.01, target), xycoords=("axes fraction", "data"), xytext=(0, 3),
                textcoords="offset points", fontsize=9,
            )  # fmt: skip
        axes.set_xlim(left=0)
        axes.xaxis.set_major_formatter(FuncFormatter(_thousands))
    by_frames.set_ylabel(f"Mean episode reward\n(over at least {_episodes(curves)} episodes)")
    by_frames.set_xlabel("Frames, all environments together")
    by_time.set_xlabel("Wall seconds of training")
    by_time.tick_params(labelleft=False)
    keys = [
        Line2D(
            [], [], color=colours[point], linestyle=dashes[point], linewidth=2,
            label=_point_label(point, several, ranks[point[0]]),
        )
        for point in points
    ]  # fmt: skip
    statuses = sorted({curve.record.outcome.status for curve in curves})
    keys += [_key(STATUS_MARKERS[s], GREY, f"ends: {STATUS_WORDS[s]}", hollow=s != "target_reached") for s in statuses]
    if unseen:
        keys.append(Line2D([], [], linestyle="none", label=f"not shown: {unseen} that finished\ntoo few episodes"))
    _legend(by_time, keys)
    return figure


def draw_history(verdict: Verdict, records: Sequence[Record]) -> Figure:
    """Return what every trial gave, in the order of the trials, and the best value so far."""
    panels: list[tuple[str, str, Callable[[Record], float | None], bool]] = [
        ("throughput", "Frames per second", lambda record: record.fps_total.median if record.fps_total else None, True),
        ("learning", "Seconds to target", lambda record: record.seconds_to_target, False),
    ]
    shown = [panel for panel in panels if any(record.request.kind == panel[0] for record in records)]
    if not shown:
        return _words("History of the sweep", "No trial is finished.", verdict)
    figure, grid = _canvas(
        "History of the sweep", verdict, height=2.0 + 2.4 * len(shown), ratios=(1.0,) * len(shown), share=False
    )
    looks = {arm.arm: COLOURS[place % len(COLOURS)] for place, arm in enumerate(verdict.arms)}
    for axes, (kind, label, value_of, more_is_better) in zip(grid, shown, strict=True):
        trials = sorted((r for r in records if r.request.kind == kind), key=lambda record: record.request.number)
        _history_panel(axes, trials, value_of, more_is_better, looks)
        axes.set_ylabel(f"{label}\n({kind} trials)")
        axes.set_xlim(trials[0].request.number - 0.7, trials[-1].request.number + 0.7)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    grid[-1].set_xlabel("Trial number")
    keys = [_key("s", looks[arm.arm], f"arm {arm.arm}") for arm in verdict.arms]
    keys += [Line2D([], [], color=GREY, linewidth=1.4, label="best so far")]
    statuses = {record.outcome.status for record in records}
    words = {status: STATUS_WORDS[status] for status in STATUS_WORDS if status in statuses}
    if {"ok", "target_reached"} <= set(words):
        words = {
            "ok": "measured / target reached",
            **{s: w for s, w in words.items() if s not in ("ok", "target_reached")},
        }
    keys += [_key(STATUS_MARKERS[status], GREY, word, hollow=_no_value(status)) for status, word in words.items()]
    _legend(grid[0], keys)
    return figure


def trials_html(verdict: Verdict, records: Sequence[Record]) -> str:
    """Return a table of all trials as one self-contained HTML page."""
    rows = "\n".join(_trial_row(record) for record in sorted(records, key=lambda record: record.request.number))
    statuses = ", ".join(f"{count} {STATUS_WORDS[status]}" for status, count in verdict.statuses.items()) or "none yet"
    heads = "".join(f'<th class="{alignment}">{html.escape(head)}</th>' for head, alignment in TABLE_COLUMNS)
    return TABLE_PAGE.format(
        study=html.escape(verdict.study),
        summary=html.escape(f"{verdict.trials_measured} of {verdict.trials_planned} trials: {statuses}"),
        hardware=html.escape(_subtitle(verdict)),
        heads=heads,
        rows=rows,
    )


TABLE_COLUMNS = (
    ("#", "n"), ("arm", ""), ("kind", ""), ("envs", "n"), ("horizon", "n"), ("batch", "n"), ("repeat", "n"), ("status", ""),
    ("FPS total", "n"), ("peak GB", "n"), ("seconds to target", "n"), ("best reward", "n"), ("took s", "n"), ("reason", "r"),
)  # fmt: skip

TABLE_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Trials of {study}</title>
<style>
body {{ font: 14px/1.45 system-ui, "DejaVu Sans", sans-serif; color: #222; margin: 1.5rem; }}
h1 {{ font-size: 1.25rem; margin: 0; }}
p {{ color: #6b6b6b; margin: .2rem 0; }}
table {{ border-collapse: collapse; margin-top: 1rem; font-variant-numeric: tabular-nums; }}
th, td {{ padding: .3rem .7rem; text-align: left; border-bottom: 1px solid #e3e3e3; white-space: nowrap; }}
th {{ position: sticky; top: 0; background: #fff; border-bottom: 2px solid #444; }}
.n {{ text-align: right; }}
.r {{ white-space: normal; min-width: 14rem; color: #6b6b6b; }}
.good td:nth-child(8) {{ color: #00694c; }}
.bad td:nth-child(8) {{ color: #a84800; font-weight: 600; }}
tr:hover td {{ background: #f5f8fa; }}
</style>
</head>
<body>
<h1>Trials of {study}</h1>
<p>{summary}</p>
<p>{hardware}</p>
<table>
<thead><tr>{heads}</tr></thead>
<tbody>
{rows}
</tbody>
</table>
</body>
</html>
"""


def curve_of(record: Record, frames: Sequence[int], wall_s: Sequence[float], averages: Sequence[float | None]) -> Curve:
    """Return the curve of a learning trial, without the iterations before enough episodes had ended."""
    kept = [(f, s, r) for f, s, r in zip(frames, wall_s, averages, strict=True) if r is not None]
    return Curve(record, [f for f, _, _ in kept], [s for _, s, _ in kept], [r for _, _, r in kept])


def svg_of(figure: Figure) -> str:
    """Return a figure as SVG text, the same for the same figure."""
    stream = io.StringIO()
    with mpl.rc_context(STYLE):
        figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    return stream.getvalue()


# --- Parts of the throughput figure


@dataclass(frozen=True)
class _Look:
    colour: str
    marker: str
    label: str


def _fps_line(axes: Axes, limit: ThroughputLimit, look: _Look) -> None:
    """Draw every repeat, the geometric mean through them with its interval, and the fitted law."""
    sizes = [point.num_envs for point in limit.points]
    fps = [point.fps for point in limit.points]
    for point in limit.points:
        axes.plot(
            [point.num_envs] * len(point.fps_repeats), point.fps_repeats, look.marker, color=look.colour, markersize=3.2,
            alpha=0.55, markeredgewidth=0,
        )  # fmt: skip
        if point.fps_lower is not None and point.fps_upper is not None:
            axes.plot(
                [point.num_envs] * 2, [point.fps_lower, point.fps_upper], color=look.colour, linewidth=1.3, alpha=0.9
            )
    axes.plot(sizes, fps, color=look.colour, linewidth=1.8)
    axes.plot(sizes, fps, look.marker, color=look.colour, markersize=6, markeredgecolor="white", markeredgewidth=0.8)
    for point in limit.infeasible:
        axes.plot(
            point.num_envs,
            0,
            STATUS_MARKERS["oom"],
            color=look.colour,
            markersize=8,
            markeredgewidth=0,
            clip_on=False,
            zorder=5,
        )
    if limit.law is not None:
        dense = [sizes[0] * 2 ** (step / 20) for step in range(int(20 * math.log2(sizes[-1] / sizes[0])) + 8)]
        transitions = limit.world_size * limit.horizon
        law = [size * transitions / (limit.law.t0_s + limit.law.s_per_env * size) for size in dense]
        axes.plot(
            dense, law, color=look.colour, linewidth=0.9, linestyle=(0, (3, 2)), alpha=0.8 if limit.law.used else 0.4
        )


def _thresholds(limits: Sequence[ThroughputLimit], looks: dict[Series, _Look]) -> dict[int, list[str]]:
    """Return the colours of the series whose threshold lies at each num_envs, ascending."""
    found: dict[int, list[str]] = {}
    for limit in limits:
        if limit.threshold_num_envs is not None:
            found.setdefault(limit.threshold_num_envs, []).append(looks[limit.series].colour)
    return dict(sorted(found.items()))


def _gains(axes: Axes, limit: ThroughputLimit, look: _Look, dodge: float) -> None:
    """Draw the gain of each doubling at the num_envs that is doubled; filled where it is shown to be below delta."""
    for gain in limit.gains:
        x = gain.num_envs * dodge
        if gain.gain_lower is not None and gain.gain_upper is not None:
            axes.plot([x, x], [gain.gain_lower, gain.gain_upper], color=look.colour, linewidth=1.3, alpha=0.9)
        axes.plot(
            x, gain.gain, look.marker, color=look.colour, markersize=6, zorder=4,
            markerfacecolor=look.colour if gain.shown_below_delta else "white",
        )  # fmt: skip


def _gain_range(limits: Sequence[ThroughputLimit], delta: float) -> tuple[float, float]:
    """Return an axis that shows every gain whole, and intervals as far as they leave the gains readable."""
    gains = [gain.gain for limit in limits for gain in limit.gains] or [delta]
    bounds = [
        b for limit in limits for gain in limit.gains for b in (gain.gain_lower, gain.gain_upper) if b is not None
    ]
    return _readable([*gains, -0.05, 3 * delta], bounds)


def _throughput_keys(limits: Sequence[ThroughputLimit]) -> list[Line2D]:
    if all(len(point.fps_repeats) == 1 for limit in limits for point in limit.points):
        keys = [_key("o", GREY, "one repeat per point:\nno interval, no threshold")]
    else:
        keys = [
            _key("o", GREY, f"mean of repeats, {limits[0].confidence:.0%} interval"),
            _key("o", GREY, "one repeat", size=3.2),
        ]
    laws = [limit.law for limit in limits if limit.law is not None]
    if laws:
        ranks = "k·" if any(limit.world_size > 1 for limit in limits) else ""
        label = f"law {ranks}N·T / (t₀ + c·N)"
        dashed = Line2D([], [], color=GREY, linewidth=1.0, linestyle=(0, (3, 2)), label=label)
        keys.append(dashed)
        unused = [law.largest_relative_error for law in laws if not law.used]
        if unused:
            keys.append(
                Line2D([], [], linestyle="none", label=f"(faint: not used,\nmisses by up to {max(unused):.0%})")
            )
    if any(limit.infeasible for limit in limits):
        keys.append(_key(STATUS_MARKERS["oom"], GREY, "did not fit the memory"))
    return keys


def _throughput_title(verdict: Verdict) -> str:
    def of(arm: ArmVerdict) -> tuple[str, str]:
        """Return the threshold, and the series it is read from."""
        headline = arm.headline
        if headline is None:
            return "nothing measured", ""
        series = Series(arm.arm, headline.horizon, headline.batch_size)
        if headline.threshold_num_envs is not None:
            return f"{headline.threshold_num_envs:,} environments{arm.ranks.each}", str(series)
        largest = next(limit.at_least for limit in arm.throughput if limit.series == series)
        return f"not reached, at least {largest:,} environments{arm.ranks.each}", str(series)

    found = {arm.arm: of(arm) for arm in verdict.arms}
    if len(found) == 1:
        ((threshold, series),) = found.values()
        return f"Throughput threshold: {threshold}" + (f"\nof the fastest series: {series}" if series else "")
    lines = (f"{arm}: {threshold}" + (f" ({series})" if series else "") for arm, (threshold, series) in found.items())
    return "Throughput threshold of each arm's fastest series\n" + "\n".join(lines)


# --- Parts of the scaling figure


def _efficiencies(verdict: Verdict) -> dict[Series, list[ScalingPoint]]:
    """Return the points of every line, by num_envs; a series without one is left out."""
    lines: dict[Series, list[ScalingPoint]] = {}
    for one in verdict.scaling:
        for point in sorted(one.points, key=lambda point: point.num_envs):
            lines.setdefault(Series(one.arm, point.horizon, point.batch_size), []).append(point)
    return lines


def _efficiency_line(axes: Axes, line: Sequence[ScalingPoint], look: _Look, dodge: float) -> None:
    """Draw one series' efficiencies with their intervals; hollow where one repeat tells no interval."""
    sizes = [point.num_envs * dodge for point in line]
    axes.plot(sizes, [point.efficiency for point in line], color=look.colour, linewidth=1.8)
    for x, point in zip(sizes, line, strict=True):
        lower, upper = point.efficiency_lower, point.efficiency_upper
        if lower is not None and upper is not None:
            axes.plot([x, x], [lower, upper], color=look.colour, linewidth=1.3, alpha=0.9)
        axes.plot(
            x, point.efficiency, look.marker, color=look.colour, markersize=6, zorder=4,
            markerfacecolor="white" if lower is None else look.colour,
        )  # fmt: skip


def _scaling_title(verdict: Verdict) -> str:
    """Return what the fastest point of each arm says."""

    def of(one: Scaling) -> str:
        if not one.points:
            return one.statement
        fastest = max(one.points, key=lambda point: point.fps_all_ranks)
        ranks = Ranks(one.world_size, arms[one.arm].rank_word)
        return f"{ranks} give {fastest.speedup:.2f} times {ranks.alone}'s FPS at {fastest.num_envs:,} environments each"

    arms = {arm.arm: arm for arm in verdict.arms}
    if len(verdict.scaling) == 1:
        return f"Scaling: {of(verdict.scaling[0])}"
    return "Scaling at each arm's fastest point\n" + "\n".join(f"{one.arm}: {of(one)}" for one in verdict.scaling)


# --- Parts of the memory figure


def _memory_model(
    axes: Axes, limit: MemoryLimit | None, series: Series, look: _Look, measured: Sequence[Record]
) -> None:
    """Draw the model through one series, over the num_envs that were measured at all and one doubling more."""
    if limit is None or not limit.identifiable:
        return
    mini_batches = next((r.num_mini_batches for r in measured if _series(r) == series and r.num_mini_batches), None)
    sizes = sorted({record.request.num_envs for record in measured if record.request.arm == series.arm})
    dense = [sizes[0] * 2 ** (step / 20) for step in range(int(20 * math.log2(sizes[-1] / sizes[0])) + 8)]
    model = []
    for size in dense:
        terms = {term.name: term.gb for term in limit.terms}
        rollout = size * series.horizon
        batch = batch_transitions(1, series.horizon, series.batch_size, mini_batches, limit.world_size) * (
            1 if series.batch_size else size
        )
        model.append(
            terms.get("base", 0.0) + terms.get("per_environment", 0.0) * size + terms.get("per_transition", 0.0) * rollout
            + terms.get("per_batch_transition", 0.0) * batch
        )  # fmt: skip
    axes.plot(dense, model, color=look.colour, linewidth=1.4)


def _model_key(limits: Sequence[MemoryLimit]) -> Line2D:
    errors = [limit.largest_error_gb for limit in limits if limit.largest_error_gb is not None]
    label = "model v₀ + a·N + b·N·T + c·B" + (
        f"\n(misses by up to {max(errors):.2f} GB)" if errors else ":\ntoo few points"
    )
    return Line2D([], [], color=GREY, linewidth=1.4, label=label)


def _device_limits(axes: Axes, limits: Sequence[MemoryLimit], highest: float) -> float:
    """Draw what each device has where that is near the peaks, else say how far above it is; return the top of the axis."""
    top = highest * 1.25
    above = []
    for device_gb, margin in sorted(
        {(limit.device_memory_gb, limit.margin) for limit in limits if limit.device_memory_gb}
    ):
        assert device_gb is not None
        usable = device_gb * (1.0 - margin)
        if usable <= 4.0 * highest:
            top = max(top, device_gb * 1.08)
            axes.axhline(device_gb, color=INK, linewidth=1.2)
            axes.axhline(usable, color=INK, linewidth=1.0, linestyle=(0, (4, 3)))
            axes.annotate(
                f"device: {device_gb:,.1f} GB; usable with {margin:.0%} kept free: {usable:,.1f} GB", (0.01, usable),
                xycoords=("axes fraction", "data"), xytext=(0, -4), textcoords="offset points", va="top", fontsize=9,
            )  # fmt: skip
        else:
            above.append(f"usable: {usable:,.1f} GB, {usable / highest:,.0f} times the largest peak (above this axis)")
    if above:
        axes.annotate("\n".join(above), (0.01, 0.985), xycoords="axes fraction", va="top", fontsize=9, color=GREY)
    return top


def _memory_title(verdict: Verdict) -> str:
    walls = [
        wall for arm in verdict.arms if arm.memory for wall in arm.memory.walls if wall.largest_num_envs is not None
    ]
    if any(arm.memory and arm.memory.infeasible for arm in verdict.arms):
        return "Memory: some trials ran out of it, or could not have fitted"
    if not walls:
        return "Memory: peaks measured"
    nearest = min(wall.extrapolation for wall in walls if wall.extrapolation is not None)
    if nearest >= FAR_BEYOND:
        return f"Memory: far from binding ({times(nearest)} the largest num_envs measured)"
    return f"Memory: the limit is {nearest:.1f} times the largest num_envs measured"


# --- Parts of the learning and history figures


def _point(record: Record) -> tuple[str, int, int, int | None]:
    request = record.request
    return request.arm, request.num_envs, request.horizon, request.batch_size


def _point_order(point: tuple[str, int, int, int | None]) -> tuple[str, int, int, int]:
    return point[0], point[1], point[2], point[3] or 0


def _point_label(point: tuple[str, int, int, int | None], several_arms: bool, ranks: Ranks) -> str:
    arm, num_envs, horizon, batch_size = point
    return f"{f'{arm}: ' if several_arms else ''}{num_envs:,} envs{ranks.each}, T {horizon}, {shown_batch(batch_size)}"


def _episodes(curves: Sequence[Curve]) -> str:
    return " or ".join(str(n) for n in sorted({curve.record.request.target_episodes or 1 for curve in curves}))


def _learning_title(verdict: Verdict) -> str:
    limits = [limit for arm in verdict.arms for limit in arm.learning]
    reached = sum(point.reached for limit in limits for point in limit.points)
    seeds = sum(point.seeds for limit in limits for point in limit.points)
    bests = [(arm.ranks, best) for arm in verdict.arms if (best := best_of(arm.learning)) is not None]
    title = f"Learning: {reached} of {seeds} trials reached the target"
    if bests:
        ranks, best = min(bests, key=lambda found: found[1].seconds_to_target.value)
        title += f", soonest {best.num_envs:,} environments{ranks.each} in {best.seconds_to_target.value:,.1f} s"
    return title


def _no_value(status: str) -> bool:
    return status not in ("ok", "target_reached")


def _history_panel(
    axes: Axes,
    trials: Sequence[Record],
    value_of: Callable[[Record], float | None],
    more_is_better: bool,
    colours: dict[str, str],
) -> None:
    """Draw one kind of trial: its values, the best so far per arm, and trials without a value on a strip at the bottom."""
    values = {
        record.request.number: value
        for record in trials
        if not _no_value(record.outcome.status) and (value := value_of(record)) is not None
    }
    top = 1.12 * max(values.values(), default=1.0)
    strip = -0.09 * top
    axes.set_ylim(0.0 if len(values) == len(trials) else 1.7 * strip, top)
    axes.axhline(0.0, color=GREY, linewidth=0.8)
    for record in trials:
        number, status = record.request.number, record.outcome.status
        colour = colours.get(record.request.arm, GREY)
        axes.plot(
            number, values.get(number, strip), STATUS_MARKERS[status], color=colour, markersize=6, zorder=3,
            markerfacecolor="white" if _no_value(status) else colour, markeredgewidth=1.1,
        )  # fmt: skip
    for arm in dict.fromkeys(record.request.arm for record in trials):
        numbers = [r.request.number for r in trials if r.request.arm == arm and r.request.number in values]
        best: list[float] = []
        for number in numbers:
            pick = max if more_is_better else min
            best.append(pick([values[number], *best[-1:]]))
        if numbers:
            last = trials[-1].request.number
            axes.step(
                [*numbers, last],
                [*best, best[-1]],
                where="post",
                color=colours.get(arm, GREY),
                linewidth=1.4,
                alpha=0.6,
            )
    if len(values) < len(trials):
        axes.annotate(
            "no value",
            (-0.008, strip),
            xycoords=("axes fraction", "data"),
            ha="right",
            va="center",
            fontsize=8.5,
            color=GREY,
        )
    axes.set_yticks([tick for tick in axes.get_yticks() if 0 <= tick <= top])
    axes.yaxis.set_major_formatter(FuncFormatter(_thousands))


def _trial_row(record: Record) -> str:
    request = record.request
    cells = (
        str(request.number), request.arm, request.kind,
        f"{request.num_envs:,}" + (f" x {record.world_size}" if record.world_size > 1 else ""), f"{request.horizon:,}",
        "library" if request.batch_size is None else f"{request.batch_size:,}", str(request.repeat + 1),
        STATUS_WORDS[record.outcome.status], _cell(record.fps_total.median if record.fps_total else None, ",.0f"),
        _cell(record.memory_peak_gb, ".2f"), _cell(record.seconds_to_target, ",.1f"), _cell(record.best_reward, ".2f"),
        _cell(record.outcome.total_s, ",.0f"), record.outcome.reason or "",
    )  # fmt: skip
    kind = "bad" if _no_value(record.outcome.status) else "good"
    columns = zip(cells, TABLE_COLUMNS, strict=True)
    body = "".join(f'<td class="{alignment}">{html.escape(cell)}</td>' for cell, (_, alignment) in columns)
    return f'<tr class="{kind}">{body}</tr>'


def _cell(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


# --- Shared


def _series(record: Record) -> Series:
    return Series(record.request.arm, record.request.horizon, record.request.batch_size)


def _looks(verdict: Verdict) -> dict[Series, _Look]:
    """Return one colour and marker per series, so that a series looks the same in every figure of a study."""
    timed = [limit.series for arm in verdict.arms for limit in arm.throughput]
    others = [limit.series for arm in verdict.arms for limit in arm.learning]
    several = len(verdict.arms) > 1
    return {
        one: _Look(
            # Colours and markers come around at different times.
            COLOURS[place % len(COLOURS)],
            MARKERS[(place + place // len(COLOURS)) % len(MARKERS)],
            f"{one.arm}:\n{one}" if several else str(one),
        )
        for place, one in enumerate(dict.fromkeys([*timed, *others]))
    }


def _dodge(series: Series, looks: dict[Series, _Look], octaves: float = 0.10) -> float:
    """Return a factor on num_envs that keeps the marks of several series apart, by `octaves` each at most."""
    step = min(octaves, 0.5 / len(looks))
    return 2.0 ** (step * (list(looks).index(series) - (len(looks) - 1) / 2))


def _readable(values: Sequence[float], bounds: Sequence[float]) -> tuple[float, float]:
    """Return an axis that shows every value whole, and intervals as far as they leave the values readable."""
    lowest, highest = min(values), max(values)
    span = highest - lowest
    room = 0.15 * span
    lower, upper = min([lowest, *bounds]), max([highest, *bounds])
    return max(lower, lowest - 0.5 * span) - room, min(upper, highest + 0.5 * span) + room


def _subtitle(verdict: Verdict) -> str:
    hardware = sorted({device for arm in verdict.arms for device in arm.hardware})
    return " · ".join([verdict.task_id, *(hardware or ["hardware unknown: nothing ran"]), f"study {verdict.study}"])


def _canvas(
    title: str,
    verdict: Verdict,
    height: float,
    ratios: tuple[float, ...] = (1.0,),
    columns: int = 1,
    share: bool = True,
) -> tuple[Figure, list[Axes]]:
    """Return a figure with a title, a line about task and hardware, and panels that leave room for a legend on the right."""
    title = "\n".join(part for line in title.splitlines() for part in textwrap.wrap(line, 80))
    subtitle = textwrap.fill(_subtitle(verdict), 125)
    lines, more = title.count("\n") + 1, subtitle.count("\n")
    height += 0.25 * (lines - 1) + 0.16 * more
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH_IN, height))
        left = 1.05 / WIDTH_IN
        figure.text(left, 1 - 0.18 / height, title, fontsize=12.5, fontweight="bold", va="top")
        below = 0.18 + 0.27 * lines
        figure.text(left, 1 - below / height, subtitle, fontsize=9, color=GREY, va="top")
        grid = figure.subplots(
            len(ratios), columns, sharex="col" if share else False, sharey="row", squeeze=False, height_ratios=ratios
        )
        figure.subplots_adjust(
            left=left,
            right=1 - 2.65 / WIDTH_IN,
            top=1 - (below + 0.42 + 0.16 * more) / height,
            bottom=0.62 / height,
            hspace=0.12 if share else 0.28,
            wspace=0.14,
        )
        return figure, list(grid.flat)


def _words(subject: str, sentence: str, verdict: Verdict) -> Figure:
    """Return a figure that says why there is nothing to see."""
    lines = [part for line in sentence.splitlines() for part in textwrap.wrap(line, 95)]
    figure, (axes,) = _canvas(f"{subject}: nothing to show", verdict, height=2.0 + 0.2 * len(lines))
    axes.set_axis_off()
    sentence = "\n".join(lines)
    axes.text(0.0, 0.6, sentence, fontsize=11, color=INK, va="center", transform=axes.transAxes)
    return figure


def _sizes_axis(axes: Axes, sizes: Sequence[int], failed: Sequence[int]) -> None:
    """Make the x axis logarithmic with the measured num_envs as its ticks, thinned where they would touch."""
    axes.set_xscale("log", base=2)
    ticks: list[int] = []
    for size in sorted({*sizes, *failed}):
        if not ticks or math.log2(size / ticks[-1]) >= math.log2(max(*sizes, *failed, 2) / sizes[0]) / 12:
            ticks.append(size)
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda size, _: f"{size:,.0f}"))
    axes.set_xlim(sizes[0] / 2**0.4, max([*sizes, *failed]) * 2**0.4)


def _num_envs_label(verdict: Verdict) -> str:
    """Return the label of an axis of num_envs, which are those of each rank."""
    words = sorted({arm.rank_word for arm in verdict.arms if arm.world_size > 1})
    where = f" on each {' or '.join(words)}" if words else ""
    return f"Environments side by side{where} (num_envs)"


def _thousands(value: float, _: object = None) -> str:
    """Return `12k` or `1.5M` for large numbers, else the number."""
    for size, unit in ((1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / (1e3 if unit == 'k' else 1e6):g}{unit}"
    return f"{value:,.0f}" if value == round(value) else f"{value:g}"


def _key(marker: str, colour: str, label: str, hollow: bool = False, size: float = 6.0) -> Line2D:
    return Line2D(
        [], [], color=colour, marker=marker, linestyle="none", markersize=size, label=label,
        markerfacecolor="white" if hollow else colour,
    )  # fmt: skip


def _series_legend(axes: Axes, looks: dict[Series, _Look], more: Sequence[Line2D]) -> None:
    keys = [
        Line2D([], [], color=look.colour, marker=look.marker, markersize=6, linewidth=1.8, label=look.label)
        for look in looks.values()
    ]
    _legend(axes, [*keys, *more])


def _legend(axes: Axes, keys: Sequence[Line2D]) -> None:
    with mpl.rc_context(STYLE):
        axes.legend(
            handles=list(keys), loc="upper left", bbox_to_anchor=(1.03, 1.02), borderaxespad=0.0, labelspacing=0.55
        )


def main() -> None:
    """Write every figure of a study, and the table of its trials."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    add_study_arguments(parser)
    arguments = parser.parse_args()
    folder = StudyFolder(arguments.folder)
    study = load_study(folder, arguments.config)
    records = load_records(folder)
    verdict = decide(records, study)
    folder.figures.mkdir(exist_ok=True)
    drawn = {
        "throughput.svg": draw_throughput(verdict),
        "memory.svg": draw_memory(verdict, records),
        "learning.svg": draw_learning(
            verdict, [_read_curve(folder, r) for r in records if r.request.kind == "learning"]
        ),
        "history.svg": draw_history(verdict, records),
    }
    if max(study.world_sizes) > 1:
        drawn["scaling.svg"] = draw_scaling(verdict)
    for name, figure in drawn.items():
        write_atomically(folder.figures / name, svg_of(figure))
    write_atomically(folder.figures / "trials.html", trials_html(verdict, records))


def _read_curve(folder: StudyFolder, record: Record) -> Curve:
    rows = read_rows(folder.trial(record.request.number))
    averages = reward_averages(rows, record.request.target_episodes or 1)
    return curve_of(record, [row.frames for row in rows], [row.wall_s for row in rows], averages)


if __name__ == "__main__":
    run_command(main)
