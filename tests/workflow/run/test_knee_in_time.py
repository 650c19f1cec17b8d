"""`envknee knee --time` on a real program: the search ends in time with an answer, and the same command goes on."""

import sys
import time
from pathlib import Path

import pytest
from envknee.record.read import load_records, without_skipped
from envknee.study.paths import StudyFolder
from foreign_commands import CLIMBING_PRESET, FAKE, KNEE
from programs import python, refused, succeeded


@pytest.mark.alone
def test_a_search_ends_in_time_with_an_answer_and_goes_on(tmp_path: Path):
    (tmp_path / "fake.yaml").write_text(CLIMBING_PRESET)
    words = [*KNEE, "--from", "8", "--preset", "fake.yaml", "--iterations", "2", "--name", "fake"]
    command = [sys.executable, str(FAKE)]
    folder = StudyFolder(tmp_path / "results/fake")

    def knee(given_time: str):
        return python("-m", "envknee", *words, "--time", given_time, "--", *command, cwd=tmp_path)

    refused(knee("1s"), "--time 1s is too short: 1 size was measured in it", "the next trial takes about", status=2)
    began = time.monotonic()
    printed = succeeded(knee("45s"))
    assert time.monotonic() - began < 120, "a busy machine may take longer"
    measured = without_skipped(load_records(folder))
    assert len(measured) >= 2 and measured[0].request.num_envs == 8
    lines = printed.splitlines()
    assert "--time 45s is over: the next trial" in printed
    assert f"envknee knee {' '.join(words[1:])} --time 45s -- {' '.join(command)}" in printed
    assert lines[-2].endswith("best).") and lines[-1].startswith(f"  {' '.join(command)} --envs ")
    assert "Error" not in printed and folder.report.exists()
