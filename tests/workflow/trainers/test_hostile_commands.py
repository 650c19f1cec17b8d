"""`trainer: command` against programs that mean harm, and clocks that jump, through the real launcher."""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from camera_trials import started_launcher
from envknee.machine import gpus
from envknee.record.read import load_record, read_rows
from envknee.run import launch as launcher
from envknee.study.errors import UserError
from envknee.study.files import canonical_json, write_atomically
from envknee.study.paths import TrialFolder
from foreign_commands import FIELDS, ROWS, a_request, measured
from places import PROGRAMS
from records import known
from waiting import wait_for

from benchmarks.drill import CLOCK

HOSTILE = PROGRAMS / "hostile_trainer.py"
PRINTED: dict[str, Any] = {
    "source": "regex", "step": "iterations", "patterns": [r"row (?P<step>\d+) at (?P<time>\S+) with (?P<fps>\S+)"],
}  # fmt: skip
LOGS: dict[str, dict[str, Any]] = {
    "jsonl": {key: value for key, value in ROWS["jsonl"].items() if key != "losses"},
    "csv": {"source": "csv", "path": "log.csv", "step": "iterations", "time_name": "time", "names": FIELDS},
    "print": PRINTED,
    "tensorboard": {key: value for key, value in ROWS["tensorboard"].items() if key != "losses"},
}


def an_arm(does: str, log: str = "jsonl", row_s: float = 0.3) -> dict[str, Any]:
    argv = [
        sys.executable,
        str(HOSTILE),
        "--iterations",
        "{iterations}",
        "--log",
        log,
        "--does",
        does,
        "--row-s",
        str(row_s),
    ]
    return {"trainer": "command", "gpus": 0, "command": {"argv": argv, "rows": LOGS[log]}}


@pytest.mark.alone
@pytest.mark.parametrize("log", list(LOGS))
@pytest.mark.parametrize("does", ["an hour back", "an hour on"])
def test_a_program_whose_clock_jumps_is_measured_all_the_same(log: str, does: str, tmp_path: Path):
    """On a busy machine rows may arrive together: then the row after the jump has no time, and the one that is to spare takes its place."""
    began = time.monotonic()
    record, trial = measured(tmp_path, a_request(an_arm(does, log)))
    took_s = time.monotonic() - began
    rows = read_rows(trial)
    assert record.outcome.status == "ok" and len(rows) == 5
    seconds = [known(row.iteration_s) for row in rows[1:]]
    assert all(0.1 < second < took_s for second in seconds), seconds
    assert record.fps_total is not None and 256 / took_s < record.fps_total.median < 256 / 0.2
    jumps = [warning for warning in record.outcome.warnings if "clock of the command's log jumped" in warning]
    assert len(jumps) == 1, record.outcome.warnings


@pytest.mark.alone
@pytest.mark.parametrize("log", ["jsonl", "print"])
@pytest.mark.parametrize("jump_s", [-3600.0, 3600.0])
def test_a_jump_of_the_launchers_clock_changes_nothing(log: str, jump_s: float, tmp_path: Path):
    """All Python processes of envknee see it, and the program does not: a program has a Python of its own."""
    (tmp_path / "sitecustomize.py").write_text(CLOCK, encoding="utf-8")
    arm = an_arm("", log, row_s=1.0)
    if log == "print":
        without_time = r"row (?P<step>\d+) at \S+ with (?P<fps>\S+)"
        arm["command"]["rows"] = PRINTED | {"patterns": [without_time]}
    trial = TrialFolder(tmp_path / "trials" / "0000")
    trial.root.mkdir(parents=True)
    write_atomically(trial.request, canonical_json(a_request(arm)))
    clock = tmp_path / "clock"
    paths = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    variables = {"PYTHONPATH": paths, "ENVKNEE_DRILL_CLOCK": str(clock), gpus.OTHER_LOCKS: str(tmp_path)}
    began = time.monotonic()
    launched = started_launcher(trial, **variables)
    wait_for(lambda: trial.metrics.exists() and len(read_rows(trial)) >= 2, 300)
    clock.write_text(str(jump_s))
    assert launched.wait(300) == 0
    took_s = time.monotonic() - began
    record, rows = load_record(trial), read_rows(trial)
    assert record.outcome.status == "ok" and len(rows) == 5
    assert all(0.5 < known(row.iteration_s) < took_s for row in rows[1:])
    assert not any("jumped" in warning for warning in record.outcome.warnings), record.outcome.warnings
    assert 0.0 <= known(record.outcome.setup_s) <= record.outcome.total_s <= took_s


@pytest.mark.parametrize("does", ["NaN time", "NaN step", "nested", "deep", "400 digits", "bytes", "bad record"])
def test_what_cannot_be_read_is_left_out_and_the_outcome_says_so(does: str, tmp_path: Path):
    log = "tensorboard" if does == "bad record" else "jsonl"
    record, trial = measured(tmp_path, a_request(an_arm(does, log)))
    assert record.outcome.status == "ok" and len(read_rows(trial)) == 5
    (said,) = [warning for warning in record.outcome.warnings if "entries of its log cannot be read" in warning]
    assert said.isprintable() and len(said) < 3_000
    trial.record.unlink()
    assert launcher.launch(trial) == record, "a record that is made anew is the same"
    assert json.loads(trial.record.read_text(encoding="utf-8"))["outcome"]["status"] == "ok"


def test_a_log_of_nothing_but_what_cannot_be_read_blocks_no_second_try(tmp_path: Path):
    request = a_request(an_arm("NaN step"))
    command = known(request.command)
    only = command.model_copy(
        update={"rows": command.rows.model_copy(update={"step_name": "nothing", "time_name": "time"})}
    )
    request = request.model_copy(update={"command": only.model_copy(update={"argv": [sys.executable, "-c", (
        "import time\nwith open('log.jsonl', 'w') as log:\n for row in range(9): print('{\"step\": NaN, \"time\": NaN}', file=log)"
    )]})})  # fmt: skip
    for _ in range(2):
        with pytest.raises(UserError, match=r"left no row.* The first line that cannot be read: .*its time is nan"):
            if (tmp_path / "trials").exists():
                launcher.launch(TrialFolder(tmp_path / "trials/0000"))
            else:
                measured(tmp_path, request)
    assert not (tmp_path / "trials/0000/outcome.json").exists()


@pytest.mark.alone
@pytest.mark.parametrize("does", ["a long line", "many lines"])
def test_a_program_that_prints_very_much_is_measured(does: str, tmp_path: Path):
    """Lines of 25 MB, and 72 MB of short ones, of which the trial's log keeps the beginning and the end."""
    began = time.monotonic()
    measured(tmp_path / "quiet", a_request(an_arm("")))
    quiet_s = time.monotonic() - began
    record, trial = measured(tmp_path, a_request(an_arm(does)))
    assert record.outcome.status == "ok" and len(read_rows(trial)) == 5
    assert 40e6 < trial.log.stat().st_size < 51e6
    said = " ".join(record.outcome.warnings)
    assert "trial.log lacks" in said and ("printed lines were read to 65,536 bytes only" in said) is (
        does == "a long line"
    )
    longest_s = max(known(row.iteration_s) for row in read_rows(trial)[1:])
    assert longest_s < 2 * quiet_s, "a whole trial that prints nothing"


def test_the_last_words_of_a_program_cannot_steer_a_terminal(tmp_path: Path):
    with pytest.raises(UserError, match="RuntimeError: the reason y") as error:
        measured(tmp_path, a_request(an_arm("escapes")))
    assert "\x1b" not in str(error.value) and "\u202e" not in str(error.value) and len(str(error.value)) < 3_000
