"""Trials, and scripts, without the time that Python and Isaac Lab take to start: a trial is a fork of a server that has imported both.

Launcher, simulator, files, log, time limit and exit status are as ever. Only Python's start is not: sweeps, ranks, and whatever
looks at processes or their variables start trials as users do.
"""

import functools
import multiprocessing
import os
import subprocess
import sys
from multiprocessing.forkserver import ensure_running
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any
from unittest import mock

import torch
import trial_process
from environment import ENVIRONMENT
from envknee import trainers
from envknee.ask.ask import write_request
from envknee.record.schema import Record
from envknee.run import claim, worker
from envknee.run import launch as launcher
from envknee.study import space
from envknee.study.load import read_study
from envknee.study.paths import StudyFolder, TrialFolder
from envknee.tasks import kernels
from places import PROGRAMS

SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(
    [
        "envknee.run.training", *kernels.MODULES, "newton._src.solvers.mujoco", "rsl_rl.runners",
        "isaaclab_tasks.core.cartpole.cartpole_direct_camera_env", *(f"envknee.trainers.{name}" for name in trainers.names()),
        "trial_process",
    ]
)  # fmt: skip
"""It imports this, but for what is not installed, and does nothing else: a fork of a process that had threads may wait for ever."""

ONE_THREAD = {"PXR_WORK_THREAD_LIMIT": "1", "OPENBLAS_NUM_THREADS": "1"}
"""USD and NumPy would start threads when they are imported."""


def launch(trial: TrialFolder) -> Record:
    """Measure a trial of one process, as the launcher does."""
    if torch.cuda.is_available():  # CUDA does not survive a fork
        return launcher.launch(trial)
    with mock.patch.dict(os.environ, ONE_THREAD | {"PYTHONPATH": os.pathsep.join(sys.path)}):
        ensure_running()  # before the launcher, which ends whatever was started meanwhile
        wait_for_imports()
    starts = SimpleNamespace(Popen=Fork, STDOUT=subprocess.STDOUT)
    with mock.patch.object(worker, "subprocess", starts):
        return launcher.launch(trial)


@functools.cache
def wait_for_imports() -> None:
    """Wait until the server has imported what it should: that takes 15 s, which are none of a trial's time."""
    first = SERVER.Process(target=int)
    first.start()
    first.join()


def measure(study_file: Path, folder: StudyFolder) -> None:
    """Ask for and measure all trials of a study, as a sweep would before its verdict."""
    study = read_study(study_file)
    with claim.take(study, folder):
        for number in range(len(space.plan(study))):
            write_request(study, folder, number)
            launch(folder.trial(number))


def run_script(name: str, *arguments: object, folder: Path) -> str:
    """Run a script of tests/programs in a Python of its own, and return what it prints. It must end with status 0."""
    command = [sys.executable, str(PROGRAMS / name), *map(str, arguments)]
    done = subprocess.run(
        command, cwd=folder, env=ENVIRONMENT | dict(os.environ), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, timeout=400, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return done.stdout


class Fork:
    """Runs `python -m envknee.run.process TRIAL` without starting Python anew; the launcher waits for it as for any other process."""

    def __init__(self, command: list[str], *, stdout: IO[str], env: dict[str, str], **_: Any) -> None:
        """Start it, with its output in `stdout`."""
        words = command[command.index("envknee.run.process") :]
        self._process = SERVER.Process(target=trial_process.be, args=(words, stdout.name, env))
        self._process.start()
        self.pid = self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("envknee.run.process", timeout or 0.0)
        return self._process.exitcode

    returncode = property(poll)
