"""Intervals of thresholds and of other numbers in a few words. Pure."""

from envknee.verdict.schema.limit import SeriesLimit


def threshold_interval(limit: SeriesLimit) -> str:
    """Return the interval of a threshold."""
    if limit.threshold_lowest is None:
        return "no doubling measured"
    return sizes_between(limit.threshold_lowest, limit.threshold_highest)


def interval_name(limit: SeriesLimit) -> str:
    """Return what the intervals of a limit's gains are called."""
    always = "" if limit.looks == "once" else " that holds at every look"
    return f"{limit.confidence:.0%} interval{always}"


def contradiction_notes(limit: SeriesLimit) -> list[str]:
    """Return a note for each doubling about which a study contradicts itself."""
    return [
        f"doubling {gain.num_envs:,}: its newest repeats lie outside of the interval that earlier ones gave. The study contradicts"
        " itself there, and that doubling decides nothing"
        for gain in limit.gains
        if gain.contradicts
    ]


def sizes_between(lowest: int, highest: int | None) -> str:
    """Return `512 to 2,048`, `512 alone` or `512 or more`."""
    if highest is None:
        return f"{lowest:,} or more"
    return f"{lowest:,} alone" if highest == lowest else f"{lowest:,} to {highest:,}"


def with_interval(value: float, lower: float | None, upper: float | None, decimals: int = 0) -> str:
    """Return `788 (721 to 843)`, `788 (721 to no upper end)`, or `788` without an interval."""
    shown = f"{value:,.{decimals}f}"
    if lower is None:
        return shown
    end = "no upper end" if upper is None else f"{upper:,.{decimals}f}"
    return f"{shown} ({lower:,.{decimals}f} to {end})"
