"""What every trial gave, in the order of the trials."""

from collections.abc import Callable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from envknee.figures.canvas import canvas, in_words, key, legend, thousands
from envknee.figures.style import COLOURS, GREY, STATUS_MARKERS, STATUS_WORDS, no_value
from envknee.limits.verdict import Verdict
from envknee.record import Record


def draw_history(verdict: Verdict, records: Sequence[Record]) -> Figure:
    """Return what every trial gave, in the order of the trials, and the best value so far."""
    panels: list[tuple[str, str, Callable[[Record], float | None], bool]] = [
        ("throughput", "Frames per second", lambda record: record.fps_total.median if record.fps_total else None, True),
        ("learning", "Seconds to target", lambda record: record.seconds_to_target, False),
    ]
    shown = [panel for panel in panels if any(record.request.kind == panel[0] for record in records)]
    if not shown:
        return in_words("History of the sweep", "No trial is finished.", verdict)
    figure, grid = canvas(
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
    keys = [key("s", looks[arm.arm], f"arm {arm.arm}") for arm in verdict.arms]
    keys += [Line2D([], [], color=GREY, linewidth=1.4, label="best so far")]
    statuses = {record.outcome.status for record in records}
    words = {status: STATUS_WORDS[status] for status in STATUS_WORDS if status in statuses}
    if {"ok", "target_reached"} <= set(words):
        words = {
            "ok": "measured / target reached",
            **{s: w for s, w in words.items() if s not in ("ok", "target_reached")},
        }
    keys += [key(STATUS_MARKERS[status], GREY, word, hollow=no_value(status)) for status, word in words.items()]
    legend(grid[0], keys)
    return figure


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
        if not no_value(record.outcome.status) and (value := value_of(record)) is not None
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
            markerfacecolor="white" if no_value(status) else colour, markeredgewidth=1.1,
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
    axes.yaxis.set_major_formatter(FuncFormatter(thousands))
