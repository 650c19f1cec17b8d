"""Trials, and scripts, whose process is a fork of the tests' own, where Isaac Lab is imported already: a fifth of the time.

Launcher, simulator, files, log, time limit and exit status are as ever. Only Python's start is not: sweeps, ranks, and whatever
looks at processes or their variables start trials as users do.
"""

import gc
import importlib
import os
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any
from unittest import mock

import gymnasium
import torch
from conftest import ENVIRONMENT
from envknee import trainers
from envknee.ask.ask import write_request
from envknee.record.schema import Record, Request
from envknee.run import launch as launcher
from envknee.run import worker
from envknee.study import claim, space
from envknee.study.errors import UserError, run_command
from envknee.study.files import read_model
from envknee.study.load import read_study
from envknee.study.paths import StudyFolder, TrialFolder
from envknee.tasks import kernels


def launch(trial: TrialFolder) -> Record:
    """Measure a trial of one process, as the launcher does."""
    if torch.cuda.is_available():  # CUDA does not survive a fork
        return launcher.launch(trial)
    _import_for(read_model(trial.request, Request, ""))
    gc.freeze()
    starts = SimpleNamespace(Popen=Fork, STDOUT=subprocess.STDOUT)
    with mock.patch.object(worker, "subprocess", starts):
        return launcher.launch(trial)


def measure(study_file: Path, folder: StudyFolder) -> None:
    """Ask for and measure all trials of a study, as a sweep would before its verdict."""
    study = read_study(study_file)
    with claim.take(study, folder):
        for number in range(len(space.plan(study))):
            write_request(study, folder, number)
            launch(folder.trial(number))


def run_script(code: str, *arguments: object, folder: Path) -> str:
    """Run a script in a Python of its own, and return what it prints. It must end with status 0.

    No fork: a script trains in whatever threads it likes, and a fork of a process that had threads may wait for one forever.
    """
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(
        command, cwd=folder, env=ENVIRONMENT | dict(os.environ), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, timeout=400, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return done.stdout


def _import_isaac_lab() -> None:
    for module in (*kernels.MODULES, "newton._src.solvers.mujoco", "isaaclab_rl.rsl_rl", "rsl_rl.runners"):
        importlib.import_module(module)


def _import_for(request: Request) -> None:
    """Import what a trial would; what it refuses it shall refuse itself."""
    _import_isaac_lab()
    with suppress(UserError):
        trainers.load(request.trainer).resolve(request, "cpu")
        importlib.import_module(str(gymnasium.spec(request.task_id).entry_point).partition(":")[0])


class Fork(subprocess.Popen[bytes]):
    """Runs `python -m envknee.run.process TRIAL` without starting Python anew; it is waited for as any other process."""

    def __init__(self, command: list[str], *, stdout: IO[str], env: dict[str, str], **_: Any) -> None:
        """Start it, with its output in `stdout`."""
        place = command.index("envknee.run.process")
        self.args, self.returncode, self._waitpid_lock = command, None, threading.Lock()
        self.pid = _fork(stdout, env, lambda: run_trial(command[place:]))


def _fork(stdout: IO[str], env: dict[str, str], run: Callable[[], None]) -> int:
    """Call `run` in a child with a session of its own, and return the child's number."""
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            _become(stdout, env)
            run()
        finally:
            os._exit(1)  # whatever happened, no second pytest goes on from here
    return pid


def _become(stdout: IO[str], env: dict[str, str]) -> None:
    """Take another process's output and variables."""
    os.dup2(stdout.fileno(), 1)
    os.dup2(stdout.fileno(), 2)
    sys.stdout, sys.stderr = (os.fdopen(number, "w", buffering=1, closefd=False) for number in (1, 2))
    os.environ.clear()
    os.environ.update(env)
    torch.set_num_threads(1)  # more would need threads that a fork has not


def run_trial(arguments: list[str]) -> None:
    """Run a trial in this process, and end it with its exit status."""
    from envknee.run import process

    sys.argv = arguments
    _ending_with_its_status(lambda: run_command(process.main, "envknee.run.process"))


def _ending_with_its_status(run: Callable[[], object]) -> None:
    status: Any = 0
    try:
        run()
    except SystemExit as end:
        status = end.code
    except BaseException:
        status = 1
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
