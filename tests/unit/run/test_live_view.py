"""A program in Snakemake's place beside a live view: what a terminal shows of it, and that it ends as without one."""

import subprocess
import sys
from pathlib import Path

import pytest
from environment import ENVIRONMENT
from envknee.run import live
from envknee.run.tail import Tail
from envknee.study.paths import StudyFolder
from programs import python
from records import a_study, fps_trials, write_study
from terminal import OnTerminal, on_terminal
from waiting import wait_for

SIZES = {"throughput": {"num_envs": [16, 32], "horizon": [8], "batch_size": 128, "repeats": 2}}
FPS = {16: [100.0, 101.0], 32: [190.0, 191.0]}


def test_a_view_is_for_terminals_and_for_sweeps() -> None:
    term = {"TERM": "xterm"}
    assert live.shows_view(is_plain=False, is_terminal=True, environment=term)
    assert not live.shows_view(is_plain=True, is_terminal=True, environment=term)
    assert not live.shows_view(is_plain=False, is_terminal=False, environment=term)
    for variables in ({"TERM": "dumb"}, {}, term | {"CI": "true"}):
        assert not live.shows_view(is_plain=False, is_terminal=True, environment=variables)
    assert live.measures(["--resources", "device=2", "--configfile", "a.yaml", "--config", "more_throughput=3"])
    assert live.measures(["--cores=2", "--keep-going"])
    for word in ("-n", "--dry-run", "--summary", "--help", "--dag", "-np"):
        assert not live.measures(["--configfile", "a.yaml", word]), word


def test_why_a_sweep_failed_is_what_comes_after_the_last_trial() -> None:
    log = [
        "Building DAG of jobs...",
        "[1/9] throughput ...",
        "[ 2/9] throughput ...",
        "",
        "Error in rule trial:",
        "  x",
    ]
    assert live.last_lines(log) == ["Error in rule trial:", "  x"]
    assert live.last_lines(log[:1]) == log[:1]
    assert live.last_lines([*log, *map(str, range(100))]) == [*map(str, range(100 - live.MOST_LAST_LINES, 100))]


def test_why_a_view_ended_is_one_line() -> None:
    assert live.why_ended("envknee: x is broken\nMend it.\n") == "x is broken"
    assert live.why_ended("Traceback (most recent call last):\n  File ...\nKeyError: 4\n") == "KeyError: 4"
    assert live.why_ended("") == "it was killed"


def test_lines_are_read_once_and_whole(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes("of an earlier sweep\nü1\nhal".encode())
    tail = Tail(log, len("of an earlier sweep\n"))
    assert tail.lines() == ["ü1"] and tail.lines() == []
    with log.open("ab") as more:
        more.write(b"f\n\xff\n")
    assert tail.lines() == ["half", "\ufffd"]


def beside_a_view(folder: StudyFolder, before: str, shown: str, after: str) -> OnTerminal:
    """Run a program of Python in Snakemake's place, on a terminal: it does what `after` says once the terminal has shown `shown`."""
    go = folder.root / "go"
    wait = f"import sys, time, pathlib\nwhile not pathlib.Path({str(go)!r}).exists(): time.sleep(0.1)"
    program = f"print({before!r}, flush=True)\n{wait}\n{after}"
    command = [sys.executable, "-m", "envknee.run.live", folder.root, sys.executable, "-c", program]
    return on_terminal(command, folder.root, ENVIRONMENT, lambda printed, _: shown in printed and go.touch())


@pytest.fixture
def folder(tmp_path: Path) -> StudyFolder:
    return write_study(tmp_path / "demo", a_study(**SIZES), fps_trials(FPS)[:3])


def test_the_view_fills_up_while_the_lines_go_to_a_log_and_an_error_is_shown(folder: StudyFolder) -> None:
    said = "envknee: said above the view"
    status, printed = beside_a_view(folder, said, "3 of 4 done", "print('Error: why it failed'); sys.exit(3)")
    assert status == 3
    log = folder.root / "logs/sweep.log"
    assert f"Snakemake's lines go to {log}" in printed.replace("\n", "") and "3 of 4 done" in printed
    assert "16  ■ ■" in printed and "32  ■ ·" in printed and said in printed
    assert printed.rstrip().endswith(f"{said}\nError: why it failed") and "ended with status 3" in printed
    assert log.read_text(encoding="utf-8") == f"{said}\nError: why it failed\n"


def test_a_view_that_breaks_is_told_once_and_the_lines_follow(folder: StudyFolder) -> None:
    folder.study.write_text("no study", encoding="utf-8")
    status, printed = beside_a_view(folder, "early", "and its lines follow", "print('late'); sys.exit(0)")
    assert status == 0
    assert printed.count("the live view has ended (") == 1 and f"ended ({folder.study}" in printed.replace("\n", "")
    assert printed.rstrip().endswith("late") and "Traceback" not in printed


def test_in_a_pipe_nothing_is_added_to_the_lines(folder: StudyFolder) -> None:
    command = ("-m", "envknee.run.live", folder.root, sys.executable, "-c", "print('as ever'); exit(5)")
    done = python(*command, env=ENVIRONMENT)
    assert (done.returncode, done.stdout, done.stderr) == (5, "as ever\n", "")
    assert not (folder.root / "logs").exists()


def test_a_sweep_that_is_killed_begins_no_further_trial(folder: StudyFolder) -> None:
    """Snakemake gets SIGTERM, by which it begins nothing more. Without it, it would measure the whole study."""
    told = "trap 'touch told; exit' TERM; touch began; while :; do sleep 0.1; done"
    command = [sys.executable, "-m", "envknee.run.live", str(folder.root), "sh", "-c", told]
    sweep = subprocess.Popen(command, cwd=folder.root, env=ENVIRONMENT)
    wait_for((folder.root / "began").exists)
    sweep.kill()
    sweep.wait()
    wait_for((folder.root / "told").exists)
