"""Remedies in sentences. Pure."""

from collections.abc import Callable, Sequence
from typing import Any

from envknee.verdict.schema.levers import Change
from envknee.verdict.schema.memory import MemoryLimit, MemoryWall
from envknee.verdict.schema.remedies import Remedy
from envknee.verdict.series import Series
from envknee.verdict.words.memory import FAR_BEYOND
from envknee.verdict.words.numbers import listed


def remedy_statement(one: Remedy, base: MemoryWall | None) -> str:
    """Return what one arm buys beside the baseline, in one sentence."""
    parts = []
    if one.fits is not None and base is not None:
        far = ", far beyond what was measured" if one.extrapolated else ""
        parts.append(
            f"{one.largest_num_envs:,} instead of {base.largest_num_envs:,} environments fit ({factor(one.fits)}{far})"
        )
    else:
        parts.append("how many environments fit is not known")
    if one.shown_at is not None:
        parts.append(_trials_show(one))
    if one.fps is not None:
        parts.append(f"{change(one.fps)} FPS at {one.at_num_envs:,} environments")
    else:
        parts.append("no num_envs was timed with both")
    if one.peak_gb is not None and one.baseline_peak_gb is not None:
        parts.append(f"{one.peak_gb:.2f} instead of {one.baseline_peak_gb:.2f} GB there")
    return f"{one.arm} ({', '.join(one.differs_in) or 'the same settings'}): {'; '.join(parts)}"


def _trials_show(one: Remedy) -> str:
    """Return `64 fit where the baseline ran out of memory`, or the other way round."""
    if one.room == "more":
        return f"{one.shown_at:,} fit where the baseline ran out of memory"
    return f"ran out of memory with {one.shown_at:,}, which fit the baseline"


def factor(fits: Change) -> str:
    """Return `5.1 times, 4.2 to 6.1`."""
    return f"{1 + fits.value:,.2f} times, {_ends(fits, lambda value: f'{1 + value:,.2f}')}"


def change(fps: Change) -> str:
    """Return `+12% (+5% to +20%)`."""
    return f"{fps.value:+.0%} ({_ends(fps, lambda value: f'{value:+.0%}')})"


def _ends(found: Change, shown: Callable[[float], str]) -> str:
    if found.lower is None and found.upper is None:
        return "no interval"
    lower, upper = ("open" if end is None else shown(end) for end in (found.lower, found.upper))
    return f"{lower} to {upper}"


def plain(value: Any) -> str:
    """Return a setting's value as it stands in a study file."""
    return "its default" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def remedies_advice(
    name: str, series: Series, limit: MemoryLimit, wall: MemoryWall | None, found: Sequence[Remedy]
) -> str:
    """Return what to do, first what leaves the task as it is."""
    where = "" if limit.device_memory_gb is None else f"On {limit.device_memory_gb:,.3g} GB "
    if wall is None or wall.largest_num_envs is None:
        first = f"{where}how many environments fit with {name} is not known at {series}."
    elif (wall.extrapolation or 0.0) > FAR_BEYOND:
        first = (
            f"{where}memory is far from binding with {name} at {series}: at most {wall.largest_fitted or 0:,} environments were"
            " measured, and what fits beyond is extrapolated."
        )
    else:
        known = wall.largest_num_envs_lower is not None
        ends = f" ({wall.largest_num_envs_lower:,} to {_or_open(wall)})" if known else " (no interval)"
        first = f"{where}{name} fits {wall.largest_num_envs:,} environments{ends} at {series}."
    sentences = [first[:1].upper() + first[1:]]
    helping = [one for one in found if one.room == "more"]
    free = [one for one in helping if one.same_task]
    paid = [one for one in helping if not one.same_task]
    if free:
        sentences.append(f"First what leaves the task as it is: {_named(free)}.")
    if paid:
        start = "If that is not enough, what" if free else "What"
        sentences.append(f"{start} changes the task makes room, too: {_named(paid)}; look whether it still learns.")
    others = (
        ("Makes less room", [one for one in found if one.room == "less"]),
        ("Not shown to make room", [one for one in found if one.room == "not shown"]),
        ("Not known", [one for one in found if one.room == "not measured"]),
    )
    sentences += [f"{start}: {_named(group)}." for start, group in others if group]
    return " ".join(sentences)


def _named(group: Sequence[Remedy]) -> str:
    """Return remedies with how many times as many environments fit, and their FPS where a change is shown."""
    words = []
    for one in group:
        parts = []
        if one.shown_at is not None:
            parts.append(_trials_show(one))
        if one.fits is not None:
            unsure = ", no interval" if one.fits.lower is None and one.fits.upper is None else ""
            parts.append(f"{1 + one.fits.value:,.2f} times as many{unsure}")
        if one.fps is not None and one.speed in ("more", "less"):
            parts.append(f"FPS {one.fps.value:+.0%}")
        words.append(f"{one.arm} ({'; '.join(parts)})" if parts else one.arm)
    return ", ".join(words)


def _or_open(wall: MemoryWall) -> str:
    return "open" if wall.largest_num_envs_upper is None else listed([wall.largest_num_envs_upper])
