"""Plain data of a study, as it is read from a file."""

from typing import Any


def changed(data: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Set keys of plain data in place: `throughput__points` is below a section."""
    for path, value in changes.items():
        *parents, key = path.split("__")
        place = data
        for parent in parents:
            place = place.setdefault(parent, {})
        place[key] = value
    return data
