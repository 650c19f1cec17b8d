"""A trial that is stopped and continued, as by `scontrol suspend`: what took time is measured again, what did not is kept."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from camera_trials import a_trial as a_camera_trial
from camera_trials import has_rows
from environment import ENVIRONMENT
from envknee.machine.processes import note_pauses
from envknee.record.read import load_record
from envknee.record.schema import Status
from envknee.run.supervise import Supervised
from envknee.study.files import canonical_json, write_atomically
from envknee.study.paths import TrialFolder
from foreign_commands import a_request, an_arm
from programs import told
from records import a_trial, write_trial
from waiting import wait_for


@pytest.fixture
def noted() -> Iterator[None]:
    before = signal.getsignal(signal.SIGCONT)
    note_pauses()
    yield
    signal.signal(signal.SIGCONT, before)


def launcher_of(trial: TrialFolder) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "envknee", "launch", str(trial.root)]
    return subprocess.Popen(
        command, env=ENVIRONMENT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )


def test_a_trial_that_was_paused_is_lost_and_measured_again(tmp_path: Path) -> None:
    trial = TrialFolder(tmp_path / "results/demo/trials/0000")
    trial.root.mkdir(parents=True)
    request = a_request(an_arm(), iterations=100)
    write_atomically(trial.request, canonical_json(request))
    launcher = launcher_of(trial)
    wait_for(lambda: trial.metrics.exists() and trial.metrics.stat().st_size > 0, timeout_s=60)
    os.killpg(launcher.pid, signal.SIGSTOP)
    os.killpg(launcher.pid, signal.SIGCONT)
    _, said = launcher.communicate(timeout=60)
    assert launcher.returncode == 2 and "paused and continued while it was measured" in said, said
    assert not trial.outcome.exists() and not trial.record.exists()
    assert list(trial.root.glob("metrics.interrupted-1*"))
    again = launcher_of(trial)
    _, said = again.communicate(timeout=60)
    assert again.returncode == 0, said
    record = load_record(trial)
    assert (record.outcome.status, record.lost_attempts) == ("ok", 1)


def of_isaac_lab(folder: Path) -> TrialFolder:
    return a_camera_trial(folder / "results/demo/trials/0000", num_envs=4, iterations=60)


def of_a_command(folder: Path) -> TrialFolder:
    trial = TrialFolder(folder / "results/demo/trials/0000")
    trial.root.mkdir(parents=True)
    write_atomically(trial.request, canonical_json(a_request(an_arm(), iterations=200)))
    return trial


def pause(launcher: "subprocess.Popen[str]") -> psutil.Process:
    """Stop the process of a launcher's trial and let it go on; return it."""
    (keeper,) = psutil.Process(launcher.pid).children()
    (process,) = [child for child in keeper.children() if "envknee.run.process" in child.cmdline()]
    process.suspend()
    process.resume()
    return process


@pytest.mark.alone
@pytest.mark.parametrize("make", [of_a_command, of_isaac_lab])
def test_a_pause_of_the_trials_own_process_counts_too(make: Callable[[Path], TrialFolder], tmp_path: Path) -> None:
    """As `kill -STOP` of it alone: its launcher goes on, and sees nothing."""
    trial = make(tmp_path)
    launcher = launcher_of(trial)
    if make is of_isaac_lab:
        wait_for(trial.environment.exists, timeout_s=120)
        pause(launcher)  # before training: no row is lost by it
    wait_for(lambda: has_rows(trial), timeout_s=120)
    process = pause(launcher)
    _, said = launcher.communicate(timeout=60)
    assert launcher.returncode == 2 and "its process was stopped and continued while it was measured" in said, said
    assert not trial.outcome.exists() and not process.is_running()
    assert launcher_of(trial).wait(120) == 0
    record = load_record(trial)
    assert (record.outcome.status, record.lost_attempts) == ("ok", 1)


@pytest.mark.parametrize(("status", "counts"), [("ok", False), ("oom", True), ("nan", True)])
def test_a_result_counts_after_a_pause_if_no_time_is_in_it(
    tmp_path: Path, noted: None, status: Status, counts: bool
) -> None:
    trial, measured = TrialFolder(tmp_path / "0000"), a_trial(32, status=status)
    supervised = Supervised(trial, measured.request, dict)
    write_trial(trial, measured)
    trial.record.unlink()
    os.kill(os.getpid(), signal.SIGCONT)
    if counts:
        supervised.conclude(0)
        assert trial.outcome.exists()
    else:
        told(lambda: supervised.conclude(0), "paused and continued", "Run the sweep again")
        assert not trial.outcome.exists() and trial.request.exists()


def test_a_pause_before_a_trial_is_none_of_its(tmp_path: Path, noted: None) -> None:
    os.kill(os.getpid(), signal.SIGCONT)
    trial, measured = TrialFolder(tmp_path / "0000"), a_trial(32)
    supervised = Supervised(trial, measured.request, dict)
    write_trial(trial, measured)
    supervised.conclude(0)
    assert trial.outcome.exists()
