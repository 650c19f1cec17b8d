"""Says whether verdict.json is what is decided from the records now.

Input: the text of a verdict.json and a `Verdict`. Reads and writes no file.
"""

import json
import math
from typing import Any

from envknee.verdict.schema.study import Verdict

RELATIVE = 1e-9
"""Python 3.11 and 3.12 differ in the last digits of sums, and so do processors in those of least squares."""

ABSOLUTE = 1e-12
"""An error that is zero on one processor may be a last digit on another: of memory in GB, 1e-12 is less than a byte."""


def follows(text: str, decided: Verdict) -> bool:
    """Return whether `text` is this verdict, but for the last digits of numbers. Pure."""
    try:
        written = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return _same(written, decided.model_dump(mode="json"))


def _same(written: Any, decided: Any) -> bool:
    if isinstance(written, float) and isinstance(decided, float):
        return math.isclose(written, decided, rel_tol=RELATIVE, abs_tol=ABSOLUTE)
    if type(written) is not type(decided):
        return False
    if isinstance(written, dict):
        return written.keys() == decided.keys() and all(_same(value, decided[key]) for key, value in written.items())
    if isinstance(written, list):
        return len(written) == len(decided) and all(map(_same, written, decided))
    return written == decided
