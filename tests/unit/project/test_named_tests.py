"""Pages name tests that try to break what they promise: each of them exists."""

import re
from pathlib import Path

import pytest
from places import ROOT

PAGES = [
    *sorted((ROOT / "docs").glob("*.md")),
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_names_exists(page: Path):
    text = page.read_text(encoding="utf-8")
    tests = set(re.findall(r"\btest_\w+\.py", text))
    assert [name for name in sorted(tests) if not any((ROOT / "tests").rglob(name))] == []


def test_the_pages_name_many_tests():
    names = {name for page in PAGES for name in re.findall(r"\btest_\w+\.py", page.read_text(encoding="utf-8"))}
    assert len(names) > 15
