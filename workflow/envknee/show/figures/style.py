"""Colours and marks, which mean the same in all figures."""

import textwrap
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, replace
from typing import Any

import matplotlib as mpl
from matplotlib.colors import to_hex

from envknee.record.schema import Phase, Record
from envknee.verdict.schema.study import Verdict
from envknee.verdict.series import Series
from envknee.words.series import series_words
from envknee.words.study import shared_series

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#444444")
"""Okabe and Ito's palette: distinct with any common colour blindness. Markers differ as well."""

MARKERS = ("o", "s", "^", "D", "v", "P", "<")
"""Marks of series. None is the cross of trials that ran out of memory."""

Dashes = tuple[float, tuple[float, ...]]
DASHES: tuple[Dashes, ...] = (
    (0.0, ()),
    (0.0, (5.0, 2.0)),
    (0.0, (1.0, 1.5)),
    (0.0, (6.0, 1.5, 1.0, 1.5)),
    (0.0, (9.0, 2.0)),
)
"""Solid, dashed, dotted, both, and long dashes: for more lines than colours."""

DASHED = (0, (4, 3))
"""Dashes of a line that no series has, such as a cut-off, a target or a limit."""

STATUS_MARKERS = {
    "ok": "o",
    "target_reached": "o",
    "timeout": "^",
    "oom": "X",
    "refused": "_",
    "nan": "*",
    "diverged": "d",
    "invalid": "1",
    "crashed": "P",
    "skipped": ".",
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
"""Colour and hatch of each phase. Neighbours in a stack differ in lightness and hatch, for prints in grey."""

INK, GREY, FAINT = "#222222", "#6b6b6b", "#d9d9d9"

STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    # Text of an SVG stays text: where a reader lacks the first font, Verdana is as wide.
    "font.sans-serif": ["DejaVu Sans", "Verdana"],
    "svg.fonttype": "none",
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
    # IDs inside the file are hashes with this salt, so that the same records give the same bytes.
    "svg.hashsalt": "envknee",
}


@dataclass(frozen=True)
class Look:
    """Colour and mark of a series, its label in a legend, and the dashes of its line where colours do not suffice."""

    colour: str
    marker: str
    label: str
    dashes: Dashes
    dodge: float = 1.0
    """A factor on num_envs that keeps its marks apart from those of other series."""
    name: str = ""
    """The label in one line, for those who have room."""


def looks_of(verdict: Verdict, shown: Container[Series] | None = None, octaves: float = 0.10) -> dict[Series, Look]:
    """Return a look for each series (of `shown`, if given), the same in every figure of a study but for `dodge`: `octaves` each at most."""
    timed = [limit.series for arm in verdict.arms for limit in arm.throughput]
    others = [limit.series for arm in verdict.arms for limit in arm.learning]
    shared = shared_series(verdict)

    def label(series: Series, line_break: str = "\n", arm: Callable[[str], str] = wrapped) -> str:
        if len(verdict.arms) == 1:
            return series_words(series)
        return arm(series.arm) if shared else f"{arm(series.arm)}:{line_break}{series_words(series)}"

    every = enumerate(dict.fromkeys([*timed, *others]))
    looks = {series: look_at(place, label(series)) for place, series in every if shown is None or series in shown}
    step, middle = min(octaves, 0.5 / max(len(looks), 1)), (len(looks) - 1) / 2
    return {
        series: replace(look, dodge=2.0 ** (step * (place - middle)), name=label(series, " ", str))
        for place, (series, look) in enumerate(looks.items())
    }


def look_at(place: int, label: str) -> Look:
    """Return the look of the series at a place in the legend.

    Colours and markers repeat with different periods; lines are dashed once all colours were solid.
    """
    turn, colour = divmod(place, len(COLOURS))
    return Look(COLOURS[colour], MARKERS[(place + turn) % len(MARKERS)], label, DASHES[turn % len(DASHES)])


def wrapped(text: str, width: int = 26) -> str:
    """Return text in lines of at most `width` characters: by default, lines that fit beside the panels."""
    return "\n".join(part for line in text.splitlines() for part in textwrap.wrap(line, width))


def shade(share: float) -> str:
    """Return a colour from dark (0) to light (1)."""
    return to_hex(mpl.colormaps["viridis"](0.93 * share))


def size_colours(records: Iterable[Record]) -> dict[int, str]:
    """Return a colour for each num_envs of a study, from dark to light: the same one in every figure."""
    sizes = sorted({record.request.num_envs for record in records})
    return {size: shade(place / max(len(sizes) - 1, 1)) for place, size in enumerate(sizes)}
