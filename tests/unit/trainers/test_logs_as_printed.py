"""Logs of programs that broke: how each ended, and the line that says why."""

from typing import Any

import pytest
import yaml
from envknee.trainers.command.ends import Output
from places import ROOT

OUTCOMES = ROOT / "tests/fixtures/outcomes"
LOGS: list[dict[str, Any]] = yaml.safe_load((OUTCOMES / "logs.yaml").read_text(encoding="utf-8"))
SEEN: list[dict[str, Any]] = yaml.safe_load((OUTCOMES / "seen.yaml").read_text(encoding="utf-8"))
"""Logs that people posted, shortened, with the address of each."""
PRINTED: list[dict[str, Any]] = yaml.safe_load((OUTCOMES / "printed.yaml").read_text(encoding="utf-8"))
"""Whole logs of programs that were run (`write_printed.py`)."""

ENTRIES = [*LOGS, *SEEN, *PRINTED]


def answer_of(output: Output, status: int) -> str:
    """Return how a program ended that printed `output` and ended with an exit status; 0: it did all that it was told."""
    if output.oom_line is not None:
        return "oom"
    if output.nan_line is not None:
        return "nan"
    if status == 0 and output.invalid_lines:
        return "invalid"
    return "crash" if status or output.error_line is not None else "nothing"


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: (entry.get("program") or entry["log"])[:60])
def test_a_log_tells_how_its_program_ended(entry: dict[str, Any]):
    output = Output([], {})
    output.take(f"loading\n{entry['log']}\n")
    assert answer_of(output, entry.get("status", 0)) == entry["answer"]
    if "line" in entry:
        assert output.last_error() == entry["line"]


def test_the_corpus_has_every_answer_and_thirty_logs_that_programs_printed():
    assert len(PRINTED) + len(SEEN) >= 30
    assert {entry["answer"] for entry in ENTRIES} == {"oom", "nan", "invalid", "crash", "nothing"}
    assert all("line" in entry for entry in ENTRIES if entry["answer"] == "crash" and "source" in entry)
