"""Tests side by side: what they share is made once, and one that is to be alone is."""

import shutil
from pathlib import Path

import side_by_side
from places import PROGRAMS
from programs import python, succeeded

TESTS = """
import pytest
@pytest.mark.alone
def test_alone_{0}(): pass
def test_{0}(): pass
def test_shared_{0}(shared): pass
def test_copied_{0}(copied): pass
"""


def test_what_is_shared_is_made_once_and_what_is_alone_runs_without_others(tmp_path: Path):
    folder = tmp_path / "tests"
    folder.mkdir()
    shutil.copy(side_by_side.__file__, folder)  # these tests hold a lock on their own
    shutil.copy(PROGRAMS / "noting_conftest.py", folder / "conftest.py")
    for name in ("a", "b"):
        (folder / f"test_{name}.py").write_text(TESTS.format(name))
    words = ["pytest", "-q", "-p", "no:cacheprovider", "-n", "2", "--dist", "loadgroup", "--no-loadscope-reorder"]
    assert "8 passed" in succeeded(python("-m", *words, cwd=tmp_path))
    notes = (tmp_path / "notes").read_text().splitlines()
    assert notes.count("made") == 1
    for name in ("test_alone_a", "test_alone_b"):
        begins = notes.index(f"{name} begins")
        assert notes[begins + 1] == f"{name} ends", notes
    others = [note for note in notes if "alone" not in note]
    assert others != sorted(others, key=lambda note: note.split()[0])  # the others did overlap
