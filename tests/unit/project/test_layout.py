"""Tests mirror the house: a folder for each room of envknee, helpers in one place, and no test imports another."""

import ast
from collections import Counter
from pathlib import Path

import pytest
from places import ROOT

TESTS = ROOT / "tests"
FILES = sorted(TESTS.rglob("test_*.py"))
ROOMS = {path.parent.name for path in (ROOT / "workflow/envknee").glob("*/__init__.py")}
MORE = {"unit": {"project"}, "workflow": {"project", "sweep", "containers"}}
"""Folders that test more than a room: the repository itself, whole studies, and images."""


@pytest.mark.parametrize("kind", list(MORE))
def test_each_test_lies_in_the_folder_of_a_room(kind: str) -> None:
    folders = {path.relative_to(TESTS / kind).parts[:-1] for path in FILES if path.is_relative_to(TESTS / kind)}
    assert folders <= {(name,) for name in ROOMS | MORE[kind]}
    assert len(folders) > 5


def test_beside_tests_lies_nothing_but_tests() -> None:
    folders = ("unit", "workflow", "leanframes")
    others = {path.name for folder in folders for path in (TESTS / folder).rglob("*.py") if path not in FILES}
    assert others == {"conftest.py"}
    assert not [name for name, count in Counter(path.name for path in FILES).items() if count > 1]


@pytest.mark.parametrize("folder", ["tests", "benchmarks"])
def test_nothing_imports_a_test(folder: str) -> None:
    tests = {path.stem for path in FILES} | {"conftest"}
    found = {path: imports_of(path) & tests for path in (ROOT / folder).rglob("*.py")}
    assert {str(path): names for path, names in found.items() if names} == {}


def imports_of(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    return names
