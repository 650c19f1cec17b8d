"""A launcher that gets SIGKILL leaves nothing behind, and the next one measures beside nothing: `trainer: command` through a shell."""

import random
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from camera_trials import started_launcher
from envknee.machine import gpus
from envknee.machine.processes import KEEPER
from envknee.record.read import load_record
from envknee.study.files import canonical_json, write_atomically
from envknee.study.paths import TrialFolder
from foreign_commands import FIELDS, a_request
from places import PROGRAMS
from waiting import wait_for

WRAPPER = """
mark=$1; shift
(setsid "$@" daemon "$mark" "$$" &)
trap '' TERM
"$@" trains "$mark" "$$"
"""

IN_JSON = {"source": "jsonl", "path": "log.jsonl", "step": "frames", "time_name": "time"}


def a_wrapped_trial(folder: Path) -> tuple[TrialFolder, str]:
    """Return a trial whose command is a shell script that starts Python and a daemon, and a mark on the command lines of all three."""
    wrapper, mark = folder / "train.sh", str(folder / "mark")
    wrapper.write_text(WRAPPER)
    argv = ["bash", str(wrapper), mark, sys.executable, str(PROGRAMS / "watchful_trainer.py")]
    rows = IN_JSON | {"names": {name: f"train/{field}" for name, field in FIELDS.items()}}
    arm: dict[str, Any] = {"trainer": "command", "gpus": 0, "command": {"argv": argv, "rows": rows}}
    trial = TrialFolder(folder / "trials" / "0000")
    trial.root.mkdir(parents=True)
    write_atomically(trial.request, canonical_json(a_request(arm, iterations=10)))
    return trial, mark


def marked(mark: str) -> list[list[str]]:
    """Return the command lines of all processes that run a trial's command."""
    lines = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            words = process.cmdline()
            if mark in words and process.status() != psutil.STATUS_ZOMBIE:
                lines.append(words)
    return lines


def processes_of(trial: TrialFolder) -> dict[str, psutil.Process]:
    """Return the processes of ours that a trial has: its launcher, its keeper, and the process that follows the command."""
    found = {}
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            words = process.cmdline()
            if str(trial.root) in words and process.status() != psutil.STATUS_ZOMBIE:
                kind = "process"
                if "envknee.run.launch" in words:
                    kind = "launcher"
                if KEEPER in words:
                    kind = "keeper"
                found[kind] = process
    return found


@pytest.fixture
def locks(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "locks").mkdir()
    return {gpus.OTHER_LOCKS: str(tmp_path / "locks")}


@pytest.mark.alone
def test_twenty_killed_launchers_leave_nothing_and_none_measures_beside_another(tmp_path: Path, locks: dict[str, str]):
    trial, mark = a_wrapped_trial(tmp_path)
    dice = random.Random(54)  # noqa: S311  draws no secret
    starts = Path(f"{mark}.starts")
    for kill in range(20):
        # Every other one is killed while the command runs, the others anywhere.
        before = starts.read_text().count("\n") if starts.exists() else 0
        launcher = started_launcher(trial, **locks)
        if kill % 2:
            wait_for(lambda before=before: starts.exists() and starts.read_text().count("\n") > before, 60)
            time.sleep(dice.uniform(0.0, 0.6))
        else:
            time.sleep(dice.uniform(0.0, 2.5))
        launcher.kill()
        launcher.wait()
        if kill % 5 == 4:
            wait_for(lambda: not marked(mark) and not processes_of(trial), 60)
    assert started_launcher(trial, **locks).wait(120) == 0
    assert load_record(trial).outcome.status == "ok"
    beside = Path(f"{mark}.beside")
    assert not beside.exists(), beside.read_text()
    assert not marked(mark) and not processes_of(trial)


@pytest.mark.alone
def test_a_launcher_waits_until_the_killed_ones_processes_are_gone(tmp_path: Path, locks: dict[str, str]):
    """Its keeper is stopped, as if killing took long: until it goes on, its command lives, and holds the locks."""
    trial, mark = a_wrapped_trial(tmp_path)
    first = started_launcher(trial, **locks)
    wait_for(lambda: Path(f"{mark}.starts").exists(), 60)
    keeper = processes_of(trial)["keeper"]
    keeper.send_signal(signal.SIGSTOP)
    first.kill()
    first.wait()
    second = started_launcher(trial, **locks)
    time.sleep(4.0)
    assert Path(f"{mark}.starts").read_text() == "started\n", "the second one measures beside the first one's command"
    assert marked(mark), "the first one's command lives as long as its keeper does nothing"
    keeper.send_signal(signal.SIGCONT)
    assert second.wait(120) == 0 and load_record(trial).outcome.status == "ok"
    assert not Path(f"{mark}.beside").exists() and not marked(mark)


def program_of(mark: str) -> dict[str, psutil.Process]:
    """Return the program of a trial's command, which trains below its shell."""
    found = {}
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            words = process.cmdline()
            if mark in words and "trains" in words and not words[0].endswith("bash"):
                found["program"] = process
    return found


@pytest.mark.alone
@pytest.mark.parametrize("killed", ["keeper", "process", "program"])
def test_a_kill_leaves_nothing_behind_and_is_no_crash_of_the_program(
    killed: str, tmp_path: Path, locks: dict[str, str]
):
    trial, mark = a_wrapped_trial(tmp_path)
    starts = Path(f"{mark}.starts")
    for before in range(3):
        launcher = started_launcher(trial, **locks)
        wait_for(lambda before=before: starts.exists() and starts.read_text().count("\n") > before, 60)
        (processes_of(trial) | program_of(mark))[killed].kill()
        assert launcher.wait(60) == 2, "it may be tried again"
        assert not marked(mark) and not processes_of(trial)
        assert not trial.outcome.exists(), trial.outcome.read_text()
    assert started_launcher(trial, **locks).wait(120) == 0 and load_record(trial).outcome.status == "ok"
