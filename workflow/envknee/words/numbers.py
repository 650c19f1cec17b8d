"""Numbers as a reader sees them. Pure."""

from collections.abc import Callable, Iterable


def shown_batch(batch_size: int | None) -> str:
    """Return `batch 128`, or `library batch` for the library's own."""
    return "library batch" if batch_size is None else f"batch {batch_size:,}"


def listed(sizes: Iterable[int]) -> str:
    """Return `128, 1,024`."""
    return ", ".join(f"{size:,}" for size in sizes)


def counted(count: int, word: str) -> str:
    """Return `1 seed` or `3 seeds`."""
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def percent(share: float, decimals: int = 1) -> str:
    """Return `12.3%`, or `over 1,000%`, which needs no more digits."""
    return "over 1,000%" if share > 10.0 else f"{share:.{decimals}%}"


def span(lower: float | None, upper: float | None, shown: Callable[[float], str] = percent) -> str:
    """Return `5.0% to 12.0%`, or "" unless both ends are known."""
    return "" if lower is None or upper is None else f"{shown(lower)} to {shown(upper)}"


def ends(
    lower: float | None, upper: float | None, shown: Callable[[float], str] = "{:,}".format, unknown: str = "open"
) -> str:
    """Return `8,058 to 9,390`, `8,058 to open`, or `no interval` if neither end is known."""
    if lower is None and upper is None:
        return "no interval"
    return " to ".join(unknown if end is None else shown(end) for end in (lower, upper))


def sizes_between(lowest: int, highest: int | None) -> str:
    """Return `512 to 2,048`, `512 alone` or `512 or more`."""
    if highest is None:
        return f"{lowest:,} or more"
    return f"{lowest:,} alone" if highest == lowest else f"{lowest:,} to {highest:,}"


def with_interval(value: float, lower: float | None, upper: float | None, decimals: int = 0) -> str:
    """Return `788 (721 to 843)`, `788 (721 to no upper end)`, or `788` without an interval."""
    end = "no upper end" if upper is None else f"{upper:,.{decimals}f}"
    return f"{value:,.{decimals}f}" + ("" if lower is None else f" ({lower:,.{decimals}f} to {end})")
