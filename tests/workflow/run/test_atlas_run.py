"""`python -m benchmarks.atlas` on a real program: what it measured is kept, one that breaks says why, and the next run goes on."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from foreign_commands import CLIMBING_PRESET, FAKE
from places import ROOT
from programs import python

from benchmarks.atlas import figure, kept
from benchmarks.atlas.listed import read_atlas
from benchmarks.pages import atlas as page


@pytest.mark.alone
def test_what_a_search_measured_is_kept_and_one_that_breaks_says_why(tmp_path: Path):
    preset = tmp_path / "fake.yaml"
    preset.write_text(CLIMBING_PRESET)
    program = {"about": "fake", "version": "1", "preset": str(preset), "start": ["fake"], "install": "nothing"}
    task = {"about": "x", "observations": "state", "contacts": False, "from": 8}
    listed = {
        "programs": {"fake": program},
        "tasks": {
            "broken": task | {"program": "fake", "command": ["--breaks", "at-once"]},
            "fake": task | {"program": "fake", "command": [str(FAKE)]},
        },
    }
    (tmp_path / "tasks.yaml").write_text(yaml.safe_dump(listed))
    work, to = tmp_path / "work", tmp_path / "kept"
    words = ["-m", "benchmarks.atlas", "--tasks-file", tmp_path / "tasks.yaml", "--work", work, "--to", to]
    words += ["--start", f"fake={sys.executable}"]
    # make keeps Python from the current folder.
    where: dict[str, Any] = {"cwd": ROOT, "env": os.environ | {"PYTHONPATH": str(ROOT)}}
    # On a busy machine it may need a minute until it breaks.
    assert python(*words, "broken", "--time", "3m", **where).returncode == 1, "it has no answer"
    python(*words, "fake", "--time", "60s", **where)
    (failed,) = kept.without_verdict(to)
    assert failed.task == "broken" and failed.reason is not None and "'--breaks'" not in (failed.reason or "")
    (measured,) = kept.measured(to)
    assert measured.search.task == "fake" and measured.search.ended in ("time over", "answered")
    assert {record.request.num_envs for record in measured.records} >= {8, 16}
    cells = dict(zip(page.HEADS, page.row(measured, read_atlas(tmp_path / "tasks.yaml")), strict=True))
    assert cells["trials"] == f"{len(measured.records)}" and cells["program"] == "fake 1"
    assert figure.draw([measured]).axes

    again = python(*words, "--list", **where)
    assert again.returncode == 0 and "failed" in again.stdout and measured.search.ended in again.stdout
