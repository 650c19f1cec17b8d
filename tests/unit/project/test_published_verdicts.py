"""The numbers of all published verdicts stay what they were when they were written down (fixtures/published_verdicts.json).

A change that is meant to decide something otherwise writes them anew: fixtures/write_published_verdicts.py.
"""

import json
import math
from collections.abc import Iterator
from typing import Any

import pytest
from envknee.decide.follows import ABSOLUTE, RELATIVE
from places import ROOT
from published import PUBLISHED, verdict_of

SNAPSHOT = json.loads((ROOT / "tests/fixtures/published_verdicts.json").read_text(encoding="utf-8"))


def values(part: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every number, name and state of a verdict with its path."""
    if isinstance(part, dict):
        for key, value in part.items():
            yield from values(value, f"{path}.{key}")
    elif isinstance(part, list):
        yield f"{path}.length", len(part)
        for place, value in enumerate(part):
            yield from values(value, f"{path}[{place}]")
    else:
        yield path, part


def same(before: Any, now: Any) -> bool:
    if isinstance(before, float) and isinstance(now, int | float):
        return math.isclose(before, now, rel_tol=RELATIVE, abs_tol=ABSOLUTE)
    return type(before) is type(now) and before == now


def test_every_published_study_has_its_numbers_written_down():
    assert set(SNAPSHOT) == set(PUBLISHED)


@pytest.mark.parametrize("name", SNAPSHOT)
def test_its_numbers_are_what_they_were(name: str):
    now = dict(values(verdict_of(name).model_dump(mode="json")))
    before = dict(values(SNAPSHOT[name]))
    assert len(before) > 50
    changed = {
        path: (value, found) for path, value in before.items() if not same(value, found := now.get(path, "missing"))
    }
    assert changed == {}
