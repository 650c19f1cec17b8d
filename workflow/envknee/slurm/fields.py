"""SLURM's lines of `Name=value Name=value`, as `scontrol --oneliner` prints them, and its times."""

from datetime import datetime


def fields_of(line: str) -> dict[str, str]:
    """Return the fields of a line. A value with blanks is cut at the first one: none that is read here has any."""
    fields = {}
    for word in line.split():
        name, equals, value = word.partition("=")
        if equals:
            fields[name] = value
    return fields


def unix_s_of(text: str | None) -> float | None:
    """Return a time as SLURM_TIME_FORMAT=standard prints it, in this machine's time zone; None for `Unknown` and nothing."""
    try:
        return datetime.fromisoformat(text or "").timestamp()
    except ValueError:
        return None
