"""Reads SLURM's times, and its lines of `Name=value Name=value`, as `scontrol --oneliner` prints them."""

from datetime import datetime


def fields_of(line: str) -> dict[str, str]:
    """Return the fields of a line. A value with blanks is cut at the first one; no field that envknee reads has any."""
    fields = {}
    for word in line.split():
        name, equals, value = word.partition("=")
        if equals:
            fields[name] = value
    return fields


def unix_s_of(text: str | None) -> float | None:
    """Read a time of SLURM_TIME_FORMAT=standard, in this machine's time zone; None for `Unknown` and nothing."""
    try:
        return datetime.fromisoformat(text or "").timestamp()
    except ValueError:
        return None
