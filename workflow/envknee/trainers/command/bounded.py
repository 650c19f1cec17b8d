"""Reads what a foreign program prints and logs, within bounds: whole lines, numbers, JSON, and text for people. Pure.

Input: bytes and strings that nobody checked. Output: lines of a bounded length, finite numbers, or `Unreadable`. Each string that a foreign
program prints or logs comes through this module before anything else looks at it.
"""

import json
import math
from typing import Any

from envknee.study.errors import printable

MOST_LINE_BYTES = 65_536
"""The rest of a longer line is dropped."""

MOST_SHOWN = 1_000
"""Characters of a line that a message quotes."""

LATEST_TIME_S = 1e12
"""Seconds since 1970, in the year 33,658: no later time is believed."""

MOST_STEPS = 1e18

MOST_NAMES = 10_000
"""Names that a log may have, in all. Later ones count, but no message knows them."""


class Unreadable(ValueError):
    """A line that cannot be read; its text says why."""


class WholeLines:
    """Cuts a stream of bytes into whole lines, each at most `MOST_LINE_BYTES` long. A progress bar's CR ends a line, too.

    It looks at each byte once, however long a line gets.
    """

    def __init__(self) -> None:
        """Begin with an empty line."""
        self.cut_lines = 0
        """Number of lines that were too long."""
        self._open = bytearray()
        self._is_cut = False

    def take(self, chunk: bytes) -> str:
        """Add bytes; return the lines that they complete, as one text with line feeds between them ("" without any).

        At most `MOST_LINE_BYTES` of `chunk` are taken as one line, so pass no larger chunks.
        """
        whole, end, rest = chunk.replace(b"\r", b"\n").rpartition(b"\n")
        if not end:
            self._keep(rest)
            return ""
        first, _, others = whole.partition(b"\n")
        self._keep(first)
        lines = bytes(self._open) + b"\n" + others
        self._open.clear()
        self._is_cut = False
        self._keep(rest)
        return lines.decode("utf-8", errors="replace")

    def last(self) -> str:
        """Return the line that has no end yet."""
        line = self._open.decode("utf-8", errors="replace")
        self._open.clear()
        return line

    def _keep(self, part: bytes) -> None:
        room = MOST_LINE_BYTES - len(self._open)
        self._open += part[:room]
        if len(part) > room and not self._is_cut:
            self._is_cut = True
            self.cut_lines += 1


def shown(text: str) -> str:
    """Return a text as a message quotes it: without control characters, on one line, and not too long."""
    words = " ".join(printable(text[: 4 * MOST_SHOWN]).split())
    return words if len(words) <= MOST_SHOWN else f"{words[:MOST_SHOWN]}…"


def number(value: object) -> float | None:
    """Return a figure, which may be NaN or infinite (a loss that diverged); None for what is no number, or one too large for a float."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value.replace(",", "").strip()) if isinstance(value, str) else float(value)
    except (ValueError, OverflowError):
        return None


def time_s(value: float) -> float:
    """Return a time in seconds. Raises Unreadable for one that no clock shows."""
    if not math.isfinite(value) or abs(value) > LATEST_TIME_S:
        raise Unreadable(f"its time is {value:g}")
    return value


def step(value: float) -> float:
    """Return a step. Raises Unreadable for one that no training reaches."""
    if not math.isfinite(value) or abs(value) > MOST_STEPS:
        raise Unreadable(f"its step is {value:g}")
    return value


def json_numbers(line: str) -> dict[str, float]:
    """Return the numbers of a line of JSON by name, with nested ones as `outer/inner`.

    Raises:
        Unreadable: when it is no JSON object, is nested too deeply, or has a number that is too large.
    """
    try:
        parsed = json.loads(line)
        if not isinstance(parsed, dict):
            raise Unreadable("a JSON line is expected to be an object")
        return _flat(parsed, "")
    except Unreadable:
        raise
    except (ValueError, OverflowError, RecursionError, MemoryError) as error:
        raise Unreadable(f"it is no JSON that can be read ({type(error).__name__})") from error


def _flat(parsed: dict[str, Any], before: str) -> dict[str, float]:
    numbers: dict[str, float] = {}
    for name, value in parsed.items():
        if isinstance(value, dict):
            numbers |= _flat(value, f"{before}{name}/")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            numbers[f"{before}{name}"] = float(value)
    return numbers
