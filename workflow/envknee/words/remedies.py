"""Remedies in sentences. Pure."""

from collections.abc import Sequence
from typing import Any

from envknee.verdict.schema.levers import Remedies, Remedy
from envknee.verdict.schema.memory import MemoryLimit, MemoryWall
from envknee.words.memory import FAR_BEYOND
from envknee.words.numbers import ends
from envknee.words.series import series_words


def remedy_statement(remedy: Remedy, base: MemoryWall | None) -> str:
    """Return the comparison of one arm with the baseline, in one sentence."""
    parts = ["how many environments fit is not known"]
    if remedy.fits is not None and base is not None:
        far = ", far beyond what was measured" if remedy.extrapolated else ""
        sizes = f"{remedy.largest_num_envs:,} instead of {base.largest_num_envs:,}"
        interval = ends(remedy.fits.lower, remedy.fits.upper, lambda value: f"{1 + value:,.2f}")
        parts = [f"{sizes} environments fit ({1 + remedy.fits.value:,.2f} times, {interval}{far})"]
    if remedy.shown_at is not None:
        parts.append(trials_show(remedy))
    if remedy.fps is not None:
        interval = ends(remedy.fps.lower, remedy.fps.upper, "{:+.0%}".format)
        parts.append(f"{remedy.fps.value:+.0%} ({interval}) FPS at {remedy.at_num_envs:,} environments")
    else:
        parts.append("no num_envs was timed with both")
    if remedy.peak_gb is not None and remedy.baseline_peak_gb is not None:
        parts.append(f"{remedy.peak_gb:.2f} instead of {remedy.baseline_peak_gb:.2f} GB there")
    return f"{remedy.arm} ({', '.join(remedy.differs_in) or 'the same settings'}): {'; '.join(parts)}"


def trials_show(remedy: Remedy) -> str:
    """Return `64 fit where the baseline ran out of memory`, or the other way round."""
    if remedy.room == "more":
        return f"{remedy.shown_at:,} fit where the baseline ran out of memory"
    return f"ran out of memory with {remedy.shown_at:,}, which fit the baseline"


def plain(value: Any) -> str:
    """Return a setting's value as in a study file."""
    return "its default" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def remedies_advice(told: Remedies, limit: MemoryLimit) -> str:
    """Return what to do, first the remedies that leave the task unchanged; `limit` is the baseline's."""
    name, series, wall = told.baseline, told.series, limit.wall(told.series)
    where = "" if limit.device_memory_gb is None else f"On {limit.device_memory_gb:,.3g} GB "
    if wall is None or wall.largest_num_envs is None:
        first = f"{where}how many environments fit with {name} is not known at {series_words(series)}."
    elif (wall.extrapolation or 0.0) > FAR_BEYOND:
        first = (
            f"{where}memory is far from binding with {name} at {series_words(series)}:"
            f" at most {wall.largest_fitted or 0:,} environments were measured, and what fits beyond is extrapolated."
        )
    else:
        interval = ends(wall.largest_num_envs_lower, wall.largest_num_envs_upper)
        first = f"{where}{name} fits {wall.largest_num_envs:,} environments ({interval}) at {series_words(series)}."
    sentences = [first[:1].upper() + first[1:]]
    helping = [remedy for remedy in told.remedies if remedy.room == "more"]
    free = [remedy for remedy in helping if remedy.same_task]
    paid = [remedy for remedy in helping if not remedy.same_task]
    if free:
        sentences.append(f"More fit without changing the task: {_named(free)}.")
    if paid:
        start = "Still more" if free else "More"
        sentences.append(f"{start} fit with a changed task: {_named(paid)}; look whether it still learns.")
    others = {"less": "Makes less room", "not shown": "Not shown to make room", "not measured": "Not known"}
    for room, start in others.items():
        if group := [remedy for remedy in told.remedies if remedy.room == room]:
            sentences.append(f"{start}: {_named(group)}.")
    return " ".join(sentences)


def _named(group: Sequence[Remedy]) -> str:
    """Return remedies with the multiple of environments that fit, and with FPS at the largest common size if a change is shown."""
    words = []
    for remedy in group:
        parts = []
        if remedy.shown_at is not None:
            parts.append(trials_show(remedy))
        if remedy.fits is not None:
            unsure = ", no interval" if remedy.fits.lower is None and remedy.fits.upper is None else ""
            parts.append(f"{1 + remedy.fits.value:,.2f} times as many{unsure}")
        if remedy.fps is not None and remedy.fps.shown != "not shown":
            parts.append(f"FPS {remedy.fps.value:+.0%} at {remedy.at_num_envs:,}")
        words.append(f"{remedy.arm} ({'; '.join(parts)})" if parts else remedy.arm)
    return ", ".join(words)
