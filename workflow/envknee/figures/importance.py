"""Which lever decides: every trial against each of its sizes, with Optuna's importance of that size."""

import statistics
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter

from envknee.config import Kind, Study
from envknee.figures.canvas import canvas, in_words, key, legend, sizes_axis, thousands, up_arrow
from envknee.figures.style import COLOURS, GREY, INK, MARKERS, Look
from envknee.limits.verdict import Verdict
from envknee.optuna_export import OBJECTIVE, trials_of
from envknee.record import Record
from envknee.samplers import AXES, DID_NOT_FIT

BEST = 5
"""Trials that count as the best ones: Optuna advises at least so many (PedAnovaImportanceEvaluator, 5.0)."""

FEWEST = 2 * BEST
"""With fewer trials the best ones would be most of them, and nothing is said of importance."""

MOST_TICKS = 5

WORDS = {"num_envs": "num_envs", "horizon": "horizon", "batch_size": "batch size"}


@dataclass(frozen=True)
class Slices:
    """The trials of one arm and kind."""

    arm: str
    kind: Kind
    records: Sequence[Record]
    sizes: Mapping[str, Sequence[int]]
    """Of each axis that has several."""
    importances: Mapping[str, float]
    """Of each such axis, together 1; empty with fewer than `FEWEST` trials."""


def importances(study: Study, kind: Kind, records: Sequence[Record]) -> dict[str, float]:
    """Return how much each size decides whether a trial is among the best, by PED-ANOVA; {} where that cannot be told.

    Args:
        study: what was measured
        kind: of the trials
        records: of one arm
    """
    import optuna  # 0.3 s that other figures should not pay

    if len(records) < FEWEST:
        return {}
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    made = optuna.create_study(direction=OBJECTIVE[kind][0])
    made.add_trials(trials_of(study, kind, records))
    quantile = max(0.1, BEST / len(records))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it is experimental: the version is pinned
        evaluator = optuna.importance.PedAnovaImportanceEvaluator(target_quantile=quantile)
        found = optuna.importance.get_param_importances(made, evaluator=evaluator)
    return {name: float(found[name]) for name in AXES if name in found}


def slices_of(study: Study, records: Sequence[Record]) -> list[Slices]:
    """Return the trials of every arm and kind in which at least two sizes have several values: one alone decides everything."""
    found = []
    for arm in sorted({record.request.arm for record in records}):
        for kind in OBJECTIVE:
            own = [record for record in records if (record.request.arm, record.request.kind) == (arm, kind)]
            values = {name: sorted({getattr(record.request, name) for record in own} - {None}) for name in AXES}
            sizes = {name: several for name, several in values.items() if len(several) > 1}
            if len(sizes) > 1:
                found.append(Slices(arm, kind, own, sizes, importances(study, kind, own)))
    return found


def draw_importance(verdict: Verdict, study: Study, records: Sequence[Record]) -> Figure:
    """Return a row for each arm and kind of trial, with a panel for each size that was swept."""
    rows = slices_of(study, records)
    if not rows:
        return in_words("Importance", "No two sizes have several values each in the trials that are finished.", verdict)
    names = [name for name in AXES if any(name in row.sizes for row in rows)]
    figure, grid = canvas(
        _title(rows, len(verdict.arms) > 1), verdict, height=1.5 + 2.7 * len(rows), ratios=(1.0,) * len(rows),
        columns=len(names), share=False, gaps=(0.3, 0.95),
    )  # fmt: skip
    arms = [arm.arm for arm in verdict.arms]
    for place, row in enumerate(rows):
        index = arms.index(row.arm)
        look = Look(COLOURS[index % len(COLOURS)], MARKERS[index % len(MARKERS)], row.arm)
        panels = grid[place * len(names) : (place + 1) * len(names)]
        for name, axes in zip(names, panels, strict=True):
            _panel(axes, row, name, look)
        limits = [axes.get_ylim() for name, axes in zip(names, panels, strict=True) if name in row.sizes]
        for axes in panels:
            axes.set_ylim(0.0, max(upper for _, upper in limits))
            axes.yaxis.set_major_formatter(FuncFormatter(thousands))
            if axes is not panels[0]:
                axes.tick_params(labelleft=False)
        label = {"throughput": "Frames per second", "learning": "Seconds to target"}[row.kind]
        panels[0].set_ylabel(label + (f",\narm {row.arm}" if len(arms) > 1 else ""))
    legend(grid[len(names) - 1], _keys(rows))
    return figure


def _panel(axes: Axes, row: Slices, name: str, look: Look) -> None:
    if name not in row.sizes:
        axes.set_axis_off()
        only = {getattr(record.request, name) for record in row.records}
        words = ", ".join("the library's" if value is None else f"{value:,}" for value in only)
        axes.text(0.5, 0.5, f"{WORDS[name]}: {words}", color=GREY, ha="center", transform=axes.transAxes)
        return
    measured: dict[int, list[float]] = {}
    failed = []
    top = max((value for record in row.records if (value := _value(record)) is not None), default=1.0)
    for record in row.records:
        size, value = getattr(record.request, name), _value(record)
        if value is not None:
            measured.setdefault(size, []).append(value)
            axes.plot(
                size, value, look.marker, color=look.colour, markersize=4.5, alpha=0.55, markeredgewidth=0, zorder=3
            )
        elif record.outcome.status in DID_NOT_FIT:
            failed.append(size)
            axes.plot(size, 0.0, "X", color=GREY, markersize=6, zorder=4, clip_on=False)
        elif record.outcome.status == "timeout" and row.kind == "learning":
            up_arrow(axes, size, record.train_s, look.colour, size=4.5)
            top = max(top, record.train_s)
    middle = sorted(measured)
    axes.plot(
        middle, [statistics.median(measured[size]) for size in middle], color=look.colour, linewidth=1.4, zorder=2
    )
    sizes_axis(axes, row.sizes[name], failed)
    axes.set_ylim(0.0, 1.35 * top)
    axes.set_xlabel(WORDS[name])
    step = -(-len(row.sizes[name]) // MOST_TICKS)
    axes.xaxis.set_major_locator(FixedLocator(list(row.sizes[name])[::step]))
    if name in row.importances:
        best = row.importances[name] == max(row.importances.values())
        axes.text(
            0.5, 0.97, f"importance {row.importances[name]:.0%}", fontsize=9.5, fontweight="bold" if best else "normal",
            color=INK if best else GREY, ha="center", va="top", transform=axes.transAxes, zorder=5,
            bbox={"boxstyle": "square,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.85},
        )  # fmt: skip


def _value(record: Record) -> float | None:
    """Return what a trial is judged by, where it was measured."""
    if record.request.kind == "learning":
        return record.seconds_to_target
    return record.fps_total.median if record.fps_total and record.outcome.status == "ok" else None


def _title(rows: Sequence[Slices], several: bool) -> str:
    told = []
    for row in rows:
        if row.importances:
            name = max(row.importances, key=lambda name: row.importances[name])
            whose = f" of {row.arm}" if several else ""
            told.append(f"{WORDS[name]} {row.importances[name]:.0%} ({len(row.records)} {row.kind} trials{whose})")
    return "Importance: " + ("; ".join(told) if told else f"fewer than {FEWEST} trials of a kind tell none")


def _keys(rows: Sequence[Slices]) -> list[Line2D]:
    keys = [
        key("o", GREY, "one trial", size=4.5),
        Line2D([], [], color=GREY, linewidth=1.4, label="median of its size"),
    ]
    statuses = {(row.kind, record.outcome.status) for row in rows for record in row.records}
    if any(status in DID_NOT_FIT for _, status in statuses):
        keys.append(key("X", GREY, "did not fit the memory"))
    if ("learning", "timeout") in statuses:
        keys.append(key("^", GREY, "budget spent first: the time\nto target lies above", hollow=True))
    if any(not row.importances for row in rows):
        keys.append(Line2D([], [], linestyle="none", label=f"no importance from fewer\nthan {FEWEST} trials"))
    return keys
