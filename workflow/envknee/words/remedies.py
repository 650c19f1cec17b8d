"""Remedies in sentences. Pure."""

from collections.abc import Sequence
from typing import Any

from envknee.verdict.schema.levers import Remedies, Remedy
from envknee.words.numbers import ends
from envknee.words.series import series_words

METHOD = (
    "what fitted one and not the other, else largest num_envs by each arm's memory model, ratio by MOVER on logarithms; FPS at"
    " the largest num_envs timed with both, Welch t on ln FPS; two-sided, each remedy alone"
)


def remedy_statement(remedy: Remedy) -> str:
    """Return the comparison of one arm with the baseline, in one sentence."""
    parts = [_what_fits(remedy)]
    if remedy.shown_at is not None:
        parts.append(trials_show(remedy))
    if remedy.fps is not None:
        interval = ends(remedy.fps.lower, remedy.fps.upper, "{:+.0%}".format)
        parts.append(f"{remedy.fps.value:+.0%} ({interval}) FPS at {remedy.at_num_envs:,} environments")
    else:
        parts.append("no num_envs was timed with both")
    if remedy.peak_gb is not None and remedy.baseline_peak_gb is not None:
        parts.append(f"{remedy.peak_gb:.2f} instead of {remedy.baseline_peak_gb:.2f} GB there")
    differences = [f"{difference.name}: {_plain(difference.value)}" for difference in remedy.differs_in]
    return f"{remedy.arm} ({', '.join(differences) or 'the same settings'}): {'; '.join(parts)}"


def trials_show(remedy: Remedy) -> str:
    """Return `64 fit where the baseline ran out of memory`, or the other way round."""
    if remedy.room == "more":
        return f"{remedy.shown_at:,} fit where the baseline ran out of memory"
    return f"ran out of memory with {remedy.shown_at:,}, which fit the baseline"


def remedies_statement(remedies: Remedies) -> str:
    """Return what to do, in sentences, first the remedies that leave the task unchanged."""
    sentences = [_baseline_sentence(remedies)]
    helping = [remedy for remedy in remedies.remedies if remedy.room == "more"]
    free = [remedy for remedy in helping if remedy.same_task]
    paid = [remedy for remedy in helping if not remedy.same_task]
    if free:
        sentences.append(f"More fit without changing the task: {_named(free)}.")
    if paid:
        start = "Still more" if free else "More"
        sentences.append(f"{start} fit with a changed task: {_named(paid)}; look whether it still learns.")
    others = {"less": "Makes less room", "not shown": "Not shown to make room", "not measured": "Not known"}
    for room, start in others.items():
        group = [remedy for remedy in remedies.remedies if remedy.room == room]
        if group:
            sentences.append(f"{start}: {_named(group)}.")
    return " ".join(sentences)


def remedies_notes(remedies: Remedies) -> list[str]:
    """Return notes on the comparisons, a sentence each."""
    notes = [
        f"{remedy.arm} differs from {remedies.baseline} in several settings: what each of them does is not told apart"
        for remedy in remedies.remedies
        if remedy.settings_changed > 1
    ]
    if remedies.quantity == "resident set of the process":
        notes.append(
            "on the CPU memory is the process's resident set: the libraries' share is large, and what acts on a GPU's"
            " memory alone (expandable segments, clearing the cache) does nothing"
        )
    return notes


def _what_fits(remedy: Remedy) -> str:
    if remedy.fits is None:
        return "how many environments fit is not known"
    far = ", far beyond what was measured" if remedy.extrapolated else ""
    interval = ends(remedy.fits.lower, remedy.fits.upper, lambda value: f"{1 + value:,.2f}")
    sizes = f"{remedy.largest_num_envs:,} instead of {remedy.baseline_num_envs:,}"
    return f"{sizes} environments fit ({1 + remedy.fits.value:,.2f} times, {interval}{far})"


def _plain(value: Any) -> str:
    """Return a setting's value as in a study file."""
    if value is None:
        return "its default"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _baseline_sentence(remedies: Remedies) -> str:
    """Return how many environments fit with the baseline."""
    name, wall = remedies.baseline, remedies.baseline_wall
    series = series_words(remedies.series)
    where = "" if remedies.device_memory_gb is None else f"On {remedies.device_memory_gb:,.3g} GB "
    if wall is None or wall.largest_num_envs is None:
        sentence = f"{where}how many environments fit with {name} is not known at {series}."
    elif wall.is_far_beyond:
        sentence = (
            f"{where}memory is far from binding with {name} at {series}: at most {wall.largest_fitted or 0:,} environments were"
            " measured, and what fits beyond is extrapolated."
        )
    else:
        interval = ends(wall.largest_num_envs_lower, wall.largest_num_envs_upper)
        sentence = f"{where}{name} fits {wall.largest_num_envs:,} environments ({interval}) at {series}."
    return sentence[:1].upper() + sentence[1:]


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
