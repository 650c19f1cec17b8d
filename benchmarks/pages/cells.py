"""How numbers stand in a table. Pure."""

from collections.abc import Iterable, Sequence

from envknee.verdict.schema.comparison import Ratio
from envknee.verdict.schema.limit import Gain, SeriesLimit
from envknee.words.intervals import threshold_interval


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |".replace("|  |", "| |") for line in lines)


def change(gain: Gain) -> str:
    """Return a gain in FPS with its interval: `12.0% (9.1% to 15.0%)`; large or uncertain ones, and those without one, without decimals."""
    lower, upper = gain.gain_lower, gain.gain_upper
    if lower is None or upper is None:
        return f"{gain.gain:.0%}"
    decimals = 1 if abs(gain.gain) < 0.16 and upper - lower < 0.1 else 0
    return f"{gain.gain:.{decimals}%} ({lower:.{decimals}%} to {upper:.{decimals}%})"


def bounded(gain: Gain) -> str:
    """Return a gain in FPS with its one-sided bound and repeats: `5.7% (at most 7.2%, 5 repeats)`."""
    return f"{gain.gain:.1%} (at most {gain.gain_upper_one_sided:.1%}, {gain.repeats} repeats)"


def outcome(gain: Gain, delta: float) -> str:
    """Return what a doubling's interval leaves open, at a cut-off of `delta`."""
    if gain.shown_below_delta:
        return "which does not pay"
    if gain.gain_lower_one_sided is not None and gain.gain_lower_one_sided >= delta:
        return "which pays"
    return "which may still pay"


def threshold(limit: SeriesLimit) -> str:
    """Return a threshold with its interval: `1,024 (256 to 1,024)`, or `undecided (256 or more)`."""
    reached = "undecided" if limit.threshold_num_envs is None else f"{limit.threshold_num_envs:,}"
    return f"{reached} ({threshold_interval(limit)})"


def times(ratio: Ratio, bold: bool = False) -> str:
    """Return a ratio with its interval: `9.61 times (9.26 to 9.98)`."""
    return share(ratio, "**", " times**") if bold else share(ratio, "", " times")


def share(ratio: Ratio, before: str = "", after: str = "") -> str:
    """Return a ratio with its interval, and what stands around the ratio alone: `0.18 (0.16 to 0.21)`."""
    interval = f" ({ratio.lower:.2f} to {ratio.upper:.2f})" if ratio.lower is not None else ""
    return f"{before}{ratio.ratio:.2f}{after}{interval}"


def gigabytes(gb: float, instead_of: float) -> str:
    """Return memory beside another one: `6.41 GB instead of 38.67`."""
    return f"{gb:.2f} GB instead of {instead_of:.2f}"
