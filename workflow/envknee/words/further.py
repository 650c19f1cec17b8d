"""The command that may decide what a study left open, with its time, in a line. Pure."""

from collections.abc import Sequence

from envknee.verdict.schema.further import Further
from envknee.words.numbers import counted

REPEATS = {"throughput": "more repeat", "learning": "more seed"}


def further_line(further: Sequence[Further], study_file: str) -> str | None:
    """Return what is open, the command that goes on with the study, and how long that takes; None if nothing is, or it would not help."""
    if not further:
        return None
    needs = ", ".join(f"{own.kind} needs {counted(own.repeats, REPEATS[own.kind])}" for own in further)
    options = " ".join(f"more_{own.kind}={own.in_all}" for own in further)
    return f"{needs} ({about(sum(own.seconds for own in further))}): envknee sweep {study_file} -- --config {options}"


def about(seconds: float) -> str:
    """Return `about 40 s`, `about 5 min` or `about 2.5 h`."""
    if seconds < 90:
        return f"about {max(seconds, 1):.0f} s"
    if seconds < 90 * 60:
        return f"about {seconds / 60:.0f} min"
    return f"about {seconds / 3600:.1f} h"
