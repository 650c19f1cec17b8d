"""A trial that was stopped and goes on is measured again: its times are not the program's. So it is with Isaac Lab and with commands."""

import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest
from conftest import a_trial, has_rows, started_launcher, wait_for
from envknee.machine import gpus
from envknee.record.read import load_record
from envknee.record.schema import Outcome
from envknee.study.files import canonical_json, read_model, write_atomically
from envknee.study.paths import TrialFolder
from test_command_trainer import a_request, an_arm


def a_command(folder: Path, **changes: object) -> TrialFolder:
    """Return a trial of a command whose iterations take 0.03 s."""
    trial = TrialFolder(folder / "trials" / "0000")
    trial.root.mkdir(parents=True)
    write_atomically(trial.request, canonical_json(a_request(an_arm(), **{"iterations": 200} | changes)))
    return trial


def of_isaac_lab(folder: Path) -> TrialFolder:
    return a_trial(folder / "trial", num_envs=4, horizon=4, batch_size=16, iterations=60)


def all_of(launcher: "subprocess.Popen[bytes]") -> list[psutil.Process]:
    """Return a launcher, its keeper, and the processes of its trial."""
    whole = psutil.Process(launcher.pid)
    return [whole, *whole.children(recursive=True)]


def suspended(launcher: "subprocess.Popen[bytes]", pause_s: float) -> None:
    """Stop a launcher with all that it started, as `scontrol suspend` does, and let it go on."""
    processes = all_of(launcher)
    for number in (signal.SIGSTOP, signal.SIGCONT):
        for process in processes:
            process.send_signal(number)
        time.sleep(pause_s if number == signal.SIGSTOP else 0)


@pytest.mark.alone
@pytest.mark.parametrize("make", [a_command, of_isaac_lab])
def test_a_suspended_trial_has_no_result_and_is_measured_again(make, tmp_path: Path) -> None:
    trial, locks = make(tmp_path), {gpus.OTHER_LOCKS: str(tmp_path)}
    launcher = started_launcher(trial, **locks)
    wait_for(lambda: has_rows(trial), 120)
    before = all_of(launcher)
    suspended(launcher, pause_s=1.0)
    assert launcher.wait(60) == 2, "it may be tried again"
    assert not trial.outcome.exists() and not trial.record.exists()
    assert "went on (SIGCONT, as after `scontrol suspend`" in trial.log.read_text()
    assert not [process for process in before if process.is_running()]
    assert started_launcher(trial, **locks).wait(120) == 0
    record = load_record(trial)
    assert (record.outcome.status, record.lost_attempts) == ("ok", 1)


@pytest.mark.alone
def test_a_pause_longer_than_the_time_limit_is_no_timeout(tmp_path: Path) -> None:
    trial, locks = a_command(tmp_path, limit_s=15.0), {gpus.OTHER_LOCKS: str(tmp_path)}
    launcher = started_launcher(trial, **locks)
    wait_for(lambda: has_rows(trial), 60)
    suspended(launcher, pause_s=16.0)
    assert launcher.wait(60) == 2
    assert not trial.outcome.exists(), "a timeout would count as a result"


@pytest.mark.alone
def test_a_pause_before_training_is_a_warning(tmp_path: Path) -> None:
    trial = of_isaac_lab(tmp_path)
    launcher = started_launcher(trial, **{gpus.OTHER_LOCKS: str(tmp_path)})
    wait_for(trial.environment.exists, 120)
    _, _, process = all_of(launcher)
    for number in (signal.SIGSTOP, signal.SIGCONT):
        process.send_signal(number)
    assert launcher.wait(120) == 0
    (said,) = read_model(trial.outcome, Outcome, "").warnings
    assert "stopped for a while and went on" in said
