"""Logs of programs that broke: how each ended, and the line that says why."""

from typing import Any

import pytest
import yaml
from envknee.trainers.command.ends import Output
from places import ROOT

OUTCOMES = ROOT / "tests/fixtures/outcomes"
LOGS: list[dict[str, Any]] = yaml.safe_load((OUTCOMES / "logs.yaml").read_text(encoding="utf-8"))
PRINTED: list[dict[str, Any]] = yaml.safe_load((OUTCOMES / "printed.yaml").read_text(encoding="utf-8"))
"""Whole logs of programs that were run (`write_printed.py`)."""


def answer_of(output: Output) -> str:
    if output.oom_line is not None:
        return "oom"
    if output.nan_line is not None:
        return "nan"
    if output.invalid_lines:
        return "invalid"
    return "nothing" if output.error_line is None else "crash"


@pytest.mark.parametrize("entry", [*LOGS, *PRINTED], ids=lambda entry: entry.get("program", entry["log"])[:60])
def test_a_log_tells_how_its_program_ended(entry: dict[str, Any]):
    output = Output([], {})
    output.take(f"loading\n{entry['log']}\n")
    assert answer_of(output) == entry["answer"]
    if "line" in entry:
        assert output.error_line == entry["line"]


def test_the_corpus_has_every_answer_in_thirty_logs():
    assert len(LOGS) >= 30
    assert {entry["answer"] for entry in LOGS} == {"oom", "nan", "invalid", "crash", "nothing"}
