"""How figures look: colours, marks and words that mean the same in all of them."""

import textwrap
from dataclasses import dataclass
from typing import Any

from envknee.limits import Series
from envknee.limits.verdict import Verdict
from envknee.record import Phase, Record

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#444444")
"""Okabe and Ito's palette: told apart with any common colour blindness. Markers differ as well."""

MARKERS = ("o", "s", "^", "D", "v", "P", "<")
"""Of series. None is the cross of a trial that ran out of memory, which stands among them."""

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
    "skipped": ".",
}

STATUS_WORDS = {
    "ok": "measured",
    "target_reached": "target reached",
    "timeout": "budget spent first",
    "oom": "out of memory",
    "refused": "refused: cannot fit",
    "nan": "NaN",
    "diverged": "diverged",
    "skipped": "not needed",
}

PHASE_LOOKS: dict[Phase, tuple[str, str]] = {
    "physics": ("#0072B2", ""),
    "render": ("#E69F00", "////"),
    "observation": ("#009E73", "...."),
    "inference": ("#56B4E9", "\\\\\\\\"),
    "storage": ("#CC79A7", "----"),
    "learning": ("#D55E00", ""),
    "other": ("#bbbbbb", "xx"),
}
"""Colour and hatch of each phase: neighbours in a stack differ in both lightness and hatch, so that grey paper tells them apart."""

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
    "hatch.linewidth": 0.6,
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


@dataclass(frozen=True)
class Look:
    """How a series is drawn, and what a legend calls it."""

    colour: str
    marker: str
    label: str


def looks_of(verdict: Verdict) -> dict[Series, Look]:
    """Return one colour and marker per series, so that a series looks the same in every figure of a study."""
    timed = [limit.series for arm in verdict.arms for limit in arm.throughput]
    others = [limit.series for arm in verdict.arms for limit in arm.learning]
    shared = shared_series(verdict)

    def label(one: Series) -> str:
        if len(verdict.arms) == 1:
            return str(one)
        return wrapped(one.arm) if shared else f"{wrapped(one.arm)}:\n{one}"

    return {
        one: Look(
            # Colours and markers come around at different times.
            COLOURS[place % len(COLOURS)],
            MARKERS[(place + place // len(COLOURS)) % len(MARKERS)],
            label(one),
        )
        for place, one in enumerate(dict.fromkeys([*timed, *others]))
    }


def shared_series(verdict: Verdict) -> str | None:
    """Return horizon and batch where several arms were measured at one and the same: to be said once, below the title."""
    found = {str(limit.series) for arm in verdict.arms for limit in (*arm.throughput, *arm.learning)}
    return found.pop() if len(found) == 1 and len(verdict.arms) > 1 else None


def wrapped(text: str, width: int = 26) -> str:
    """Return text in lines that fit beside the panels: the name of an arm may be long."""
    return "\n".join(textwrap.wrap(text, width))


def series_of(record: Record) -> Series:
    """Return the series that a trial belongs to."""
    return Series(record.request.arm, record.request.horizon, record.request.batch_size)


def no_value(status: str) -> bool:
    """Tell whether a trial that ended so has neither FPS nor a time to the target."""
    return status not in ("ok", "target_reached")
